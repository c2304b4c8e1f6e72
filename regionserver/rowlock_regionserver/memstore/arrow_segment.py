"""The segment that a bulk batch becomes: one immutable, sorted Arrow table, read by bisection and by slices."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from rowlock_regionserver.cells import CELL_SCHEMA, Cell
from rowlock_regionserver.memstore.segment import WEIGHTS_COUNT, SegmentStatistics
from rowlock_regionserver.scan.cell_columns import CellColumns
from rowlock_regionserver.scan.columns import QUALIFIER, ROW, VALUE, column, numbers, single_chunk
from rowlock_regionserver.scan.sorted_cells import SortedCells, TableFacts, changes
from rowlock_regionserver.sources import Chunk

# Timestamp, write number and kind of a cell.
_NUMBER_BYTES = 17


class ArrowSegment:
    """One family's cells of one region out of one table of CELL_SCHEMA in store order; a Source.

    Immutable, so any number of threads may use it. What read_rows gives are slices of the table, uncopied.
    """

    def __init__(self, table: pa.Table) -> None:
        assert table.schema.equals(CELL_SCHEMA), f"not a table of cells: {table.schema}"
        self._table = single_chunk(table)
        self._bytes_held = _bytes_kept_by(self._table)
        self._cells = CellColumns(self._table)
        self._facts = TableFacts.of(self._table)
        self._row_count = int(changes(SortedCells.of(self._table).row).sum())
        self._offsets = [numbers(column(self._table, i), "i", one_more=True) for i in (ROW, QUALIFIER, VALUE)]

    @property
    def write_number_min(self) -> int:
        return self._facts.write_number_min

    @property
    def write_number_max(self) -> int:
        return self._facts.write_number_max

    @property
    def has_tombstones(self) -> bool:
        return self._facts.has_tombstones

    @property
    def bytes_held(self) -> int:
        """What the table keeps alive: a bulk batch's cells may lie in the message that brought them."""
        return self._bytes_held

    @property
    def row_count(self) -> int:
        return self._row_count

    @property
    def cell_count(self) -> int:
        return self._table.num_rows

    def statistics(self) -> SegmentStatistics:
        return SegmentStatistics(self.row_count, self.cell_count, self.bytes_held, pruned_cell_count=0)

    def row_cells(self, row: bytes) -> list[Cell]:
        """The row's cells in store order; empty when there are none. O(log n)."""
        return self._cells.row_cells(row)

    def column_cells(self, row: bytes, qualifier: bytes) -> list[Cell]:
        """The column's cells and the family tombstones of the row, in store order. O(log n)."""
        return self._cells.column_cells(row, qualifier)

    def is_row_in_memory(self, row: bytes) -> bool:
        """Always."""
        return True

    def read_rows(self, start: bytes, stop: bytes, bytes_max: int, *, reverse: bool = False) -> Chunk:
        """Whole rows, as Source says, as a slice of the table; the flags are the whole table's. O(log n)."""
        first = self._cells.first_at_or_after(start)
        last = self._cells.first_at_or_after(stop) if stop else self.cell_count
        frontier = None
        if first < last and reverse:
            cut = self._cells.row(self._last_cell_within(first, last, bytes_max, reverse=True))
            first, before = self._cells.first_at_or_after(cut), first
            frontier = cut if before < first else None
        elif first < last:
            cut = self._cells.row(self._last_cell_within(first, last, bytes_max, reverse=False)) + b"\x00"
            behind, last = last, self._cells.first_at_or_after(cut)
            frontier = cut if last < behind else None
        return Chunk(
            self._table.slice(first, max(last - first, 0)),
            frontier,
            has_tombstones=self._facts.has_tombstones,
            has_versions=self._facts.has_versions,
            write_number_max=self._facts.write_number_max,
            timestamp_min=self._facts.timestamp_min,
        )

    def _last_cell_within(self, first: int, last: int, bytes_max: int, *, reverse: bool) -> int:
        """The cell of [first, last) at which `bytes_max` are reached, counted from the end where reading starts."""
        low, high = first, last - 1
        while low < high:
            middle = (low + high + 1) // 2 if reverse else (low + high) // 2
            reached = self._bytes_of(middle, last) if reverse else self._bytes_of(first, middle + 1)
            if reverse:
                low, high = (middle, high) if reached >= bytes_max else (low, middle - 1)
            else:
                low, high = (low, middle) if reached >= bytes_max else (middle + 1, high)
        return low

    def _bytes_of(self, start: int, stop: int) -> int:
        return sum(at[stop] - at[start] for at in self._offsets) + _NUMBER_BYTES * (stop - start)

    def row_weights(self, count: int = WEIGHTS_COUNT) -> list[tuple[bytes, int]]:
        """(row, bytes of the cells from it on), rows ascending, about `count`: where a scan may be cut."""
        stride = max(1, -(-self.cell_count // count))
        weights: dict[bytes, int] = {}
        for first in range(0, self.cell_count, stride):
            row = self._cells.row(first)
            weights[row] = weights.get(row, 0) + self._bytes_of(first, min(first + stride, self.cell_count))
        return list(weights.items())

    def tables(self, slice_bytes: int = 1 << 20) -> Iterator[pa.Table]:
        """All cells as sorted tables of whole rows, about `slice_bytes` each: what a flush reads."""
        start: bytes | None = b""
        while start is not None:
            chunk = self.read_rows(start, b"", slice_bytes)
            if chunk.table.num_rows:
                yield chunk.table
            start = chunk.frontier

    def _check(self) -> None:
        """Asserts that the table is valid and in store order. O(cells)."""
        self._table.validate(full=True)
        cells = self._cells.cells(0, self.cell_count)
        keys = [(self._cells.row(place), *cell[:3]) for place, cell in enumerate(cells)]
        assert keys == sorted(keys), "the cells are out of order"
        assert self._row_count == len({key[0] for key in keys}), f"{self._row_count} rows counted"


def _bytes_kept_by(table: pa.Table) -> int:
    """What its buffers keep in memory: each once, with all that it was cut from."""
    kept: dict[int, int] = {}
    for chunked in table.columns:
        for array in chunked.chunks:
            for buffer in array.buffers():
                whole = buffer
                while whole is not None and whole.parent is not None:
                    whole = whole.parent
                if whole is not None:
                    kept[whole.address] = whole.size
    return sum(kept.values())
