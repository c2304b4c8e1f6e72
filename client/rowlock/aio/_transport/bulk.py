"""put_arrow (asyncio): batches of cells on a stream, the next ones on their way while the server syncs."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeAlias

import grpc
from rowlock_proto.v1 import region_pb2, types_pb2

from rowlock._codec.columns import Text, check_timestamp
from rowlock._core.bulk_input import ArrowInput, cell_batches
from rowlock._core.bulk_send import BulkSend, checked_batch_bytes
from rowlock._core.view import View, checked_timeout
from rowlock._transport import methods
from rowlock.aio._transport.ended import ended_with
from rowlock.aio._transport.servers import Servers
from rowlock.bulk_outcome import BulkResult
from rowlock.errors import (
    DeadlineError,
    RowlockError,
    ServerUnavailableError,
)
from rowlock.mapping import Mapping, as_mapping
from rowlock.schema import Region

# Any: grpc only asks that it can be serialized.
BulkCall: TypeAlias = "grpc.aio.StreamStreamCall[Any, region_pb2.BulkAnswer]"


async def put_arrow(
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
            async with contextlib.aclosing(_answers(servers, send)) as answers:
                async for _ in answers:
                    # What it raises is the caller's, and no failure of the stream.
                    if on_progress is not None:
                        on_progress(send.row_count)
            pause, send.pause_s = send.pause_s, 0.0
            await asyncio.sleep(pause)
        return send.finish()
    finally:
        send.stop()


async def _answers(servers: Servers, send: BulkSend) -> AsyncGenerator[None]:
    """Sends and receives on one stream until nothing is left, the stream is lost, or a batch must pause.

    Yields at each answer that has come.
    """
    stream: BulkCall | None = None
    address = folder_id = ""
    try:
        while True:
            # Making cells takes long enough to keep it from the loop.
            while (bulk := await asyncio.to_thread(send.next, time.monotonic())) is not None:
                region = await servers.region_of(send.table, bulk.first_row, time.monotonic() + send.timeout_s)
                if stream is None:
                    address, folder_id = region.server, region.data_folder_id
                    stream = _open_stream(servers, region)
                elif (address, folder_id) != (region.server, region.data_folder_id):
                    break
                message = await asyncio.to_thread(send.message, bulk, region)
                with servers.closing_is_told():
                    await _write(stream, message, send.timeout_s)
            if stream is None or not send.is_waiting:
                return
            with servers.closing_is_told():
                answer = await _take(stream, address, send.timeout_s)
            answering = send.answered(answer, time.monotonic())
            if answer.error.code == types_pb2.Error.NOT_SERVING_REGION:
                servers.regions.forget(answering)
            yield
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        # A failed write does not know why the stream ended; its status does.
        assert stream is not None, "only a stream fails so"
        send.lost(servers.judged(await ended_with(stream), address), time.monotonic())
    except RowlockError as error:
        send.lost(error, time.monotonic())
    finally:
        if stream is not None:
            stream.cancel()


def _open_stream(servers: Servers, region: Region) -> BulkCall:
    return servers.channel(region.server).stream_stream(
        methods.BULK_PUT.path,
        request_serializer=methods.BULK_PUT.serialize,
        response_deserializer=methods.BULK_PUT.parse,
    )(metadata=servers.metadata(region))


async def _write(stream: BulkCall, message: region_pb2.BulkBatch, timeout_s: float) -> None:
    """Waits until the server takes the batch; raises DeadlineError when it did not in time."""
    try:
        async with asyncio.timeout(timeout_s):
            await stream.write(message)
    except TimeoutError:
        raise DeadlineError(f"no batch was taken within {timeout_s:g} s") from None


async def _take(stream: BulkCall, address: str, timeout_s: float) -> region_pb2.BulkAnswer:
    """The next answer; raises DeadlineError when none came in time, or what the stream ended with."""
    try:
        async with asyncio.timeout(timeout_s):
            answer = await stream.read()
    except TimeoutError:
        raise DeadlineError(f"no answer to a batch came within {timeout_s:g} s") from None
    if not isinstance(answer, region_pb2.BulkAnswer):
        raise ServerUnavailableError(f"the server at {address} ended the stream of batches")
    return answer
