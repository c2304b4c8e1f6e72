"""The RegionService's call on change feeds."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping

from rowlock_proto.v1 import region_pb2

from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.workers import Workers
from rowlock_regionserver.errors import InvalidRequestError, StoppingError
from rowlock_regionserver.host.changes import ChangesCall, ChangesHost, Start, read_changes
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.process import yield_now
from rowlock_regionserver.rpc.grpc.calls import Context, Method
from rowlock_regionserver.rpc.messages.arrow_stream import arrow_stream
from rowlock_regionserver.rpc.messages.failures import parsed

_STARTS: Mapping[int, Start] = {
    region_pb2.ReadChangesRequest.START_OLDEST: Start.OLDEST,
    region_pb2.ReadChangesRequest.START_NEWEST: Start.NEWEST,
}


class ChangeCalls:
    """One of the methods of rowlock.v1.RegionService. A pool of its own runs it: it may read many files."""

    def __init__(self, host: ChangesHost, workers: Workers, ledger: Ledger, config: Config) -> None:
        self._host = host
        self._workers = workers
        self._scans = ledger.scans
        self._work_bytes = 2 * config.scan_window_bytes

    def methods(self) -> dict[str, Method]:
        """Returns the method by its name in region.proto."""
        return {"ReadChanges": self._read_changes}

    async def _read_changes(self, data: bytes, _: Context) -> bytes:
        return await asyncio.get_running_loop().run_in_executor(self._workers.changes, self._read, data)

    @contextlib.contextmanager
    def _counted_memory(self) -> Iterator[None]:
        """Returns a context for a read, whose memory the ledger counts."""
        self._scans.add(self._work_bytes)
        try:
            yield
        finally:
            self._scans.give(self._work_bytes)

    def _between(self) -> None:
        if self._workers.is_stopping:
            raise StoppingError("the server is stopping; go on from the last offset at another one, or later")
        yield_now()

    def _read(self, data: bytes) -> bytes:
        message = parsed(region_pb2.ReadChangesRequest, data)
        with self._counted_memory():
            answer = read_changes(self._host, _call(message), self._between)
        response = region_pb2.ReadChangesResponse(
            region_id=answer.region_id,
            stop=answer.stop,
            offset=[
                region_pb2.ChangesRead(region_id=region_id, write_number=number)
                for region_id, number in sorted(answer.offset.items())
            ],
        )
        if answer.read is not None:
            window = answer.read.window
            response.arrow = b"".join(arrow_stream(window.changes)) if len(window.changes) else b""
            response.until = answer.read.until
            response.is_done = answer.read.is_done
            response.position = b"" if window.position is None else window.position.encode()
        return response.SerializeToString()


def _call(message: region_pb2.ReadChangesRequest) -> ChangesCall:
    offset: dict[int, int] = {}
    for entry in message.offset:
        if entry.region_id in offset:
            raise InvalidRequestError(f"the offset names region {entry.region_id} twice", table=message.table)
        offset[entry.region_id] = entry.write_number
    return ChangesCall(
        message.table,
        _STARTS.get(message.start, offset),
        row=message.row,
        until=message.until,
        position=message.position,
        until_region=message.region_id,
        bytes_max=message.bytes_max,
    )
