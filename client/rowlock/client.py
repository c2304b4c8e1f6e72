# Made from client/rowlock/aio/client.py by tools/async_to_sync.py: change that, then `make faces`.
"""The client (threads): tables, their making and their settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import overload

from rowlock_proto.v1 import catalog_pb2, region_pb2

from rowlock._codec.columns import Name, decoder, encoded_bound
from rowlock._core.catalog import (
    alter_request,
    check_table_name,
    create_request,
    flush_goes_on,
)
from rowlock._core.retry import TABLE_OPERATION_S, Kind
from rowlock._core.snapshot_requests import LEASE_S_DEFAULT, lease_ms_of
from rowlock._core.view import View, checked_timeout
from rowlock._transport import methods
from rowlock._transport.servers import Servers
from rowlock.errors import DeadlineError, TableExistsError, TableNotFoundError
from rowlock.schema import (
    Durability,
    Family,
    FlushResult,
    Region,
    ServerInfo,
    TableDescription,
    description_from,
    region_from,
    server_info_from,
)
from rowlock.snapshot import Snapshot, new_snapshot
from rowlock.table import Table


class Client:
    """A connection to the servers of one store, as `rowlock.connect` and `rowlock.open` give it.

    Thread-safe, and safe to use in the child of a fork, which opens connections of its own. Close it, or use it with
    `with`. Every call blocks for its answer and raises the errors of rowlock.errors; what a lost connection leaves in
    doubt raises UnknownOutcomeError.
    """

    def __init__(self, servers: Servers, timeout_s: float) -> None:
        self._servers = servers
        self._timeout_s = timeout_s

    @overload
    def table(
        self,
        name: str,
        *,
        encoding: None = None,
        durability: Durability | None = None,
        timeout: float | None = None,
    ) -> Table[bytes]: ...

    @overload
    def table(
        self, name: str, *, encoding: str, durability: Durability | None = None, timeout: float | None = None
    ) -> Table[str]: ...

    def table(
        self,
        name: str,
        *,
        encoding: str | None = None,
        durability: Durability | None = None,
        timeout: float | None = None,
    ) -> Table[bytes] | Table[str]:
        """A table to read and change; nothing is asked of the server, so it need not exist yet.

        encoding: "utf-8" for answers that are str. durability: what an acknowledged write survives, if more than the
        table says. timeout: seconds a call may take, of a scan or put_arrow each batch; None: the client's.
        """
        check_table_name(name)
        if encoding is None:
            raw = View(name, self._timeout_s, bytes)
            return Table(self._servers, raw.with_options(durability, timeout))
        view = View(name, self._timeout_s, decoder(encoding))
        return Table(self._servers, view.with_options(durability, timeout))

    def tables(self) -> list[str]:
        """The names of all tables, in order."""
        answer = self._servers.call(methods.LIST_TABLES, catalog_pb2.ListTablesRequest(), self._timeout_s)
        return [table.name for table in answer.tables]

    def exists(self, name: str) -> bool:
        """Whether there is a table of that name."""
        try:
            self.describe(name)
        except TableNotFoundError:
            return False
        return True

    def describe(self, name: str) -> TableDescription:
        """A table's families and settings, and what its regions hold at this moment."""
        check_table_name(name)
        answer = self._servers.call(
            methods.DESCRIBE_TABLE, catalog_pb2.DescribeTableRequest(name=name), self._timeout_s
        )
        return description_from(answer.table, self._servers.catalog_address, answer.regions)

    def create_table(
        self,
        name: str,
        families: Mapping[str, Family] | Iterable[str],
        *,
        if_not_exists: bool = False,
        durability: Durability = "fsync",
        splits: Iterable[Name] = (),
    ) -> Table[bytes]:
        """Makes a table with column families, given with their settings or, for default ones, by name.

        splits: first rows of its regions but the first. Raises TableExistsError unless if_not_exists; then what is
        there is left as it is.
        """
        request = create_request(name, families, durability, splits)
        try:
            # Repeating it is harmless when it may exist already.
            kind = Kind.READ if if_not_exists else Kind.PLAIN_CHANGE
            self._servers.call(methods.CREATE_TABLE, request, self._timeout_s, kind, work_s=TABLE_OPERATION_S)
        except TableExistsError:
            if not if_not_exists:
                raise
        return self.table(name)

    def alter_table(
        self,
        name: str,
        *,
        set_families: Mapping[str, Family] | None = None,
        drop_families: Iterable[str] = (),
        durability: Durability | None = None,
    ) -> TableDescription:
        """Adds or replaces families, drops families with all their cells, changes the durability: one atomic change."""
        request = alter_request(name, set_families, drop_families, durability)
        answer = self._servers.call(
            methods.ALTER_TABLE, request, self._timeout_s, Kind.PLAIN_CHANGE, work_s=TABLE_OPERATION_S
        )
        return description_from(answer.table, self._servers.catalog_address)

    def truncate_table(self, name: str) -> None:
        """Removes every cell of a table; its families stay."""
        check_table_name(name)
        request = catalog_pb2.TruncateTableRequest(name=name)
        self._servers.call(
            methods.TRUNCATE_TABLE, request, self._timeout_s, Kind.PLAIN_CHANGE, work_s=TABLE_OPERATION_S
        )
        self._servers.regions.forget_table(name)

    def drop_table(self, name: str) -> None:
        """Removes a table and all it holds."""
        check_table_name(name)
        request = catalog_pb2.DropTableRequest(name=name)
        self._servers.call(methods.DROP_TABLE, request, self._timeout_s, Kind.PLAIN_CHANGE, work_s=TABLE_OPERATION_S)
        self._servers.regions.forget_table(name)

    def flush(self, name: str, *, timeout: float | None = None) -> FlushResult:
        """Writes what a table holds in memory to store files, on every server that has a part of it.

        timeout: seconds to wait for each server that is at it; None: ten minutes. Raises DeadlineError when that is
        over; the server continues, and a later flush of the table waits for this one.
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
                raise flush_goes_on(name, address, work_s, error) from error
            store_file_count += answer.store_file_count
            cell_count += answer.cell_count
        return FlushResult(store_file_count, cell_count)

    def regions(self, name: str, *, start: Name | None = None, stop: Name | None = None) -> list[Region]:
        """The regions of a table that touch [start, stop), in row order, as the catalog knows them now."""
        check_table_name(name)
        request = catalog_pb2.LocateRegionsRequest(table=name, start=encoded_bound(start), stop=encoded_bound(stop))
        answer = self._servers.call(methods.LOCATE_REGIONS, request, self._timeout_s)
        regions = [region_from(region, self._servers.catalog_address) for region in answer.regions]
        self._servers.regions.store(name, regions)
        return regions

    def snapshot(self, name: str, lease_s: float = LEASE_S_DEFAULT) -> Snapshot:
        """One moment of a whole table: every scan that is given it sees exactly what was acknowledged before this call.

        It ends with its `with` block, or when nothing used it for lease_s seconds, at most a day; see Snapshot.
        """
        check_table_name(name)
        lease_ms = lease_ms_of(lease_s)
        return new_snapshot(self._servers, name, lease_ms, self._timeout_s)

    def server_info(self, table: str = "") -> ServerInfo:
        """Who answers: version, clock, limits. table: the clock is not below any timestamp that was given there."""
        request = catalog_pb2.ServerInfoRequest(table=table)
        answer = self._servers.call(methods.SERVER_INFO, request, self._timeout_s)
        return server_info_from(answer, self._servers.catalog_address)

    def close(self) -> None:
        """Ends all connections; calls that are under way end with ClosedError or UnknownOutcomeError. Idempotent."""
        self._servers.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<rowlock.Client of {self._servers.catalog_address}>"
