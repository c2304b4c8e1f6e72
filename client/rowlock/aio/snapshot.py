"""Snapshots (asyncio): one moment of a whole table, for as many scans as wanted."""

from __future__ import annotations

import contextlib
from types import TracebackType

from rowlock_proto.v1 import catalog_pb2

from rowlock._core.snapshot_requests import TakenSnapshot, make_request, new_snapshot_id
from rowlock._transport import methods
from rowlock.aio._transport.servers import Servers
from rowlock.errors import RowlockError


async def make_snapshot(
    servers: Servers, table: str, snapshot_id: bytes, incarnation_id: str, lease_ms: int, timeout_s: float
) -> catalog_pb2.Snapshot:
    """Makes the snapshot of this id, or renews it if it is there; so it may be called again, from anywhere.

    incarnation_id: ServerInfo's when the id was chosen, so that a server which has been started anew since doesn't make
    it a second time; empty: not looked at. lease_ms 0: the server's default. Raises SnapshotEndedError.
    """
    request = make_request(table, snapshot_id, incarnation_id, lease_ms)
    return (await servers.call(methods.MAKE_SNAPSHOT, request, timeout_s)).snapshot


async def renew_snapshot(servers: Servers, snapshot_id: bytes, timeout_s: float) -> catalog_pb2.Snapshot:
    """Begins its lease anew. Raises SnapshotEndedError."""
    request = catalog_pb2.RenewSnapshotRequest(snapshot_id=snapshot_id)
    return (await servers.call(methods.RENEW_SNAPSHOT, request, timeout_s)).snapshot


async def end_snapshot(servers: Servers, snapshot_id: bytes, timeout_s: float) -> None:
    """Lets it go; scans that have begun go on. No error when it has ended."""
    request = catalog_pb2.EndSnapshotRequest(snapshot_id=snapshot_id)
    await servers.call(methods.END_SNAPSHOT, request, timeout_s)


class Snapshot(TakenSnapshot):
    """One moment of a whole table, as `Client.snapshot` gives it: give it to `scan`, as often as wanted.

    Every scan begins its lease anew, and it doesn't end while one reads. Leaving its `async with` block ends it; so do
    its lease, the drop or truncation of its table, and the stop of its server. Then scans raise SnapshotEndedError.
    What it sees stays on the server's disk meanwhile.
    """

    def __init__(self, servers: Servers, message: catalog_pb2.Snapshot, timeout_s: float) -> None:
        super().__init__(message)
        self._servers = servers
        self._timeout_s = timeout_s

    def __repr__(self) -> str:
        return f"<rowlock.aio.Snapshot {self.id.hex()} of {self.table!r}>"

    async def renew(self) -> None:
        """Begins its lease anew, as every scan does. Raises SnapshotEndedError."""
        await renew_snapshot(self._servers, self.id, self._timeout_s)

    async def end(self) -> None:
        """Lets it go; scans that have begun go on to their end. Idempotent."""
        await end_snapshot(self._servers, self.id, self._timeout_s)

    async def __aenter__(self) -> Snapshot:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A server that can't be asked lets go of it after its lease.
        with contextlib.suppress(RowlockError):
            await self.end()


async def new_snapshot(servers: Servers, table: str, lease_ms: int, timeout_s: float) -> Snapshot:
    """See Client.snapshot."""
    message = await make_snapshot(servers, table, new_snapshot_id(), "", lease_ms, timeout_s)
    return Snapshot(servers, message, timeout_s)
