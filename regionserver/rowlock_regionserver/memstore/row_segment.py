"""The segment that takes writes: a sorted map from row to the row's cells, which can be read while it is written.

The map's keys are rows and not cells: 95 k rows/s of 10 cells, against 31 k if every cell is a key. A row's cells are
one sorted list of tuples. A thread that applies a row's cells holds its row lock, so one thread at a time writes a row,
in the order of write numbers. Readers copy up to `slice_rows` rows while they hold the segment's lock, and never
iterate the live map (measured: a concurrent writer makes rows disappear or appear twice). The copies may hold writes
past the reader's read point; visibility removes those.

A row that is written often is pruned by the rules of flush (`retention.retained_cells`), so a counter stays a few cells
long however often it is incremented. Pruning takes time in proportion to the row, so a row is pruned only when it is
longer than `prune_cells_min` and has doubled since it was last pruned: amortized O(1) for each cell.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from sortedcontainers import SortedDict

from rowlock_regionserver.arrow.columns import cells_table
from rowlock_regionserver.cells import NEWEST, TIMESTAMP_MAX, Cell, PastLimits, ProtectedReadPoints
from rowlock_regionserver.few_rows import FewRows
from rowlock_regionserver.found_cells import NO_LIMIT, LongRowError
from rowlock_regionserver.memstore.row_reading import (
    chunk_of,
    columns_of,
    few_rows_of,
    frontier_of,
    merge_into,
    parts_of,
    tombstones_of,
    weights_of,
)
from rowlock_regionserver.row_groups import NO_ROW_GROUPS
from rowlock_regionserver.sources import NOWHERE, Chunk, FewWanted, LinesWanted, Reading, RowPlace, RowSource
from rowlock_regionserver.versions.retention import Retention, retained_cells

# Memory in CPython. A cell: the tuple, its slot in the row's list (lists grow by an eighth), two bytes objects (+ 8:
# the allocator rounds up to 16), and two ints of the size of a timestamp and a write number.
CELL_BYTES = (
    sys.getsizeof((b"", 0, 0, 0, b""))
    + 9
    + 2 * (sys.getsizeof(b"") + 8)
    + sys.getsizeof(-(1 << 41))
    + sys.getsizeof(-1)
)
# A row: its list, its key, and its share of the map's hash table (about 70 bytes at its usual fill) and sorted keys.
ROW_BYTES = sys.getsizeof([]) + sys.getsizeof(b"") + 8 + 80

# The number of points at which a scan of a segment may be split.
WEIGHTS_COUNT = 256

# A row of no more cells is never pruned.
PRUNE_CELLS_MIN = 64

# The size of a reader's first slice. Slices grow to `slice_rows`, so that short scans hold the lock briefly.
_FIRST_SLICE_ROWS = 8


@dataclass(frozen=True, slots=True)
class SegmentStatistics:
    """The contents of a segment; `pruned_cell_count` counts the cells that pruning has removed so far."""

    row_count: int
    cell_count: int
    bytes_held: int
    pruned_cell_count: int


class RowSegment:
    """One family's newest cells of one region, in memory; a Source. Any number of threads may use it.

    A `recovering` segment is built from the log by one thread, and must not be read before `recovered()`, which sorts
    its rows and their cells once: 5 µs a row instead of 10 with 500,000 rows.
    """

    row_groups, timestamp_max = NO_ROW_GROUPS, TIMESTAMP_MAX  # Neither is known.

    def __init__(
        self,
        versions: int,
        *,
        recovering: bool = False,
        slice_rows: int = 64,
        prune_cells_min: int = PRUNE_CELLS_MIN,
        past: tuple[PastLimits, ...] = (),
    ) -> None:
        """`past`: the family's limits before alters, for cells from before those."""
        assert versions > 0, f"versions is {versions}"
        self._versions = versions
        self._past = past
        self._slice_rows = slice_rows
        self._prune_cells_min = prune_cells_min
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._is_recovering = recovering
        self._rows: dict[bytes, list[Cell]] = {} if recovering else SortedDict()
        self._prune_above: dict[bytes, int] = {}  # only for long rows: the length above which to prune next
        self._is_sealed = False
        self._bytes_held = 0
        self._cell_count = 0
        self._pruned_cell_count = 0
        self._has_tombstones = False
        self._tombstone_count = 0
        self._write_number_min = NEWEST
        self._write_number_max = 0

    # ---- writing

    def apply(self, row: bytes, cells: Sequence[Cell], protected_read_points: Callable[[], ProtectedReadPoints]) -> int:
        """Adds one write's sorted cells to the row, whose lock the caller holds. Returns the growth of memory in bytes.

        The growth may be negative, after pruning. `protected_read_points` returns the read points of current and future
        readers. It is called only before pruning, without the segment's lock. About 2 µs for a cell, 7 µs for a new row
        of 10 cells.
        """
        grown = CELL_BYTES * len(cells)
        kinds = 0
        for qualifier, _, _, kind, value in cells:
            grown += len(qualifier) + len(value)
            kinds |= kind
        write_number = -cells[0][2]
        with self._lock:
            assert not self._is_sealed, f"a write to the sealed segment of write numbers up to {self._write_number_max}"
            held = self._rows.get(row)
            if held is None:
                held = self._rows[row] = list(cells)
                grown += ROW_BYTES + len(row)
            elif self._is_recovering:
                held += cells
            else:
                merge_into(held, cells)
            self._bytes_held += grown
            self._cell_count += len(cells)
            if kinds:
                self._has_tombstones = True
                self._tombstone_count += tombstones_of(cells)
            if write_number < self._write_number_min:
                self._write_number_min = write_number
            if write_number > self._write_number_max:
                self._write_number_max = write_number
            must_prune = len(held) > self._prune_cells_min and len(held) > self._prune_above.get(row, 0)
        if must_prune:
            grown += self._prune(row, held, protected_read_points())
        return grown

    def _prune(self, row: bytes, held: list[Cell], spans: ProtectedReadPoints) -> int:
        """Drops the cells that no read can need. Returns the growth of memory, which is 0 or less."""
        with self._lock:
            if self._is_recovering:
                held.sort()
            retained = retained_cells(held, Retention(spans, past=self._past), self._versions)
            count = len(held) - len(retained)
            grown = _bytes_of(retained) - _bytes_of(held) if count else 0
            if self._has_tombstones:
                self._tombstone_count += tombstones_of(retained) - tombstones_of(held)
            held[:] = retained
            self._prune_above[row] = 2 * len(retained)
            self._cell_count -= count
            self._pruned_cell_count += count
            self._bytes_held += grown
        return grown

    def take_back(self, row: bytes, write_number: int) -> int:
        """Removes a write's cells from the row, if there are any. Returns the growth of memory, which is 0 or less.

        Correct only for the newest write, while it is unpublished: the cells that it hides are not pruned yet.
        """
        with self._lock:
            held = self._rows.get(row, [])
            remaining = [cell for cell in held if -cell[2] != write_number]
            if len(remaining) == len(held):
                return 0
            grown = _bytes_of(remaining) - _bytes_of(held)
            self._cell_count -= len(held) - len(remaining)
            self._tombstone_count += tombstones_of(remaining) - tombstones_of(held)
            held[:] = remaining
            if not remaining:
                del self._rows[row]
                self._prune_above.pop(row, None)
                grown -= ROW_BYTES + len(row)
            self._bytes_held += grown
        return grown

    def seal(self) -> None:
        """Makes the segment immutable. Also ends recovery."""
        self.recovered()
        with self._lock:
            self._is_sealed = True

    def recovered(self) -> None:
        """Ends recovery, if it is in progress: sorts the rows and their cells."""
        with self._lock:
            if self._is_recovering:
                for held in self._rows.values():
                    held.sort()
                self._rows = SortedDict(self._rows)
                self._is_recovering = False

    # ---- reading

    @property
    def write_number_min(self) -> int:
        return self._write_number_min

    @property
    def write_number_max(self) -> int:
        return self._write_number_max

    @property
    def line_timestamp_min(self) -> int | None:
        """None: the segment has no lines."""
        return None

    @property
    def has_tombstones(self) -> bool:
        """Whether a tombstone was added; it may have been taken back or pruned."""
        return self._has_tombstones

    @property
    def tombstone_count(self) -> int:
        return self._tombstone_count

    @property
    def bytes_held(self) -> int:
        return self._bytes_held

    @property
    def row_count(self) -> int:
        return len(self._rows)

    @property
    def cell_count(self) -> int:
        return self._cell_count

    @property
    def is_sealed(self) -> bool:
        return self._is_sealed

    def statistics(self) -> SegmentStatistics:
        with self._lock:
            return SegmentStatistics(len(self._rows), self._cell_count, self._bytes_held, self._pruned_cell_count)

    def row_cells(self, row: bytes, cells_max: int = NO_LIMIT) -> list[Cell]:
        """Returns a copy of the row's cells in store order; see Source."""
        if self._is_sealed:  # It is immutable, so a reader need not wait for a flush that holds the lock.
            return self._copied(row, cells_max)
        with self._lock:
            return self._copied(row, cells_max)

    def _copied(self, row: bytes, cells_max: int) -> list[Cell]:
        held = self._rows.get(row)
        if held is None:
            return []
        if len(held) > cells_max:
            raise LongRowError
        return held.copy()

    def columns_cells(self, row: bytes, qualifiers: Sequence[bytes], cells_max: int = NO_LIMIT) -> list[Cell]:
        """Returns the columns' cells and the family tombstones of the row, sorted; see Source. O(columns * log row)."""
        if self._is_sealed:
            return self._copied_columns(row, qualifiers, cells_max)
        with self._lock:
            return self._copied_columns(row, qualifiers, cells_max)

    def _copied_columns(self, row: bytes, qualifiers: Sequence[bytes], cells_max: int) -> list[Cell]:
        held = self._rows.get(row)
        return columns_of(held, qualifiers, cells_max) if held is not None else []

    def row_cell_count(self, row: bytes) -> int:
        """Returns the number of the row's cells. O(1)."""
        held = self._rows.get(row)
        return 0 if held is None else len(held)

    def row_source(self, row: bytes) -> RowSource | RowPlace:
        """Returns NOWHERE if it does not have the row, else itself."""
        return self if row in self._rows else NOWHERE

    def empty_until(self, start: bytes, stop: bytes, *, reverse: bool = False) -> bytes | None:
        """See Source; exact. O(log n)."""
        with self._lock:
            assert isinstance(self._rows, SortedDict), "a segment is read before it is recovered"
            row = next(self._rows.irange(start, stop or None, inclusive=(True, False), reverse=reverse), None)
        return row + b"\x00" if reverse and row is not None else row

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
        """Returns complete rows; see Source. Copies rows under the lock in slices, and builds the table without it."""
        rows: list[bytes] = []
        cells_by_row: list[list[Cell]] = []
        byte_count = 0
        frontier = wide_row = None
        for row, cells in self._copied_rows(start, stop, reverse):
            if len(cells) == 1:  # A scan may have to pass many rows of one tombstone.
                row_bytes = len(cells[0][0]) + len(cells[0][4]) + len(row) + 17
            else:
                row_bytes = sum([len(cell[0]) + len(cell[4]) for cell in cells]) + len(cells) * (len(row) + 17)
            if row_bytes > row_bytes_max:
                frontier = row + b"\x00" if reverse else row
                wide_row = row
                break
            rows.append(row)
            cells_by_row.append(cells)
            byte_count += row_bytes
            if byte_count >= bytes_max:
                frontier = frontier_of(row, start, stop, reverse)
                break
        if reverse:
            rows.reverse()
            cells_by_row.reverse()
        return chunk_of(cells_table(rows, cells_by_row), frontier, wide_row=wide_row)

    def few_rows(self, start: bytes, stop: bytes, wanted: FewWanted) -> FewRows | None:
        """Returns the first rows with copies of their cells; see Source."""
        return few_rows_of(self._copied_rows(start, stop, reverse=False), start, stop, wanted)

    def row_parts(self, row: bytes, bytes_max: int, start: bytes = b"", stop: bytes = b"") -> Iterator[Chunk]:
        """Yields the row's cells with qualifiers in [start, stop), as of the request for the first part; see Source.

        References to the cells are copied at that moment; a large value is copied when it is loaded.
        """
        yield from parts_of(row, self.row_cells(row), bytes_max, start, stop)

    def row_weights(self, count: int = WEIGHTS_COUNT) -> list[tuple[bytes, int]]:
        """Returns pairs (row, estimated Arrow bytes of the cells from it on), ascending: where a scan may be split.

        At most `count` rows, evenly spaced; assumes that all rows have the same size.
        """
        with self._lock:
            assert isinstance(self._rows, SortedDict), "a segment is read before it is recovered"
            row_count, cell_count, bytes_held = len(self._rows), self._cell_count, self._bytes_held
            stride = max(1, -(-row_count // count))
            rows = [self._rows.peekitem(place)[0] for place in range(0, row_count, stride)]
        value_bytes = bytes_held - ROW_BYTES * row_count - CELL_BYTES * cell_count
        return weights_of(rows, stride, row_count, cell_count, value_bytes)

    def pieces(self) -> Iterator[object]:
        """Yields the keys and the lists of cells of a sealed segment.

        The last holder of the segment frees these in small steps: freeing a million cells at once would block all other
        threads for a fifth of a second.
        """
        assert self._is_sealed, "pieces of a segment that takes writes"
        return chain.from_iterable(dict.items(self._rows))  # unordered, and without a Python call for each row

    def _copied_rows(self, start: bytes, stop: bytes, reverse: bool) -> Iterator[tuple[bytes, list[Cell]]]:
        """Yields the rows of [start, stop) with copies of their cells, taken in slices under the lock."""
        slice_rows = min(_FIRST_SLICE_ROWS, self._slice_rows)
        first, last = start, stop or None
        while True:
            with self._lock:
                assert isinstance(self._rows, SortedDict), "a segment is read before it is recovered"
                found = self._rows.irange(first, last, inclusive=(True, False), reverse=reverse)
                copied = [(row, self._rows[row].copy()) for row in islice(found, slice_rows)]
            yield from copied
            if len(copied) < slice_rows:
                return
            if reverse:
                last = copied[-1][0]
            else:
                first = copied[-1][0] + b"\x00"
            slice_rows = min(4 * slice_rows, self._slice_rows)

    def _check(self) -> None:
        """Asserts every invariant; a put and a tombstone of one write may be in either order. O(cells)."""
        with self._lock:
            assert list(self._rows) == sorted(self._rows), "rows are out of order"
            cell_count = bytes_held = tombstone_count = 0
            for row, cells in self._rows.items():
                assert cells, f"row {row!r} is empty"
                assert cells == sorted(cells, key=lambda cell: cell[:3]), f"the cells of row {row!r} are out of order"
                for cell in cells:
                    number = -cell[2]
                    assert self._write_number_min <= number <= self._write_number_max, f"write number {number}"
                cell_count += len(cells)
                tombstone_count += tombstones_of(cells)
                bytes_held += ROW_BYTES + len(row) + _bytes_of(cells)
            assert cell_count == self._cell_count, f"{cell_count} cells, counted {self._cell_count}"
            assert tombstone_count == self._tombstone_count, (
                f"{tombstone_count} tombstones, counted {self._tombstone_count}"
            )
            assert bytes_held == self._bytes_held, f"{bytes_held} bytes, counted {self._bytes_held}"
            assert self._prune_above.keys() <= self._rows.keys(), "a row that does not exist is to be pruned"


def _bytes_of(cells: Sequence[Cell]) -> int:
    return CELL_BYTES * len(cells) + sum([len(cell[0]) + len(cell[4]) for cell in cells])
