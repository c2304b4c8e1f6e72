# Made from client/rowlock/aio/client.py by tools/async_to_sync.py: change that, then `make faces`.
"""The client (threads): opens tables, creates them and changes their settings."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, overload

from rowlock_proto.v1 import catalog_pb2, region_pb2

from rowlock._change_calls import ChangeCalls
from rowlock._codec.columns import Name
from rowlock._core.catalog import (
    alter_request,
    check_table_name,
    create_request,
    flush_continues,
    parsed_mapping,
)
from rowlock._core.features import PROTOCOL, check_has_status
from rowlock._core.lock_requests import lock_options
from rowlock._core.retry import TABLE_OPERATION_S, Kind
from rowlock._core.snapshot_requests import LEASE_S_DEFAULT, checked_id
from rowlock._core.view import checked_timeout, milliseconds_of
from rowlock._snapshot_calls import SnapshotCalls
from rowlock._transport import methods
from rowlock.errors import (
    DeadlineError,
    InvalidArgumentError,
    TableExistsError,
    TableNotFoundError,
)
from rowlock.schema import (
    Durability,
    Family,
    FlushResult,
    ServerInfo,
    TableDescription,
    description_from,
    server_info_from,
)
from rowlock.session import Session, end_own_sessions
from rowlock.snapshot import Snapshot, new_snapshot, renew_snapshot
from rowlock.table import Table

# What few programs call is imported when it is called: a short command would wait for it.
if TYPE_CHECKING:
    from rowlock.compactions import Compaction
    from rowlock.mapping import Mapping as RowMapping
    from rowlock.statistics import ClientStatistics
    from rowlock.status import ServerStatus
    from rowlock.typed_table import TypedTable


class Client(SnapshotCalls, ChangeCalls):
    """A connection to the servers of one store, returned by `rowlock.connect` and `rowlock.open`.

    Thread-safe. It also works in the child of a fork, which opens its own connections. Close it, or use it with `with`.
    A call blocks for its answer, and raises the errors of rowlock.errors. UnknownOutcomeError means that a change may
    or may not have been made.
    """

    def tables(self) -> list[str]:
        """Returns the names of all tables, sorted."""
        answer = self._servers.call(methods.LIST_TABLES, catalog_pb2.ListTablesRequest(), self._timeout_s)
        return [table.name for table in answer.tables]

    def exists(self, name: str) -> bool:
        """Returns whether a table with this name exists."""
        try:
            self.describe(name)
        except TableNotFoundError:
            return False
        return True

    def describe(self, name: str) -> TableDescription:
        """Returns a table's families, settings and region statistics at this moment. Raises TableNotFoundError."""
        check_table_name(name)
        answer = self._servers.call(
            methods.DESCRIBE_TABLE, catalog_pb2.DescribeTableRequest(name=name), self._timeout_s
        )
        return description_from(answer.table, self._servers.catalog_address, answer.regions)

    @overload
    def create_table(
        self,
        name: str,
        families: Mapping[str, Family] | Iterable[str],
        *,
        if_not_exists: bool = False,
        durability: Durability = "fsync",
        splits: Iterable[Name] = (),
        properties: Mapping[str, object] | None = None,
    ) -> Table[bytes]: ...

    @overload
    def create_table(
        self,
        name: str,
        families: Mapping[str, Family] | Iterable[str] | None = None,
        *,
        mapping: RowMapping | str,
        if_not_exists: bool = False,
        durability: Durability = "fsync",
        splits: Iterable[Name] = (),
        properties: Mapping[str, object] | None = None,
    ) -> TypedTable[dict[str, Any]]: ...

    def create_table(
        self,
        name: str,
        families: Mapping[str, Family] | Iterable[str] | None = None,
        *,
        mapping: RowMapping | str | None = None,
        if_not_exists: bool = False,
        durability: Durability = "fsync",
        splits: Iterable[Name] = (),
        properties: Mapping[str, object] | None = None,
    ) -> Table[bytes] | TypedTable[dict[str, Any]]:
        """Creates a table and returns it.

        families: {name: rowlock.Family(...)}, or names alone for default settings; with a mapping they may be left out:
        then they are the mapping's. mapping: the table keeps it, and it is returned as a TypedTable. durability: what
        an acknowledged write survives. splits: the first rows of its regions, except of the first region, in any
        order (docs/regions.md). properties: of docs/compaction.md, as in {"compaction.automatic": False}.
        if_not_exists: an existing table is no error; its families are not compared with those given.

        Raises TableExistsError if the table exists; with if_not_exists it returns the existing table, unchanged, and
        raises MappingError if that keeps no mapping or one that does not agree.
        """
        kept = None if mapping is None else parsed_mapping(mapping)
        request = create_request(name, families, durability, splits, properties, kept)
        try:
            # A repetition is harmless if the table may exist already.
            kind = Kind.READ if if_not_exists else Kind.PLAIN_CHANGE
            request.lock.CopyFrom(lock_options())
            self._call_locked(methods.CREATE_TABLE, request, kind)
        except TableExistsError:
            if not if_not_exists:
                raise
        if kept is None:
            return self.table(name)
        # Here, because pyarrow is slow to import.
        from rowlock._core.kept_mapping import agreed

        table = self.typed_table(name)
        agreed(kept, table.mapping.text, name)
        return table

    def alter_table(
        self,
        name: str,
        *,
        set_families: Mapping[str, Family] | None = None,
        drop_families: Iterable[str] = (),
        durability: Durability | None = None,
        properties: Mapping[str, object] | None = None,
        mapping: RowMapping | str | None = None,
        replace_mapping: bool = False,
        session: Session | None = None,
    ) -> TableDescription:
        """Adds, replaces and drops families and changes durability, properties and mapping, in one atomic step.

        set_families: {name: rowlock.Family(...)}; an existing family keeps its cells. drop_families: names; their
        cells are deleted, and their columns leave the mapping. durability: None: unchanged. properties: those to
        change; a value of None drops one. mapping: the table keeps it from now on; it may have more columns and wider
        types than before, see docs/mapping.md; "none" drops it; None: unchanged. replace_mapping: accept any mapping.
        session: whose locks don't exclude this call.

        Returns the new description, without region statistics. Raises TableNotFoundError, LockUnavailableError while
        others hold a lock of the table, and MappingError for a mapping by which existing cells could not be read.
        """
        has_mapping = mapping is not None
        request = alter_request(name, set_families, drop_families, durability, properties, has_mapping=has_mapping)
        if mapping is not None or request.drop_families:
            from rowlock._core.mapping_requests import set_altered_mapping

            now = self._servers.call(methods.LIST_TABLES, catalog_pb2.ListTablesRequest(), self._timeout_s)
            set_altered_mapping(request, now.tables, mapping, replaces=replace_mapping)
        elif replace_mapping:
            raise InvalidArgumentError("replace_mapping needs a mapping")
        request.lock.CopyFrom(lock_options(session))
        answer = self._call_locked(methods.ALTER_TABLE, request)
        if mapping is not None or request.drop_families:  # The kept mapping has changed.
            self._servers.regions.forget_table(name)
        return description_from(answer.table, self._servers.catalog_address)

    def truncate_table(self, name: str, *, session: Session | None = None) -> None:
        """Deletes every cell of a table and keeps its families. Raises TableNotFoundError and LockUnavailableError.

        session: whose locks don't exclude this call.
        """
        check_table_name(name)
        request = catalog_pb2.TruncateTableRequest(name=name, lock=lock_options(session))
        self._call_locked(methods.TRUNCATE_TABLE, request)
        self._servers.regions.forget_table(name)

    def drop_table(self, name: str, *, force: bool = False, session: Session | None = None) -> None:
        """Deletes a table and all its cells. Raises TableNotFoundError and LockUnavailableError.

        Raises TableInUseError if sessions have bulk writes, locks or snapshots of it; force: ends these sessions
        instead. session: whose locks don't exclude this call.
        """
        check_table_name(name)
        request = catalog_pb2.DropTableRequest(name=name, force=bool(force), lock=lock_options(session))
        self._call_locked(methods.DROP_TABLE, request)
        self._servers.regions.forget_table(name)

    def flush(self, name: str, *, timeout: float | None = None) -> FlushResult:
        """Writes a table's memstores to store files, on every server that has a region of it.

        timeout: seconds that each server may take; None: ten minutes. Returns a FlushResult. Raises DeadlineError when
        the time is over; the server continues, and a later flush of the table waits for this one.
        """
        check_table_name(name)
        work_s = TABLE_OPERATION_S if timeout is None else checked_timeout(timeout)
        store_file_count = cell_count = 0
        for address in sorted({region.server for region in self.regions(name)}):
            request = region_pb2.FlushRequest(table=name)
            try:
                answer = self._servers.call(
                    methods.FLUSH, request, min(self._timeout_s, work_s), address=address, work_s=work_s
                )
            except DeadlineError as error:
                raise flush_continues(name, address, work_s, error) from error
            store_file_count += answer.store_file_count
            cell_count += answer.cell_count
        return FlushResult(store_file_count, cell_count)

    def compact(
        self,
        name: str,
        *,
        major: bool = False,
        families: Iterable[str] | None = None,
        properties: Mapping[str, object] | None = None,
        wait: bool = False,
        timeout: float | None = None,
    ) -> list[Compaction]:
        """Requests compactions of a table's stores, which are its families in each region; returns one for each.

        major: rewrites all files, and removes what is deleted or expired; otherwise the newer files become one.
        families: names; None: all. properties: override the table's for these compactions. wait: returns when all have
        succeeded. timeout: seconds that this may take; None: any time. A store that is in the queue already is not
        queued again.

        Raises TableNotFoundError and FamilyNotFoundError; with wait also CompactionError if one fails or does not
        start, and DeadlineError when the time is over; then the compactions continue on the server.
        """
        from rowlock._core.compactions import CompactionWait, compact_request

        request = compact_request(name, families, properties, major=major)
        timeout_s = None if timeout is None else checked_timeout(timeout)
        answer = self._servers.call(methods.COMPACT, request, self._timeout_s)
        waiting = CompactionWait(name, answer.ids, time.monotonic(), timeout_s)
        while True:
            found = self.compactions(ids=answer.ids)
            pause_s = waiting.pause_s(found, time.monotonic()) if wait else None
            if pause_s is None:
                return found
            time.sleep(pause_s)

    def compactions(self, table: str | None = None, *, ids: Iterable[int] | None = None) -> list[Compaction]:
        """Returns the compactions of a table, or of all, in the order of their ids.

        Those that wait and run, and of each store the last few that ended, also before a restart. ids: only these,
        whatever ended since; the server remembers the last thousand. Raises TableNotFoundError.
        """
        from rowlock._core.compactions import compaction_ids
        from rowlock.compactions import compaction_from

        if table is not None:
            check_table_name(table, "table")
        wanted = None if ids is None else compaction_ids(ids)
        if wanted == []:
            return []
        request = catalog_pb2.ListCompactionsRequest(table=table or "", ids=wanted or ())
        answer = self._servers.call(methods.LIST_COMPACTIONS, request, self._timeout_s)
        return [compaction_from(each) for each in answer.compactions]

    def cancel_compactions(self, ids: Iterable[int]) -> list[Compaction]:
        """Cancels compactions; returns those of the ids that the server knows, as they are now.

        One that waits never starts. One that runs stops soon and leaves its store as it was, unless it is done before.
        """
        from rowlock._core.compactions import compaction_ids
        from rowlock.compactions import compaction_from

        request = catalog_pb2.CancelCompactionsRequest(ids=compaction_ids(ids))
        answer = self._servers.call(methods.CANCEL_COMPACTIONS, request, self._timeout_s)
        return [compaction_from(each) for each in answer.compactions]

    def snapshot(self, name: str, lease_s: float = LEASE_S_DEFAULT, *, session: Session | None = None) -> Snapshot:
        """Takes a snapshot, one moment of a whole table: it has every change acknowledged before this call.

        Use `with db.snapshot(...)`, which ends it, or call its `end`. It also ends after lease_s seconds without use,
        at most a day; see Snapshot. session: the snapshot lives as long as this session instead. Raises
        LockUnavailableError while others hold the table's exclusive lock.
        """
        check_table_name(name)
        lease_ms = milliseconds_of("lease_s", lease_s)
        policy = self._lock_policy
        return new_snapshot(self._servers, name, lease_ms, self._timeout_s, policy, session)

    def open_snapshot(self, snapshot_id: bytes) -> Snapshot:
        """Returns a snapshot that was taken elsewhere, to scan, renew or end it; restarts its lease.

        snapshot_id: Snapshot.id. Raises SnapshotEndedError if it has ended.
        """
        found = checked_id(snapshot_id, "snapshot_id")
        return Snapshot(self._servers, renew_snapshot(self._servers, found, self._timeout_s), self._timeout_s)

    def server_info(self, table: str = "") -> ServerInfo:
        """Returns the server's version, clock, limits and ids.

        table: the returned clock, now_ms, is then not below any timestamp that the server gave in this table.
        """
        if table != "":
            check_table_name(table, "table")
        request = catalog_pb2.ServerInfoRequest(table=table, protocol=PROTOCOL)
        answer = self._servers.call(methods.SERVER_INFO, request, self._timeout_s)
        return server_info_from(answer, self._servers.catalog_address)

    def procedures(self) -> list[str]:
        """Returns the names of the row procedures that Table.call may call, sorted; [] if the server runs none."""
        request = catalog_pb2.ServerInfoRequest(protocol=PROTOCOL)
        answer = self._servers.call(methods.SERVER_INFO, request, self._timeout_s)
        return list(answer.procedures)

    def status(self) -> ServerStatus:
        """Returns what the server holds and does at this moment: memory, log, tables, scans and snapshots.

        Raises InvalidArgumentError if the server is of an earlier version, which can't say.
        """
        from rowlock.status import status_from

        check_has_status(self._servers.catalog_protocol, self._servers.catalog_address)
        request = catalog_pb2.ServerStatusRequest()
        answer = self._servers.call(methods.SERVER_STATUS, request, self._timeout_s)
        return status_from(answer, self._servers.catalog_address)

    def statistics(self) -> ClientStatistics:
        """Returns how the client's point operations travel: over direct connections or by gRPC, and why."""
        return self._servers.statistics()

    def close(self) -> None:
        """Ends what the client holds, and closes all connections. Idempotent.

        It ends the sessions that it opened with random ids, with their locks and bulk writes; for that it waits two
        seconds at most. Calls in flight end with ClosedError or UnknownOutcomeError. Not for signal handlers, which may
        have interrupted a call of this client: raise an exception there, and close the client where it is caught.
        """
        try:
            end_own_sessions(self._servers)
        finally:
            self._servers.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<rowlock.Client of {self._servers.catalog_address}>"
