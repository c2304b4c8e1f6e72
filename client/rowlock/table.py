# Made from client/rowlock/aio/table.py by tools/async_to_sync.py: change that, then `make faces`.
"""A table: point operations, scans, batches and bulk writes (threads)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Literal, overload

from rowlock_proto.v1 import region_pb2, types_pb2

from rowlock._codec.columns import Name, Text, Value, encoded_row, encoded_rows, parse_cell_column
from rowlock._core import point
from rowlock._core.batch_lines import MAX_BYTES_DEFAULT, SIZE_DEFAULT
from rowlock._core.batch_send import RowsRead
from rowlock._core.bulk_input import ArrowInput
from rowlock._core.bulk_send import BATCH_BYTES_DEFAULT, BUSY_TIMEOUT_S_DEFAULT
from rowlock._core.conversation import Request
from rowlock._core.point import ColumnName, Data
from rowlock._core.retry import Attempts, Kind
from rowlock._core.scan_plan import scan_plan
from rowlock._core.session_requests import OpenedSession
from rowlock._core.snapshot_requests import TakenSnapshot, snapshot_id_for
from rowlock._core.view import View
from rowlock._transport.bulk import put_arrow
from rowlock._transport.servers import Servers
from rowlock._transport.splits import splits
from rowlock.batch import Batch
from rowlock.bulk_outcome import BulkResult
from rowlock.changes import Change
from rowlock.checks import Check, CheckResult, CompareOp
from rowlock.errors import RowlockError
from rowlock.filters import Filter
from rowlock.mapping import Mapping
from rowlock.scan import Scan
from rowlock.schema import Durability
from rowlock.selection import VERSIONS_ALL, CellFilter, Selection, TimeRange
from rowlock.split_plan import PART_BYTES_DEFAULT, Split, plan_to_cut


class Table(Generic[Text]):
    """One table, returned by `Client.table`. Thread-safe.

    Rows, columns (`family:qualifier`) and values are bytes or str; str is encoded as UTF-8. Results are bytes, or str
    for a table opened with an encoding. Timestamps are milliseconds since the epoch, timeouts are seconds. A list of
    columns may name whole families (`family`).

    A call blocks for its answer. It retries where that is safe and can help, until the table's timeout. Calls raise
    the errors of rowlock.errors. TableNotFoundError, FamilyNotFoundError and InvalidArgumentError: the call is wrong.
    RegionTooBusyError and DeadlineError: the server was busy, or did not answer, until the timeout.
    UnknownOutcomeError: a change may or may not have been made; after every other error of a single change nothing was
    changed. TypeError: an argument has the wrong type.
    """

    def __init__(self, servers: Servers, view: View[Text]) -> None:
        self._servers = servers
        self._view: View[Text] = view

    @property
    def name(self) -> str:
        """The table's name."""
        return self._view.table

    def with_options(self, *, durability: Durability | None = None, timeout: float | None = None) -> Table[Text]:
        """Returns a view of this table with another durability or timeout (seconds); None keeps the current one."""
        return Table(self._servers, self._view.with_options(durability, timeout))

    def __repr__(self) -> str:
        return f"<rowlock.Table {self.name!r}>"

    # Changes

    def put(self, row: Name, data: Data[ColumnName], *, timestamp: int | None = None) -> None:
        """Sets columns of one row atomically: {column: value}, at least one.

        timestamp: of all of them; None: the server's clock.
        """
        self._call(point.put(self._view.table, row, data, timestamp, self._view.durability))

    def create(self, row: Name, data: Data[ColumnName], *, timestamp: int | None = None) -> bool:
        """Sets columns if the row does not exist. Returns whether they were set. Arguments as in `put`."""
        return self._put_if(region_pb2.Condition.EXISTENCE_ABSENT, row, data, timestamp)

    def update(self, row: Name, data: Data[ColumnName], *, timestamp: int | None = None) -> bool:
        """Sets columns if the row exists. Returns whether they were set. Arguments as in `put`."""
        return self._put_if(region_pb2.Condition.EXISTENCE_PRESENT, row, data, timestamp)

    def delete(
        self, row: Name, columns: Sequence[Name] | None = None, *, timestamp: int | None = None, exact: bool = False
    ) -> None:
        """Deletes columns (`family:qualifier`), whole families (`family`), or the row if columns is None.

        timestamp: deletes the versions at or before it; None: all versions. exact: deletes one version only, the one
        at the timestamp, or the newest if there is no timestamp; only columns can be deleted so.
        """
        self._call(point.delete(self._view.table, row, columns, timestamp, exact, self._view.durability))

    def mutate_row(self, row: Name, changes: Iterable[Change]) -> list[int | Text | None]:
        """Applies changes to one row atomically and in order; each sees the effect of those before it.

        A change is a rowlock.Put, Delete, Increment or Append: [rowlock.Put("f:z", b"1"), rowlock.Delete("f:y")].
        Returns one result per change: an increment's new number, an append's new value, None for puts and deletes.
        Raises NotACounterError or CounterOverflowError if an increment can't be made; then no change is.
        """
        request = point.mutate(self._view.table, row, changes, self._view.durability)
        return point.mutate_results(request, self._call(request), self._view.decode)

    def check_and_put(
        self,
        row: Name,
        column: Name,
        expected: Value | None,
        data: Data[ColumnName],
        *,
        op: CompareOp = "=",
        timestamp: int | None = None,
    ) -> CheckResult[Text]:
        """Sets columns of a row if "stored op expected" holds for one of its columns, in one atomic step.

        expected: compared as bytes with the newest value; None: the column is absent (op "=") or present ("!="); b"":
        an empty value. op: =, !=, <, <=, > or >=. data, timestamp: as in `put`. Returns a CheckResult, which is true
        if the check held; a check that fails is not an error.
        """
        puts = point.puts_of(data, timestamp)
        return self.check_and_mutate(row, [Check(column, expected, op)], puts)

    def check_and_delete(
        self,
        row: Name,
        column: Name,
        expected: Value | None,
        columns: Sequence[Name] | None = None,
        *,
        op: CompareOp = "=",
        timestamp: int | None = None,
    ) -> CheckResult[Text]:
        """Deletes columns, or the row if columns is None, if "stored op expected" holds for one column.

        expected, op: as in `check_and_put`. columns, timestamp: as in `delete`. Returns a CheckResult.
        """
        deletes = point.deletes_of(columns, timestamp)
        return self.check_and_mutate(row, [Check(column, expected, op)], deletes)

    def check_and_mutate(
        self,
        row: Name,
        checks: Iterable[Check | Filter],
        then: Iterable[Change],
        otherwise: Iterable[Change] = (),
    ) -> CheckResult[Text]:
        """Applies the changes of `then` if all checks hold, else those of `otherwise`, in one atomic step.

        A check is a rowlock.Check of one column, [rowlock.Check("f:z", b"1")], or a filter over the row. Changes are
        those of `mutate_row`: [rowlock.Put("f:z", b"2")]. Returns a CheckResult, which is true if all checks held.
        """
        request = point.check_and_mutate(self._view.table, row, checks, then, otherwise, self._view.durability)
        return point.check_result(request, self._call(request), self._view.decode)

    def increment(self, row: Name, column: Name, amount: int = 1) -> int:
        """Adds an amount, which may be negative, to a signed 64-bit counter. Returns the new number.

        A missing counter counts as 0. Raises NotACounterError if the value is not 8 bytes, CounterOverflowError if the
        sum does not fit.
        """
        return point.new_number(
            self._call(point.increment(self._view.table, row, column, amount, self._view.durability))
        )

    def append(self, row: Name, column: Name, suffix: Value) -> Text:
        """Appends to a column's value; a missing value counts as empty. Returns the new value."""
        request = point.append(self._view.table, row, column, suffix, self._view.durability)
        return point.new_text(self._call(request), self._view.decode)

    def batch(self, size: int = SIZE_DEFAULT, max_bytes: int = MAX_BYTES_DEFAULT) -> Batch[Text]:
        """Returns a Batch, which sends changes when it holds `size` of them or about max_bytes bytes."""
        return Batch(self._servers, self._view, size, max_bytes)

    def put_arrow(
        self,
        data: ArrowInput,
        mapping: Mapping | str | None = None,
        *,
        timestamp: int | None = None,
        batch_bytes: int = BATCH_BYTES_DEFAULT,
        busy_timeout: float = BUSY_TIMEOUT_S_DEFAULT,
        on_progress: Callable[[int], None] | None = None,
    ) -> BulkResult:
        """Writes an Arrow table, batch, reader or iterable of batches, or an object that exports an Arrow stream.

        A pandas DataFrame is such an object. With a mapping, rows of the data become cells. Without one the data is
        cells: the columns row, family, qualifier, value and, optionally, timestamp. A null timestamp means the server's
        clock, a null value deletes the column. Of rows with the same key the later one wins.

        timestamp: of all cells; None: the server's clock, or the cells' own.
        batch_bytes: about the size of a batch. Each batch is atomic, the call as a whole is not.
        busy_timeout: seconds to retry while the server answers that it is busy; the logger `rowlock` reports it every
            ten seconds. The table's timeout is for a server that does not answer.
        on_progress: called with the number of rows written so far. An exception that it raises ends the call; the
            outcome of rows in flight is then unknown.

        Returns a BulkResult. Raises BulkError if some rows were not written, or may not have been; also if the data
        raises after rows were sent. Raises MappingError if the first batch does not fit the mapping.
        """
        return put_arrow(self._servers, self._view, data, mapping, timestamp, batch_bytes, busy_timeout, on_progress)

    # Reads

    @overload
    def row(
        self,
        row: Name,
        columns: Sequence[Name] | None = None,
        *,
        timestamp: int | None = None,
        time_range: TimeRange | None = None,
        include_timestamp: Literal[False] = False,
    ) -> dict[Text, Text]: ...

    @overload
    def row(
        self,
        row: Name,
        columns: Sequence[Name] | None = None,
        *,
        timestamp: int | None = None,
        time_range: TimeRange | None = None,
        include_timestamp: Literal[True],
    ) -> dict[Text, tuple[Text, int]]: ...

    def row(
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
        read versions in [start, stop); None is no bound. include_timestamp: return {column: (value, timestamp)}.
        """
        is_whole = columns is None and timestamp is None and time_range is None
        selection = None if is_whole else Selection(columns, timestamp, time_range)
        cells = self._row_cells(row, selection)
        if include_timestamp:
            return point.row_dict_with_timestamps(cells, self._view.decode)
        return point.row_dict(cells, self._view.decode)

    def rows(self, rows: Sequence[Name], columns: Sequence[Name] | None = None) -> list[tuple[Text, dict[Text, Text]]]:
        """Returns [(row, {column: value})] in the order of `rows`, with {} for an absent row.

        Up to 1,000 rows of one region are read at one read point.
        """
        encoded = encoded_rows(rows)
        read = RowsRead(self._view.table, encoded)
        attempts = Attempts(time.monotonic(), self._view.timeout_s, Kind.READ)
        while not read.is_done:
            failure = self._read_some(read, Selection(columns), attempts)
            if failure is not None:
                time.sleep(attempts.failed(failure, time.monotonic(), was_sent=False))
        decode = self._view.decode
        return [(decode(row), point.row_dict(read.cells_of(row), decode)) for row in encoded]

    def cells(
        self,
        row: Name,
        column: Name,
        versions: int | None = None,
        *,
        timestamp: int | None = None,
        time_range: TimeRange | None = None,
    ) -> list[tuple[Text, int]]:
        """Returns the versions of one column, [(value, timestamp)], newest first; [] if it is absent.

        versions: at most so many; None: all that the family keeps. timestamp, time_range: as in `row`.
        """
        parse_cell_column(column)
        wanted = VERSIONS_ALL if versions is None else versions
        cells = self._row_cells(row, Selection([column], timestamp, time_range, wanted))
        return point.value_versions(cells, self._view.decode)

    def counter(self, row: Name, column: Name) -> int:
        """Returns a counter's number, 0 if it is missing. Raises NotACounterError if the value is not 8 bytes."""
        parse_cell_column(column)
        return point.counter(self._row_cells(row, Selection([column])), encoded_row(row))

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

        ranges: pairs (start, stop); None is no bound.
        columns: columns and whole families to read; None: all.
        where: a filter, which sees the whole row, whether or not its columns are returned.
        limit: how many rows the scan returns at most; None: no limit.
        reverse: return the same rows in descending order.
        keys_only: return empty values.
        timestamp, time_range: as in `row`.
        versions: how many versions of each column to read, newest first; Scan.cells() returns them all.
        cells: a CellFilter, which chooses cells of a row.
        strict: raise LeaseExpiredError after a lost connection, instead of resuming at a new read point.
        batch_bytes: about the size of the server's batches; 0: its default.
        snapshot: a Snapshot, or its id, to read; SnapshotEndedError if it has ended.
        busy_timeout: as in `put_arrow`; None: the table's timeout.
        session: to which the scan belongs; SessionEndedError when it ends.

        Raises InvalidArgumentError for arguments that contradict each other; errors of the server come from the Scan.
        """
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

    def splits(
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
        plan = plan_to_cut(self._view.table, start, stop, prefix, ranges, columns, part_bytes)
        return splits(self._servers, plan, part_bytes, self._view.timeout_s)

    # Calls

    def _call(self, request: Request) -> region_pb2.PointAnswer:
        return self._servers.point(request, self._view.timeout_s)

    def _put_if(
        self, existence: region_pb2.Condition.Existence, row: Name, data: Data[ColumnName], timestamp: int | None
    ) -> bool:
        request = point.put(self._view.table, row, data, timestamp, self._view.durability, existence)
        return self._call(request).mutate.results[0].condition_met

    def _row_cells(self, row: Name, selection: Selection | None) -> Sequence[types_pb2.Cell]:
        return self._call(point.get(self._view.table, [encoded_row(row)], selection)).get.rows[0].cells

    def _read_some(self, read: RowsRead, selection: Selection, attempts: Attempts) -> RowlockError | None:
        try:
            region = self._servers.region_of(read.table, read.first_row, attempts.deadline)
        except RowlockError as error:
            return error
        rows = read.rows_for(region)
        request = point.get(read.table, rows, selection)
        failure = self._servers.attempt_in(region, request, attempts.deadline)
        if failure is None:
            if request.answer is None:
                raise attempts.timed_out(was_sent=request.sent)
            read.absorb(rows, request.answer)
        return failure
