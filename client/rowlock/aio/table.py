"""A table: point operations, scans, batches and bulk writes (asyncio)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, overload

from rowlock_proto.v1 import types_pb2

from rowlock._codec.columns import Name, Text, encoded_row, encoded_rows, parse_cell_column
from rowlock._core import point
from rowlock._core.batch_send import RowsRead
from rowlock._core.defaults import PART_BYTES_DEFAULT
from rowlock._core.retry import Attempts, Kind
from rowlock._core.session_requests import OpenedSession
from rowlock._core.snapshot_requests import TakenSnapshot, snapshot_id_for
from rowlock._core.values_get import ValuesGet
from rowlock._uninterrupted import Uninterrupted
from rowlock.aio._tables.changes import TableChanges
from rowlock.aio._tables.ranges import check_is_bounded, delete_rows
from rowlock.errors import RowlockError
from rowlock.filters import Filter
from rowlock.schema import Durability
from rowlock.selection import VERSIONS_ALL, CellFilter, Selection, TimeRange

if TYPE_CHECKING:
    from rowlock.aio.scan import Scan
    from rowlock.split_plan import Split


class Table(TableChanges[Text]):
    """One table, returned by `Client.table`. For tasks of the client's event loop.

    Rows, columns (`family:qualifier`) and values are bytes or str; str is encoded as UTF-8. Results are bytes, or str
    for a table opened with an encoding. Timestamps are milliseconds since the epoch, timeouts are seconds. A list of
    columns may name whole families (`family`).

    A call retries where that is safe and can help, until the table's timeout. Calls raise the errors of
    rowlock.errors. TableNotFoundError, FamilyNotFoundError and InvalidArgumentError: the call is wrong.
    RegionTooBusyError and DeadlineError: the server was busy, or did not answer, until the timeout.
    UnknownOutcomeError: a change may or may not have been made; after every other error of a single change nothing was
    changed. TypeError: an argument has the wrong type.
    """

    @property
    def name(self) -> str:
        """The table's name."""
        return self._view.table

    def with_options(self, *, durability: Durability | None = None, timeout: float | None = None) -> Table[Text]:
        """Returns a view of this table with another durability or timeout (seconds); None keeps the current one."""
        return Table(self._servers, self._view.with_options(durability, timeout))

    def __repr__(self) -> str:
        return f"<rowlock.aio.Table {self.name!r}>"

    # Reads

    @overload
    async def row(
        self,
        row: Name,
        columns: Sequence[Name] | None = None,
        *,
        timestamp: int | None = None,
        time_range: TimeRange | None = None,
        include_timestamp: Literal[False] = False,
    ) -> dict[Text, Text]: ...

    @overload
    async def row(
        self,
        row: Name,
        columns: Sequence[Name] | None = None,
        *,
        timestamp: int | None = None,
        time_range: TimeRange | None = None,
        include_timestamp: Literal[True],
    ) -> dict[Text, tuple[Text, int]]: ...

    async def row(
        self,
        row: Name,
        columns: Sequence[Name] | None = None,
        *,
        timestamp: int | None = None,
        time_range: TimeRange | None = None,
        include_timestamp: bool = False,
    ) -> dict[Text, Text] | dict[Text, tuple[Text, int]]:
        """Returns the newest version of each column, {column: value}; {} if the row is absent.

        columns: columns and whole families to read; None: all. timestamp: read versions at or before it. time_range:
        read versions in [start, stop); None means no bound. include_timestamp: return {column: (value, timestamp)}.
        """
        if columns is None and timestamp is None and time_range is None and not include_timestamp:  # The hot path.
            request = ValuesGet(self._view.table, encoded_row(row))
            return point.values(await self._servers.point(request, self._view.timeout_s), self._view.decode)
        cells = await self._selected_cells(row, columns, timestamp, time_range)
        if include_timestamp:
            return point.row_dict_with_timestamps(cells, self._view.decode)
        return point.row_dict(cells, self._view.decode)

    async def rows(
        self, rows: Sequence[Name], columns: Sequence[Name] | None = None
    ) -> list[tuple[Text, dict[Text, Text]]]:
        """Returns [(row, {column: value})] in the order of `rows`, with {} for an absent row.

        Up to 1,000 rows of one region are read at one read point.
        """
        encoded = encoded_rows(rows)
        decode = self._view.decode
        found = await self._cells_of_rows(encoded, columns)
        return [(decode(row), point.row_dict(cells, decode)) for row, cells in zip(encoded, found, strict=True)]

    async def cells(
        self,
        row: Name,
        column: Name,
        versions: int | None = None,
        *,
        timestamp: int | None = None,
        time_range: TimeRange | None = None,
    ) -> list[tuple[Text, int]]:
        """Returns the versions of one column, [(value, timestamp)], newest first; [] if it is absent.

        versions: at most this many; None: all that the family keeps. timestamp, time_range: as in `row`.
        """
        parse_cell_column(column)
        wanted = VERSIONS_ALL if versions is None else versions
        cells = await self._row_cells(row, Selection([column], timestamp, time_range, wanted))
        return point.value_versions(cells, self._view.decode)

    async def counter(self, row: Name, column: Name) -> int:
        """Returns a counter's number, 0 if it is missing. Raises NotACounterError if the value is not 8 bytes."""
        parse_cell_column(column)
        return point.counter(await self._row_cells(row, Selection([column])), encoded_row(row))

    async def exists(self, row: Name) -> bool:
        """Returns whether the row has a cell."""
        selection = Selection(cells=CellFilter(first_key_only=True), keys_only=True)
        return bool(await self._row_cells(row, selection))

    async def count(
        self,
        start: Name | None = None,
        stop: Name | None = None,
        prefix: Name | None = None,
        columns: Sequence[Name] | None = None,
        where: Filter | None = None,
        *,
        ranges: Iterable[tuple[Name | None, Name | None]] | None = None,
        snapshot: TakenSnapshot | bytes | None = None,
        busy_timeout: float | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> int:
        """Returns the number of rows that `scan` with these arguments would return. The server sends only their keys.

        on_progress: called with the number of rows counted so far.
        """
        scan = self.scan(
            start, stop, prefix, columns, where, ranges=ranges, snapshot=snapshot, busy_timeout=busy_timeout
        )
        async with scan:
            return await scan.count(on_progress)

    async def delete_range(
        self,
        start: Name | None = None,
        stop: Name | None = None,
        prefix: Name | None = None,
        where: Filter | None = None,
        *,
        ranges: Iterable[tuple[Name | None, Name | None]] | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> int:
        """Deletes the rows in [start, stop), or with a prefix, or in several ranges. Returns how many were deleted.

        It scans the keys and deletes the rows in pieces, so its memory is bounded and it is not a transaction. Rows
        that are created in the range meanwhile may stay. where: deletes only rows that match a filter, also at the
        moment of their deletion. on_progress: called with the number of rows deleted so far.

        Raises PartlyDeletedError, which says how many rows were deleted, and InvalidArgumentError without a range or
        with empty bounds only: `truncate_table` deletes all rows.
        """
        scan = self.scan(start, stop, prefix, where=where, ranges=ranges)
        check_is_bounded(scan)
        return await delete_rows(self._servers, self._view, scan, where, on_progress)

    def scan(
        self,
        start: Name | None = None,
        stop: Name | None = None,
        prefix: Name | None = None,
        columns: Sequence[Name] | None = None,
        where: Filter | None = None,
        limit: int | None = None,
        reverse: bool = False,
        keys_only: bool = False,
        *,
        ranges: Iterable[tuple[Name | None, Name | None]] | None = None,
        timestamp: int | None = None,
        time_range: TimeRange | None = None,
        versions: int = 1,
        cells: CellFilter | None = None,
        strict: bool = False,
        batch_bytes: int = 0,
        snapshot: TakenSnapshot | bytes | None = None,
        busy_timeout: float | None = None,
        session: OpenedSession | None = None,
    ) -> Scan[Text]:
        """Returns a Scan of the rows in [start, stop), or with a prefix, or in several ranges; else of all rows.

        No request is sent before the first row is read.

        ranges: pairs (start, stop); None means no bound.
        columns: columns and whole families to read; None: all.
        where: a filter, which sees the whole row, whether or not its columns are returned.
        limit: how many rows the scan returns at most; None: no limit.
        reverse: return the same rows in descending order.
        keys_only: return empty values.
        timestamp, time_range: as in `row`.
        versions: how many versions of each column to read, newest first; Scan.cells() returns them all.
        cells: a CellFilter, which chooses cells of a row.
        strict: raise LeaseExpiredError after a lost connection, instead of resuming at a new read point.
        batch_bytes: about the size of the batches; 0: 4 MiB for Arrow, typed rows and counts, 2 MiB for dicts,
            else the server's default.
        snapshot: a Snapshot, or its id, to read; SnapshotEndedError if it has ended.
        busy_timeout: as in `put_arrow`; None: the table's timeout.
        session: to which the scan belongs; SessionEndedError when it ends.

        Raises InvalidArgumentError for arguments that contradict each other; errors of the server come from the Scan.
        """
        # Here, because pyarrow is slow to import.
        with Uninterrupted():
            from rowlock._core.scan_plan import scan_plan
            from rowlock.aio.scan import Scan

        plan = scan_plan(
            self._view.table,
            start=start,
            stop=stop,
            prefix=prefix,
            ranges=ranges,
            selection=Selection(columns, timestamp, time_range, versions, where, cells, keys_only),
            limit=limit,
            reverse=reverse,
            strict=strict,
            batch_bytes=batch_bytes,
            snapshot_id=snapshot_id_for(self._view.table, snapshot),
            busy_timeout=busy_timeout,
            session=session,
        )
        return Scan(self._servers, self._view, plan)

    async def splits(
        self,
        start: Name | None = None,
        stop: Name | None = None,
        prefix: Name | None = None,
        *,
        ranges: Iterable[tuple[Name | None, Name | None]] | None = None,
        columns: Sequence[Name] | None = None,
        part_bytes: int = PART_BYTES_DEFAULT,
    ) -> list[Split]:
        """Cuts a scan into parts for parallel readers. Returns a list of Split, in row order.

        `scan(ranges=split.ranges)` over all splits gives exactly the rows of the scan. Each split has about part_bytes
        bytes in the families of `columns`, estimated from block indexes and memstores. The other arguments are those
        of `scan`.
        """
        with Uninterrupted():
            from rowlock.aio._transport.splits import splits
            from rowlock.split_plan import plan_to_cut

        plan = plan_to_cut(self._view.table, start, stop, prefix, ranges, columns, part_bytes)
        return await splits(self._servers, plan, part_bytes, self._view.timeout_s)

    # Calls

    async def _selected_cells(
        self, row: Name, columns: Sequence[Name] | None, timestamp: int | None, time_range: TimeRange | None
    ) -> Sequence[types_pb2.Cell]:
        is_whole = columns is None and timestamp is None and time_range is None
        return await self._row_cells(row, None if is_whole else Selection(columns, timestamp, time_range))

    async def _cells_of_rows(
        self, rows: Sequence[bytes], columns: Sequence[Name] | None
    ) -> list[Sequence[types_pb2.Cell]]:
        read = RowsRead(self._view.table, rows)
        attempts = Attempts(time.monotonic(), self._view.timeout_s, Kind.READ)
        while not read.is_done:
            failure = await self._read_some(read, Selection(columns), attempts)
            if failure is not None:
                await asyncio.sleep(attempts.failed(failure, time.monotonic(), was_sent=False))
        return [read.cells_of(row) for row in rows]

    async def _row_cells(self, row: Name, selection: Selection | None) -> Sequence[types_pb2.Cell]:
        return (await self._call(point.get(self._view.table, [encoded_row(row)], selection))).get.rows[0].cells

    async def _read_some(self, read: RowsRead, selection: Selection, attempts: Attempts) -> RowlockError | None:
        try:
            region = await self._servers.region_of(read.table, read.first_row, attempts.deadline)
        except RowlockError as error:
            return error
        rows = read.rows_for(region)
        request = point.get(read.table, rows, selection)
        failure = await self._servers.attempt_in(region, request, attempts.deadline)
        if failure is None:
            if request.answer is None:
                raise attempts.timed_out(was_sent=request.sent)
            read.absorb(rows, request.answer)
        return failure
