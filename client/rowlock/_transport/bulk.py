"""put_arrow (threads): batches of cells on a stream, the next ones on their way while the server syncs."""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Callable, Generator

import grpc
from rowlock_proto.v1 import region_pb2, types_pb2

from rowlock._codec.columns import Text, check_timestamp
from rowlock._core.bulk_input import ArrowInput, cell_batches
from rowlock._core.bulk_send import BulkSend, checked_batch_bytes
from rowlock._core.view import View, checked_timeout
from rowlock._transport import methods
from rowlock._transport.fork import gate
from rowlock._transport.servers import Servers
from rowlock.bulk_outcome import BulkResult
from rowlock.errors import (
    ClosedError,
    DeadlineError,
    RowlockError,
    ServerUnavailableError,
)
from rowlock.mapping import Mapping, as_mapping
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
) -> BulkResult:
    """See Table.put_arrow."""
    check_timestamp(timestamp)
    parsed = None if mapping is None else as_mapping(mapping)
    batches = cell_batches(data, parsed, timestamp, checked_batch_bytes(batch_bytes, servers.request_bytes_max))
    send = BulkSend(
        view.table,
        batches,
        servers.sequences,
        view.durability,
        view.timeout_s,
        checked_timeout(busy_timeout),
        servers.repeated_for_s,
    )
    try:
        while not send.is_done:
            with contextlib.closing(_answers(servers, send)) as answers:
                for _ in answers:
                    # What it raises is the caller's, and no failure of the stream.
                    if on_progress is not None:
                        on_progress(send.row_count)
            pause, send.pause_s = send.pause_s, 0.0
            time.sleep(pause)
        return send.finish()
    finally:
        send.stop()


def _answers(servers: Servers, send: BulkSend) -> Generator[None]:
    """Sends and receives on one stream until nothing is left, the stream is lost, or a batch must pause.

    Yields at each answer that has come.
    """
    stream: _BulkStream | None = None
    try:
        while True:
            while (bulk := send.next(time.monotonic())) is not None:
                region = servers.region_of(send.table, bulk.first_row, time.monotonic() + send.timeout_s)
                if stream is None:
                    stream = _BulkStream(servers, region)
                elif not stream.leads_to(region):
                    break
                stream.put(send.message(bulk, region))
            if stream is None or not send.is_waiting:
                return
            answer = stream.take(send.timeout_s)
            answering = send.answered(answer, time.monotonic())
            if answer.error.code == types_pb2.Error.NOT_SERVING_REGION:
                servers.regions.forget(answering)
            yield
    except RowlockError as error:
        send.lost(error, time.monotonic())
    finally:
        if stream is not None:
            stream.close()


class _BulkStream:
    """One stream of bulk batches to one server. Used by one thread."""

    def __init__(self, servers: Servers, region: Region) -> None:
        self.address = region.server
        self._folder_id = region.data_folder_id
        self._servers = servers
        self._messages: queue.SimpleQueue[region_pb2.BulkBatch | None] = queue.SimpleQueue()
        with gate:
            open_stream = servers.channel(region.server).stream_stream(
                methods.BULK_PUT.path,
                request_serializer=methods.BULK_PUT.serialize,
                response_deserializer=methods.BULK_PUT.parse,
            )
            try:
                self._answers = open_stream(iter(self._messages.get, None), metadata=servers.metadata(region))
            except ValueError as failed:
                # grpc's word for a channel that was closed meanwhile.
                raise ClosedError("the client was closed") from failed

    def leads_to(self, region: Region) -> bool:
        """Whether the region's server, with its data folder, is at the other end."""
        return (region.server, region.data_folder_id) == (self.address, self._folder_id)

    def put(self, message: region_pb2.BulkBatch) -> None:
        """Never blocks; the window bounds what is in the queue."""
        self._messages.put(message)

    def take(self, timeout_s: float) -> region_pb2.BulkAnswer:
        """The next answer; raises DeadlineError when none came in time, or what the stream ended with."""
        with gate, self._servers.watch.limit(timeout_s, self._answers.cancel) as limit:
            try:
                answer = next(self._answers, None)
            except grpc.RpcError as failed:
                error = self._servers.judged(failed, self.address)
            else:
                if answer is not None:
                    return answer
                error = ServerUnavailableError(f"the server at {self.address} ended the stream of batches")
        if limit.has_struck:
            raise DeadlineError(f"no answer to a batch came within {timeout_s:g} s")
        raise error

    def close(self) -> None:
        self._messages.put(None)
        self._answers.cancel()
