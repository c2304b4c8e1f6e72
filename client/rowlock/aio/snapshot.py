"""Snapshots (asyncio): one moment of a whole table, for any number of scans."""

from __future__ import annotations

import contextlib
from types import TracebackType

from rowlock_proto.v1 import catalog_pb2

from rowlock._core.lock_requests import DEFAULT_LOCK_POLICY, LockPolicy, lock_options
from rowlock._core.session_requests import OpenedSession
from rowlock._core.snapshot_requests import TakenSnapshot, make_request, new_snapshot_id
from rowlock._transport import methods
from rowlock.aio._ending_call import call_to_end, end_if_interrupted
from rowlock.aio._locked_call import call_with_locks
from rowlock.aio._transport.servers import Servers
from rowlock.errors import RowlockError


async def make_snapshot(
    servers: Servers,
    table: str,
    snapshot_id: bytes,
    incarnation_id: str,
    lease_ms: int,
    timeout_s: float,
    policy: LockPolicy = DEFAULT_LOCK_POLICY,
    session: OpenedSession | None = None,
) -> catalog_pb2.Snapshot:
    """Makes the snapshot with this id, or renews it if it exists. Idempotent, also across processes.

    incarnation_id: ServerInfo's when the id was chosen; a server that has restarted since refuses to make the snapshot
    a second time. Empty: no such check. lease_ms: milliseconds; 0: the server's default. policy: how to wait while
    others hold the table's exclusive lock. session: to which it belongs. Raises SnapshotEndedError if the snapshot has
    ended, or the server has restarted.
    """
    request = make_request(table, snapshot_id, incarnation_id, lease_ms)
    request.lock.CopyFrom(lock_options(session))
    answer = await call_with_locks(servers, methods.MAKE_SNAPSHOT, request, policy, timeout_s, work_s=timeout_s)
    return answer.snapshot


async def renew_snapshot(servers: Servers, snapshot_id: bytes, timeout_s: float) -> catalog_pb2.Snapshot:
    """Restarts the snapshot's lease. Raises SnapshotEndedError if it has ended."""
    request = catalog_pb2.RenewSnapshotRequest(snapshot_id=snapshot_id)
    return (await servers.call(methods.RENEW_SNAPSHOT, request, timeout_s)).snapshot


async def end_snapshot(servers: Servers, snapshot_id: bytes, timeout_s: float) -> None:
    """Ends the snapshot; scans that have begun continue. No error if it has ended already."""
    request = catalog_pb2.EndSnapshotRequest(snapshot_id=snapshot_id)
    await call_to_end(servers, methods.END_SNAPSHOT, request, timeout_s)


class Snapshot(TakenSnapshot):
    """One moment of a whole table, returned by `Client.snapshot`. Pass it to any number of `scan` calls.

    Every scan restarts its lease when it begins and when it ends, and the snapshot does not expire while a scan reads.
    It ends with its `async with` block, when its lease expires, when its table is dropped or truncated, and when its
    server stops. From then on scans raise SnapshotEndedError. Until it ends, the server keeps
    all its cells on disk, but for those of families that are dropped.
    """

    def __init__(self, servers: Servers, message: catalog_pb2.Snapshot, timeout_s: float) -> None:
        super().__init__(message)
        self._servers = servers
        self._timeout_s = timeout_s

    def __repr__(self) -> str:
        return f"<rowlock.aio.Snapshot {self.id.hex()} of {self.table!r}>"

    async def renew(self) -> None:
        """Restarts the lease, as every scan does. Raises SnapshotEndedError if the snapshot has ended."""
        await renew_snapshot(self._servers, self.id, self._timeout_s)

    async def end(self) -> None:
        """Ends the snapshot; scans that have begun read to their end. Idempotent."""
        await end_snapshot(self._servers, self.id, self._timeout_s)

    async def __aenter__(self) -> Snapshot:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # If the server can't be reached, it ends the snapshot when the lease expires.
        with contextlib.suppress(RowlockError):
            await self.end()


async def new_snapshot(
    servers: Servers, table: str, lease_ms: int, timeout_s: float, policy: LockPolicy, session: OpenedSession | None
) -> Snapshot:
    """See Client.snapshot."""
    snapshot_id = new_snapshot_id()
    try:
        message = await make_snapshot(servers, table, snapshot_id, "", lease_ms, timeout_s, policy, session)
        return Snapshot(servers, message, timeout_s)
    except BaseException as error:
        ending = catalog_pb2.EndSnapshotRequest(snapshot_id=snapshot_id)
        await end_if_interrupted(error, servers, methods.END_SNAPSHOT, ending)
        raise
