"""The memstore segment of a bulk batch that came as rows: immutable lines, read by bisection and by slices."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from rowlock_regionserver.arrow.allocations import bytes_kept_alive
from rowlock_regionserver.arrow.columns import Integers, empty_cells
from rowlock_regionserver.arrow.line_columns import LineColumns
from rowlock_regionserver.arrow.line_merging import merged_versions
from rowlock_regionserver.arrow.lines import Lines, cells_of, number_bounds
from rowlock_regionserver.arrow.merge import merged as merged_runs
from rowlock_regionserver.arrow.sorted_run import SortedRun
from rowlock_regionserver.cells import Cell
from rowlock_regionserver.few_rows import FEW_CELLS_MAX, NO_FEW_ROWS, FewRows, LineFacts
from rowlock_regionserver.found_cells import NO_LIMIT, FoundLine, LongRowError
from rowlock_regionserver.memstore.arrow_segment import ArrowSegment
from rowlock_regionserver.memstore.row_cuts import cut_rows, weights
from rowlock_regionserver.memstore.row_reading import parts_of
from rowlock_regionserver.memstore.row_segment import WEIGHTS_COUNT, SegmentStatistics
from rowlock_regionserver.memstore.segment_filter import SegmentFilter
from rowlock_regionserver.row_groups import NO_ROW_GROUPS
from rowlock_regionserver.sources import (
    CELLS_OF_LINES,
    NOWHERE,
    Chunk,
    FewWanted,
    LinesWanted,
    Reading,
    RowPlace,
    RowSource,
)

# Bytes of a line beside its row and its values.
_LINE_BYTES_BESIDE = 16
# Memory of a column beside its buffers: its Arrow array, its reader and their views.
_COLUMN_BYTES_BESIDE = 2000
# Lines of segments that don't fit one become cells if they have no more bytes. As cells they take several times that.
_MERGED_AS_CELLS_BYTES_MAX = 256 * 1024


class LinesSegment:
    """One family's cells of one region as lines, each of which has a cell; a Source.

    Immutable, so any number of threads may use it. read_rows returns slices of the lines, without a copy, to a scan
    that takes lines, else their cells.
    """

    row_groups = NO_ROW_GROUPS

    def __init__(self, lines: Lines, bytes_held: int | None = None) -> None:
        """`bytes_held`: the segment's share, if the memory behind the lines is shared with other segments."""
        assert len(lines), "a segment without lines"
        self._lines = lines
        self._columns = LineColumns(lines)
        self.has_tombstones = False
        self.tombstone_count = 0
        self.has_versions = lines.has_versions
        self.row_count = int(lines.starts_row.sum())
        self.cell_count = lines.cell_count
        self.write_number_min, self.write_number_max = number_bounds(lines.write_numbers)
        self.line_timestamp_min, self.timestamp_max = number_bounds(lines.timestamps)
        if bytes_held is None:
            bytes_held = bytes_kept_alive([lines.rows, *lines.columns])
        # With the numbers, and the sums of _ends, which a scan makes.
        bytes_held += lines.timestamps.nbytes + lines.write_numbers.nbytes + 8 * (len(lines) + 1)
        self.filter = SegmentFilter(lines.rows, bytes_held)
        self.bytes_held = bytes_held + self.filter.byte_count + _COLUMN_BYTES_BESIDE * len(lines.columns)

    def renumbered(self, write_number: int, stamp: int | None = None) -> LinesSegment:
        """Returns the same lines, all of another write, and of another timestamp if there is a `stamp`. O(1)."""
        renumbered = copy.copy(self)
        numbers = np.full((1, 1), write_number, np.int64)
        timestamps = self._lines.timestamps
        if stamp is not None:
            timestamps = np.full((1, 1), stamp, np.int64)
            renumbered.line_timestamp_min = renumbered.timestamp_max = stamp
        renumbered._lines = replace(self._lines, write_numbers=numbers, timestamps=timestamps)
        renumbered._columns = self._columns.renumbered(numbers, timestamps)
        renumbered.write_number_min = renumbered.write_number_max = write_number
        return renumbered

    @cached_property
    def byte_count(self) -> int:
        """The bytes of the lines, without those of other segments that share their memory."""
        return _line_bytes(self._lines)

    @staticmethod
    def merged(segments: Sequence[LinesSegment]) -> LinesSegment | ArrowSegment | None:
        """Returns one segment of all lines.

        If they don't fit one (merged_versions), for example because their columns differ, it is a segment of their
        cells while there are few; else None.
        """
        lines = merged_versions([segment._lines for segment in segments])
        if lines is not None:
            return LinesSegment(lines)
        if sum([segment.byte_count for segment in segments]) > _MERGED_AS_CELLS_BYTES_MAX:
            return None
        return ArrowSegment(merged_runs([SortedRun.of_table(cells_of(segment._lines)) for segment in segments]).table())

    @cached_property
    def _ends(self) -> Integers:
        """The bytes of the cells before each line. Two threads may make it at once, which is harmless."""
        ends = np.zeros(len(self._lines) + 1, np.int64)
        np.cumsum(self._lines.cell_bytes(), out=ends[1:])
        return ends

    def statistics(self) -> SegmentStatistics:
        return SegmentStatistics(self.row_count, self.cell_count, self.bytes_held, pruned_cell_count=0)

    def row_cells(self, row: bytes, cells_max: int = NO_LIMIT) -> list[Cell]:
        """Returns the row's cells in store order; see Source. O(log n) if it has the row, else mostly O(1)."""
        if not self.filter.may_hold(row):
            return []
        return _bounded(self._columns.row_cells(*self._columns.row_range(row)), cells_max)

    def columns_cells(self, row: bytes, qualifiers: Sequence[bytes], cells_max: int = NO_LIMIT) -> list[Cell]:
        """Returns the columns' cells of the row, sorted; see Source. O(columns + log n), or mostly O(1)."""
        if not self.filter.may_hold(row):
            return []
        return _bounded(self._columns.columns_cells(*self._columns.row_range(row), qualifiers), cells_max)

    def row_cell_count(self, row: bytes) -> int:
        """Returns the number of the row's cells, as if it had all columns. O(log n), or mostly O(1) if it has none."""
        if not self.filter.may_hold(row):
            return 0
        start, stop = self._columns.row_range(row)
        return (stop - start) * len(self._lines.columns)

    def row_source(self, row: bytes) -> RowSource | RowPlace:
        """Returns the row's lines; NOWHERE if there are none. O(log n) if it has the row, else mostly O(1)."""
        if not self.filter.may_hold(row):
            return NOWHERE
        start, stop = self._columns.row_range(row)
        return LinesOfRow(self._columns, start, stop) if start < stop else NOWHERE

    def empty_until(self, start: bytes, stop: bytes, *, reverse: bool = False) -> bytes | None:
        """See Source; exact. O(log n)."""
        first, last = self._places_of(start, stop)
        if first >= last:
            return None
        return self.row(last - 1) + b"\x00" if reverse else self.row(first)

    def _places_of(self, start: bytes, stop: bytes) -> tuple[int, int]:
        first = self.first_at_or_after(start)
        return first, self.first_at_or_after(stop) if stop else len(self._lines)

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
        """Returns complete rows; see Source. A row is as large as its cells. O(log n) for lines."""
        wanted = self._lines
        if lines is not None and not lines.counts_cells:
            cell_bytes_max = CELLS_OF_LINES * bytes_max
            if lines.columns is not None and not lines.marks_others:
                wanted, cell_bytes_max = wanted.select(lines.columns), NO_LIMIT
            byte_count = self.byte_count if wanted is self._lines else _line_bytes(wanted)
            bytes_max = min(cell_bytes_max, bytes_max * int(self._ends[-1]) // byte_count)
        first, last = self._places_of(start, stop)
        cut = cut_rows(self, first, last, bytes_max, row_bytes_max, reverse=reverse)
        of_rows = wanted.slice(cut.start, cut.stop)
        table = empty_cells() if lines is not None else cells_of(of_rows)
        return Chunk(
            table,
            cut.frontier,
            has_tombstones=False,
            has_versions=self.has_versions,
            write_number_max=self.write_number_max,
            timestamp_min=self.line_timestamp_min,
            wide_row=cut.wide_row,
            bytes_held=0 if lines is not None else table.get_total_buffer_size(),
            lines=of_rows if lines is not None and len(of_rows) else None,
        )

    def few_rows(self, start: bytes, stop: bytes, wanted: FewWanted) -> FewRows | None:
        """Returns the first rows; see Source. Each is one line unless rows have versions. None: one has many."""
        first, last = self._places_of(start, stop)
        if first == last:
            return NO_FEW_ROWS
        lines_max = max(1, wanted.bytes_max * len(self._lines) // self.byte_count)
        last = min(last, first + wanted.rows_max, first + lines_max)
        if self.has_versions and last < len(self._lines):
            before, last = last, self.first_at_or_after(self.row(last - 1) + b"\x00")
            if (last - before) * len(self._lines.columns) > FEW_CELLS_MAX:
                return None
        frontier = None
        if last < len(self._lines) and (not stop or self.row(last) < stop):
            frontier = self.row(last)
        facts = LineFacts(self.write_number_max, self.line_timestamp_min)
        return self._columns.few_rows(first, last, frontier, facts, wanted.columns)

    def row(self, place: int) -> bytes:
        """Returns the row of a line."""
        return self._columns.row(place)

    def first_at_or_after(self, row: bytes) -> int:
        """Returns the place of the first line with a row >= `row`; the number of lines if there is none. O(log n)."""
        return self._columns.first_at_or_after(row)

    def bytes_of(self, start: int, stop: int) -> int:
        """Returns the bytes of the lines [start, stop) as cells."""
        return int(self._ends[stop] - self._ends[start])

    def row_parts(self, row: bytes, bytes_max: int, start: bytes = b"", stop: bytes = b"") -> Iterator[Chunk]:
        """Yields the row's cells with qualifiers in [start, stop); see Source."""
        yield from parts_of(row, self.row_cells(row), bytes_max, start, stop)

    def row_weights(self, count: int = WEIGHTS_COUNT) -> list[tuple[bytes, int]]:
        """Returns about `count` pairs (row, bytes of the cells from it on), ascending: where a scan may be split."""
        return weights(self, len(self._lines), count)

    def _check(self) -> None:
        """Asserts that the lines are valid, in order, and have cells. O(cells)."""
        self._lines.check()
        table = cells_of(self._lines)
        assert self.cell_count == table.num_rows, f"{self.cell_count} cells counted"
        assert self.row_count == len(set(table.column(0).to_pylist())), f"{self.row_count} rows counted"


class LinesOfRow:
    """The lines of one row in a segment, as the source of this row."""

    __slots__ = ("_columns", "_start", "_stop")

    def __init__(self, columns: LineColumns, start: int, stop: int) -> None:
        self._columns = columns
        self._start = start
        self._stop = stop

    def line(self, row: bytes) -> FoundLine | None:
        """Returns the row if it is one line, with a cell in each column and the same numbers in all; else None."""
        return self._columns.line(self._start) if self._stop - self._start == 1 else None

    def row_cells(self, row: bytes, cells_max: int = NO_LIMIT) -> list[Cell]:
        """See RowSource."""
        return _bounded(self._columns.row_cells(self._start, self._stop), cells_max)

    def columns_cells(self, row: bytes, qualifiers: Sequence[bytes], cells_max: int = NO_LIMIT) -> list[Cell]:
        """See RowSource."""
        return _bounded(self._columns.columns_cells(self._start, self._stop, qualifiers), cells_max)


def _bounded(cells: list[Cell], cells_max: int) -> list[Cell]:
    """Returns the cells. Raises LongRowError if there are more than `cells_max`; a row of lines is never large."""
    if len(cells) > cells_max:
        raise LongRowError
    return cells


def _line_bytes(lines: Lines) -> int:
    """Returns the bytes of the lines, as lines."""
    return lines.rows.nbytes + sum([column.nbytes for column in lines.columns]) + _LINE_BYTES_BESIDE * len(lines)
