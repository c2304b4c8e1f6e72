"""The client's calls on named snapshots (asyncio)."""

from __future__ import annotations

from rowlock_proto.v1 import catalog_pb2

from rowlock._core.catalog import check_table_name
from rowlock._core.lock_requests import lock_options
from rowlock._core.retry import TABLE_OPERATION_S, Kind
from rowlock._core.snapshot_requests import checked_name
from rowlock._transport import methods
from rowlock.aio._region_calls import RegionCalls
from rowlock.aio._tables.access import TableAccess
from rowlock.aio.session import Session
from rowlock.aio.table import Table
from rowlock.named_snapshot import NamedSnapshot, named_snapshot_from


class SnapshotCalls(TableAccess, RegionCalls):
    """The part of Client for named snapshots."""

    async def create_snapshot(self, name: str, table: str, *, session: Session | None = None) -> NamedSnapshot:
        """Takes a snapshot of a table that stays under this name until it is dropped, also if the table is not there.

        It has one moment of the whole table, and shares its files, so it takes neither time nor space for the data at
        first. docs/snapshots.md. session: whose locks don't exclude this call.

        Raises SnapshotExistsError, TableNotFoundError, InvalidArgumentError unless the name is one that a table could
        have, and LockUnavailableError while others hold the exclusive lock of the table.
        """
        check_table_name(table, "table")
        request = catalog_pb2.CreateNamedSnapshotRequest(
            name=checked_name(name), table=table, lock=lock_options(session)
        )
        answer = await self._call_locked(methods.CREATE_NAMED_SNAPSHOT, request)
        return named_snapshot_from(answer.snapshot)

    async def named_snapshots(self) -> list[NamedSnapshot]:
        """Returns all named snapshots, sorted by name, with what they take on the disk at this moment."""
        request = catalog_pb2.ListNamedSnapshotsRequest()
        answer = await self._servers.call(methods.LIST_NAMED_SNAPSHOTS, request, self._timeout_s)
        return [named_snapshot_from(snapshot) for snapshot in answer.snapshots]

    async def restore_snapshot(self, name: str, table: str, *, session: Session | None = None) -> Table[bytes]:
        """Makes a new table of a named snapshot, and returns it. The snapshot stays.

        It copies no data, and has the families, properties and mapping of the snapshot's table. session: whose locks
        don't exclude this call.

        Raises SnapshotNotFoundError, TableExistsError, CorruptionError if a file of the snapshot is damaged, and
        LockUnavailableError while others hold the lock of the new name.
        """
        check_table_name(table, "table")
        request = catalog_pb2.RestoreNamedSnapshotRequest(
            name=checked_name(name), table=table, lock=lock_options(session)
        )
        await self._call_locked(methods.RESTORE_NAMED_SNAPSHOT, request)
        self._servers.regions.forget_table(table)
        return self.table(table)

    async def drop_snapshot(self, name: str) -> None:
        """Removes a named snapshot. Tables that were restored from it stay. Raises SnapshotNotFoundError."""
        request = catalog_pb2.DropNamedSnapshotRequest(name=checked_name(name))
        await self._servers.call(
            methods.DROP_NAMED_SNAPSHOT, request, self._timeout_s, Kind.PLAIN_CHANGE, work_s=TABLE_OPERATION_S
        )
