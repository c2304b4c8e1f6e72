"""The memstore segment of a bulk batch: one immutable, sorted Arrow table, read by bisection and by slices."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.allocations import bytes_kept_alive
from rowlock_regionserver.arrow.cell_columns import CellColumns
from rowlock_regionserver.arrow.columns import (
    KIND,
    QUALIFIER,
    ROW,
    TIMESTAMP,
    VALUE,
    WRITE_NUMBER,
    boolean_array,
    column,
    equals_previous,
    integer_array,
    integers,
    kinds,
    numbers,
    single_chunk,
)
from rowlock_regionserver.arrow.merge import merged
from rowlock_regionserver.arrow.sorted_cells import TableProperties
from rowlock_regionserver.arrow.sorted_run import SortedRun
from rowlock_regionserver.cells import CELL_SCHEMA
from rowlock_regionserver.few_rows import CELL_BYTES, FEW_BYTES_MAX, FEW_CELLS_MAX, FewRows
from rowlock_regionserver.found_cells import NO_LIMIT, FoundCell, LongRowError
from rowlock_regionserver.memstore.row_cuts import cut_rows, last_within, weights
from rowlock_regionserver.memstore.row_segment import WEIGHTS_COUNT, SegmentStatistics
from rowlock_regionserver.memstore.segment_filter import SegmentFilter
from rowlock_regionserver.row_groups import NO_ROW_GROUPS
from rowlock_regionserver.sources import NOWHERE, Chunk, FewWanted, LinesWanted, Reading, RowPlace, RowSource

# Timestamp, write number and kind of a cell.
_NUMBER_BYTES = 17


class ArrowSegment:
    """One family's cells of one region in one table of CELL_SCHEMA in store order; a Source.

    Immutable, so any number of threads may use it. read_rows returns slices of the table, without a copy.
    """

    row_groups = NO_ROW_GROUPS

    def __init__(self, table: pa.Table, bytes_held: int | None = None) -> None:
        """`bytes_held`: the segment's share, if the memory behind the table is shared with other segments."""
        assert table.schema.equals(CELL_SCHEMA), f"not a table of cells: {table.schema}"
        self._table = single_chunk(table)
        if bytes_held is None:
            bytes_held = bytes_kept_alive(chunk for chunked in self._table.columns for chunk in chunked.chunks)
        self._cells = CellColumns(self._table)
        self._facts = TableProperties.of(self._table)
        self._timestamp_max = int(integers(column(self._table, TIMESTAMP)).max()) if self._table.num_rows else 0
        self._tombstone_count = 0
        if self._facts.has_tombstones:
            self._tombstone_count = int(np.count_nonzero(kinds(column(self._table, KIND))))
        rows = column(self._table, ROW)
        starts_row = ~equals_previous(rows)
        self._row_count = int(starts_row.sum())
        self.filter = SegmentFilter(rows.filter(boolean_array(starts_row)))
        self._bytes_held = bytes_held + self.filter.byte_count
        self._offsets = [numbers(column(self._table, i), "i", one_more=True) for i in (ROW, QUALIFIER, VALUE)]

    def renumbered(self, write_number: int, stamp: int | None = None) -> ArrowSegment:
        """Returns the same cells, all of another write, and of another timestamp if there is a `stamp`.

        There must be cells. Some 2 ns a cell.
        """
        renumbered = copy.copy(self)
        renumbered._table = _with_number(self._table, WRITE_NUMBER, write_number)
        renumbered._facts = replace(self._facts, write_number_min=write_number, write_number_max=write_number)
        if stamp is not None:
            renumbered._table = _with_number(renumbered._table, TIMESTAMP, stamp)
            renumbered._facts = replace(renumbered._facts, timestamp_min=stamp)
            renumbered._timestamp_max = stamp
        renumbered._cells = CellColumns(renumbered._table)
        return renumbered

    @staticmethod
    def merged(segments: Sequence[ArrowSegment]) -> ArrowSegment:
        """Returns one segment of all cells. Some 2 M cells/s."""
        return ArrowSegment(merged([SortedRun.of_table(segment._table) for segment in segments]).table())

    @property
    def byte_count(self) -> int:
        """The bytes of the cells, without those of other segments that share their memory."""
        return self.bytes_of(0, self.cell_count)

    @property
    def write_number_min(self) -> int:
        return self._facts.write_number_min

    @property
    def write_number_max(self) -> int:
        return self._facts.write_number_max

    @property
    def line_timestamp_min(self) -> int | None:
        """None: the segment has no lines."""
        return None

    @property
    def timestamp_max(self) -> int:
        return self._timestamp_max

    @property
    def has_tombstones(self) -> bool:
        return self._facts.has_tombstones

    @property
    def tombstone_count(self) -> int:
        return self._tombstone_count

    @property
    def bytes_held(self) -> int:
        """The bytes that it keeps alive: a bulk batch's cells may be slices of the message that brought them."""
        return self._bytes_held

    @property
    def row_count(self) -> int:
        return self._row_count

    @property
    def cell_count(self) -> int:
        return self._table.num_rows

    def statistics(self) -> SegmentStatistics:
        return SegmentStatistics(self.row_count, self.cell_count, self.bytes_held, pruned_cell_count=0)

    def row_cells(self, row: bytes, cells_max: int = NO_LIMIT) -> list[FoundCell]:
        """Returns the row's cells in store order; see Source. O(log n) if it has the row, else mostly O(1)."""
        if not self.filter.may_hold(row):
            return []
        start, stop = self._cells.row_range(row)
        if stop - start > cells_max:
            raise LongRowError
        return self._cells.found_cells(start, stop)

    def columns_cells(self, row: bytes, qualifiers: Sequence[bytes], cells_max: int = NO_LIMIT) -> list[FoundCell]:
        """Returns the columns' cells and the family tombstones of the row, sorted; see Source. O(columns * log n)."""
        if not self.filter.may_hold(row):
            return []
        return self._cells.columns_cells(row, qualifiers, cells_max)

    def row_cell_count(self, row: bytes) -> int:
        """Returns the number of the row's cells. O(log n) if it has the row, else mostly O(1)."""
        if not self.filter.may_hold(row):
            return 0
        start, stop = self._cells.row_range(row)
        return stop - start

    def row_source(self, row: bytes) -> RowSource | RowPlace:
        """Returns NOWHERE if the filter excludes the row, else itself: to look takes as long as to read."""
        return self if self.filter.may_hold(row) else NOWHERE

    def empty_until(self, start: bytes, stop: bytes, *, reverse: bool = False) -> bytes | None:
        """See Source; exact. O(log n)."""
        first, last = self._places_of(start, stop)
        if first >= last:
            return None
        return self._cells.row(last - 1) + b"\x00" if reverse else self._cells.row(first)

    def _places_of(self, start: bytes, stop: bytes) -> tuple[int, int]:
        first = self._cells.first_at_or_after(start)
        return first, self._cells.first_at_or_after(stop) if stop else self.cell_count

    def read_rows(
        self,
        start: bytes,
        stop: bytes,
        bytes_max: int,
        row_bytes_max: int = NO_LIMIT,
        *,
        reverse: bool = False,
        lines: LinesWanted | None = None,
        reading: Reading = Reading.BULK,
    ) -> Chunk:
        """Returns complete rows as a slice of the table; see Source. Its flags are the entire table's. O(log n)."""
        first, last = self._places_of(start, stop)
        return self._chunk(*cut_rows(self, first, last, bytes_max, row_bytes_max, reverse=reverse))

    def few_rows(self, start: bytes, stop: bytes, wanted: FewWanted) -> FewRows | None:
        """Returns the first rows; see Source. Some 10 µs a row."""
        place, last = self._places_of(start, stop)
        cells = self._cells
        rows: list[bytes] = []
        starts = [place]
        byte_count = 0
        frontier = None
        while place < last:
            row = cells.row(place)
            if len(rows) == wanted.rows_max or byte_count >= wanted.bytes_max:
                frontier = row
                break
            _, place = cells.row_range(row)
            row_bytes = self.bytes_of(starts[-1], place)
            if place - starts[-1] > FEW_CELLS_MAX or row_bytes > FEW_BYTES_MAX:
                if not rows:
                    return None
                frontier = row
                break
            rows.append(row)
            byte_count += row_bytes + CELL_BYTES * (place - starts[-1])
            starts.append(place)
        return FewRows(rows, frontier, lambda place: cells.found_cells(starts[place], starts[place + 1]))

    def row(self, place: int) -> bytes:
        """Returns the row of a cell."""
        return self._cells.row(place)

    def first_at_or_after(self, row: bytes) -> int:
        """Returns the place of the first cell with a row >= `row`; the number of cells if there is none. O(log n)."""
        return self._cells.first_at_or_after(row)

    def bytes_of(self, start: int, stop: int) -> int:
        """Returns the bytes of the cells [start, stop)."""
        return sum(at[stop] - at[start] for at in self._offsets) + _NUMBER_BYTES * (stop - start)

    def row_parts(self, row: bytes, bytes_max: int, start: bytes = b"", stop: bytes = b"") -> Iterator[Chunk]:
        """Yields the row's cells with qualifiers in [start, stop), as slices of the table; see Source."""
        first, last = self._cells.range_within(row, start, stop)
        while first < last:
            reached = last_within(self, first, last, bytes_max + 1, reverse=False)
            part_stop = max(first + 1, reached if self.bytes_of(first, reached + 1) > bytes_max else reached + 1)
            yield self._chunk(first, part_stop)
            first = part_stop

    def _chunk(self, first: int, last: int, frontier: bytes | None = None, wide_row: bytes | None = None) -> Chunk:
        return Chunk(
            self._table.slice(first, last - first),
            frontier,
            has_tombstones=self._facts.has_tombstones,
            has_versions=self._facts.has_versions,
            write_number_max=self._facts.write_number_max,
            timestamp_min=self._facts.timestamp_min,
            wide_row=wide_row,
        )

    def row_weights(self, count: int = WEIGHTS_COUNT) -> list[tuple[bytes, int]]:
        """Returns about `count` pairs (row, bytes of the cells from it on), ascending: where a scan may be split."""
        return weights(self, self.cell_count, count)

    def _check(self) -> None:
        """Asserts that the table is valid and in store order. O(cells)."""
        self._table.validate(full=True)
        cells = self._cells.cells(0, self.cell_count)
        keys = [(self._cells.row(place), *cell[:3]) for place, cell in enumerate(cells)]
        assert keys == sorted(keys), "the cells are out of order"
        assert self._row_count == len({key[0] for key in keys}), f"{self._row_count} rows counted"


def _with_number(table: pa.Table, place: int, number: int) -> pa.Table:
    """Returns the table with one number in all cells of the column at `place`."""
    numbers = integer_array(np.full(table.num_rows, number, np.int64), pa.int64())
    return table.set_column(place, CELL_SCHEMA.field(place), numbers)
