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
    """One table, as `Client.table` gives it. Thread-safe.

    Rows, columns (`family:qualifier`) and values are bytes or str, which is encoded as UTF-8; answers are bytes, or str
    for a table opened with an encoding. Timestamps are milliseconds since the epoch. Every call blocks for its answer;
    it is tried again, where that can help and is safe, until the table's timeout. Errors: rowlock.errors.
    """

    def __init__(self, servers: Servers, view: View[Text]) -> None:
        self._servers = servers
        self._view: View[Text] = view

    @property
    def name(self) -> str:
        return self._view.table

    def with_options(self, *, durability: Durability | None = None, timeout: float | None = None) -> Table[Text]:
        """The same table with other defaults: what an acknowledged write survives, and the seconds a call may take."""
        return Table(self._servers, self._view.with_options(durability, timeout))

    def __repr__(self) -> str:
        return f"<rowlock.Table {self.name!r}>"

    # Changes

    def put(self, row: Name, data: Data[ColumnName], *, timestamp: int | None = None) -> None:
        """Sets columns of one row, together. Without a timestamp the server stamps them."""
        self._call(point.put(self._view.table, row, data, timestamp, self._view.durability))

    def create(self, row: Name, data: Data[ColumnName], *, timestamp: int | None = None) -> bool:
        """Sets columns if the row does not exist; whether it did so."""
        return self._put_if(region_pb2.Condition.EXISTENCE_ABSENT, row, data, timestamp)

    def update(self, row: Name, data: Data[ColumnName], *, timestamp: int | None = None) -> bool:
        """Sets columns if the row exists; whether it did so."""
        return self._put_if(region_pb2.Condition.EXISTENCE_PRESENT, row, data, timestamp)

    def delete(
        self, row: Name, columns: Sequence[Name] | None = None, *, timestamp: int | None = None, exact: bool = False
    ) -> None:
        """Removes columns (`family:qualifier`), whole families (`family`), or the row when columns is None.

        With a timestamp: the versions at or before it. exact: only the one version at the timestamp, or the newest.
        """
        self._call(point.delete(self._view.table, row, columns, timestamp, exact, self._view.durability))

    def mutate_row(self, row: Name, changes: Iterable[Change]) -> list[int | Text | None]:
        """Makes changes of one row together, in order, each seeing those before it.

        A change is a rowlock.Put, Delete, Increment or Append: [rowlock.Put("f:z", b"1"), rowlock.Delete("f:y")].
        Answers one result a change: an increment's new number, an append's new value, None for puts and deletes.
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
        """Sets columns if "stored op expected" holds of one column; expected None: it is absent, b"": an empty one."""
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
        """Removes columns, or the row, if "stored op expected" holds of one column."""
        deletes = point.deletes_of(columns, timestamp)
        return self.check_and_mutate(row, [Check(column, expected, op)], deletes)

    def check_and_mutate(
        self,
        row: Name,
        checks: Iterable[Check | Filter],
        then: Iterable[Change],
        otherwise: Iterable[Change] = (),
    ) -> CheckResult[Text]:
        """Makes the changes of `then` if all checks hold, else those of `otherwise`, together.

        A check is a rowlock.Check of one column, or a filter over the row: [rowlock.Check("f:z", b"1")]. A change is
        what mutate_row takes: [rowlock.Put("f:z", b"2")].
        """
        request = point.check_and_mutate(self._view.table, row, checks, then, otherwise, self._view.durability)
        return point.check_result(request, self._call(request), self._view.decode)

    def increment(self, row: Name, column: Name, amount: int = 1) -> int:
        """Adds to a 64-bit counter, a missing one counts as 0; its new number."""
        return point.new_number(
            self._call(point.increment(self._view.table, row, column, amount, self._view.durability))
        )

    def append(self, row: Name, column: Name, suffix: Value) -> Text:
        """Appends to a value, a missing one counts as empty; the new value."""
        request = point.append(self._view.table, row, column, suffix, self._view.durability)
        return point.new_text(self._call(request), self._view.decode)

    def batch(self, size: int = SIZE_DEFAULT, max_bytes: int = MAX_BYTES_DEFAULT) -> Batch[Text]:
        """Collects changes and sends them together, when there are `size` of them or about max_bytes; see Batch."""
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
        """Writes an Arrow table, batch, reader or iterable of batches, or whatever exports an Arrow stream (pandas).

        With a mapping its rows are written as cells; without one the data is cells already: row, family, qualifier,
        value and, if there is one, timestamp, where a null timestamp is stamped and a null value deletes the column.
        Each batch of about batch_bytes is applied whole; all together are not. Of rows with the same key the later
        wins. on_progress is called with the number of rows applied so far; what it raises ends the call, and then
        nobody tells what became of the rows under way. busy_timeout: how many seconds a server is waited for that
        answers that it is busy, while the log says so every ten seconds; the table's timeout is for one that does not
        answer. Raises BulkError if a part was not written, also when the data
        itself raised something in the middle, MappingError if the first batch does not fit.
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
        """The newest version of each column, {column: value}; {} when the row is absent.

        columns: columns and whole families, None: all. timestamp: versions at or before it; time_range: versions in
        [start, stop). include_timestamp: {column: (value, timestamp)}.
        """
        is_whole = columns is None and timestamp is None and time_range is None
        selection = None if is_whole else Selection(columns, timestamp, time_range)
        cells = self._row_cells(row, selection)
        if include_timestamp:
            return point.row_dict_with_timestamps(cells, self._view.decode)
        return point.row_dict(cells, self._view.decode)

    def rows(self, rows: Sequence[Name], columns: Sequence[Name] | None = None) -> list[tuple[Text, dict[Text, Text]]]:
        """Several rows, in the order asked, {} for absent ones; up to 1,000 of one region at one read point."""
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
        """The versions of one column, (value, timestamp), newest first; versions None: all that the family keeps."""
        parse_cell_column(column)
        wanted = VERSIONS_ALL if versions is None else versions
        cells = self._row_cells(row, Selection([column], timestamp, time_range, wanted))
        return point.value_versions(cells, self._view.decode)

    def counter(self, row: Name, column: Name) -> int:
        """A counter's number, 0 when it is missing; raises NotACounterError if the cell is not 8 bytes."""
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
    ) -> Scan[Text]:
        """Rows of [start, stop), or that start with a prefix, or of several ranges; all rows without any of them.

        columns: columns and whole families, None: all. where: a filter, evaluated on the whole row. limit: rows over
        the whole scan. reverse: the same rows backwards. keys_only: values are empty. timestamp, time_range: as in
        `row`. versions: newest versions of each column, which Scan.cells() shows. cells: which cells of a row.
        strict: fail rather than go on at a new read point after a loss. batch_bytes: about how large the server's
        batches are, 0: its default. snapshot: reads what this snapshot (or its id) sees; SnapshotEndedError when it has
        ended. busy_timeout: as in put_arrow, None: no longer than the table's timeout.
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
        """Where a scan may be cut, for readers side by side: `scan(ranges=split.ranges)` over all is the whole scan.

        Each has about part_bytes of the columns' families, as far as block indexes and memory tell. In row order.
        """
        plan = plan_to_cut(self._view.table, start, stop, prefix, ranges, columns, part_bytes)
        return splits(self._servers, plan, part_bytes, self._view.timeout_s)

    # How it is done

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
