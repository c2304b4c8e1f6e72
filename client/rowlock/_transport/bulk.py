# Made from client/rowlock/aio/_transport/bulk.py by tools/async_to_sync.py: change that, then `make faces`.
"""put_arrow (threads): batches of rows or cells on a stream; the next ones are sent while the server syncs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterator

from rowlock_proto.v1 import types_pb2

from rowlock._codec.columns import Text, check_timestamp
from rowlock._core.bulk_input import ArrowInput, Piece, bulk_pieces, check_arrow_input
from rowlock._core.bulk_parts import Stage
from rowlock._core.bulk_send import BulkSend, checked_sizes
from rowlock._core.view import View, checked_timeout
from rowlock._transport.bulk_stream import BulkStream
from rowlock._transport.direct_bulk import DirectBulk
from rowlock._transport.kept_mapping import agreed_mapping, kept_mapping
from rowlock._transport.servers import Servers
from rowlock.bulk_outcome import BulkResult
from rowlock.errors import (
    BulkError,
    FamilyNotFoundError,
    InvalidArgumentError,
    MappingError,
    RowlockError,
    ServerUnavailableError,
)
from rowlock.mapping import Mapping
from rowlock.schema import Region


def put_arrow(
    servers: Servers,
    view: View[Text],
    data: ArrowInput,
    mapping: Mapping | str | None,
    timestamp: int | None,
    batch_bytes: int,
    busy_timeout: float,
    on_progress: Callable[[int], None] | None,
    *,
    is_partial: bool = False,
) -> BulkResult:
    """See Table.put_arrow. is_partial: as in bulk_pieces; so it is without a mapping."""
    check_timestamp(timestamp)
    check_arrow_input(data)
    sizes = checked_sizes(batch_bytes, servers.request_bytes_max, takes_rows=servers.takes_rows)
    if mapping is None:
        parsed, is_partial = kept_mapping(servers, view), True
    else:
        parsed = agreed_mapping(servers, view, mapping)
    pieces = bulk_pieces(data, parsed, timestamp, sizes, is_partial=is_partial, prefers_cells=mapping is None)
    try:
        return put_pieces(servers, view, pieces, busy_timeout, on_progress)
    except (BulkError, MappingError, InvalidArgumentError, FamilyNotFoundError):
        servers.regions.forget_table(view.table)  # The next call goes by the mapping that the table keeps then.
        raise


def put_pieces(
    servers: Servers,
    view: View[Text],
    pieces: Iterator[Piece],
    busy_timeout: float,
    on_progress: Callable[[int], None] | None,
    stage: Stage | None = None,
) -> BulkResult:
    """Does what put_arrow does, with input that is cut and converted already. stage: where; None: it is applied."""
    send = BulkSend(
        view.table,
        pieces,
        servers.sequences,
        view.durability,
        view.timeout_s,
        checked_timeout(busy_timeout, "busy_timeout"),
        servers.repeated_for_s,
    )
    send.stage = stage
    reported = 0
    try:
        while not send.is_done:
            with contextlib.closing(_answers(servers, send)) as answers:
                for _ in answers:
                    # Outside of _answers: an exception of the caller's function is not a failure of the stream.
                    if on_progress is not None:
                        reported = send.written_count
                        on_progress(reported)
            pause, send.pause_s = send.pause_s, 0.0
            time.sleep(pause)
        if on_progress is not None and send.written_count > reported:  # Batches without cells have no answer.
            on_progress(send.written_count)
        return send.finish()
    finally:
        send.stop()


def _answers(servers: Servers, send: BulkSend) -> Generator[None]:
    """Sends batches and receives answers on one stream. Ends when no batch is left, at a failure, or before a pause.

    Yields after each answer.
    """
    stream: BulkStream | DirectBulk | None = None
    try:
        while True:
            while (bulk := send.next(time.monotonic())) is not None:
                deadline = time.monotonic() + send.timeout_s
                region = servers.region_of(send.table, bulk.first_row, deadline)
                takes_rows = servers.takes_rows_at(region, deadline)
                if stream is not None and stream.has_received():
                    if send.is_waiting:
                        break
                    stream.close()  # The server has closed it, because it was idle.
                    stream = None
                if stream is None:
                    stream = _opened(servers, region, send.timeout_s, deadline)
                elif not stream.connects_to(region):
                    break
                stream.put(send.message(bulk, region, takes_rows=takes_rows))
            if stream is None or not send.is_waiting:
                return
            answer = stream.take()
            answering = send.answered(answer, time.monotonic())
            if answer.error.code == types_pb2.Error.NOT_SERVING_REGION:
                servers.regions.forget(answering)
            elif answer.error.code == types_pb2.Error.INVALID_ARGUMENT:
                # The server may be of an earlier version now, which refuses rows with this error.
                servers.protocols.pop(answering.server, None)
            yield
    except RowlockError as error:
        send.lost(error, time.monotonic(), may_have_begun=stream is None or stream.rest_may_have_begun)
    finally:
        if stream is not None:
            stream.close()


def _opened(servers: Servers, region: Region, timeout_s: float, deadline: float) -> BulkStream | DirectBulk:
    """Returns a stream to the region's server, on a direct connection of its own if there can be one.

    Raises RowlockError: the server does not answer at all, or the client was closed.
    """
    link = servers.link_to(region)
    try:
        opened = link.open_for(link.bulk, deadline)
    except ServerUnavailableError as error:
        raise servers.error_at(error, region.server) from None
    if opened is None:
        by_grpc = BulkStream(servers, region, timeout_s)
        link.bulk.grpc_count += 1
        return by_grpc
    stream = DirectBulk(servers, region, opened, link.bulk.kept, timeout_s)
    link.enter(stream, link.bulk)
    return stream
