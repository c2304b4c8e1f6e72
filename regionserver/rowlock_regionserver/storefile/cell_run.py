"""The cell blocks of a store file as a Source: one row's cells for points, tables of whole rows for scans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise

import pyarrow as pa

from rowlock_regionserver.arrow.cell_columns import first_not_below
from rowlock_regionserver.arrow.columns import QUALIFIER
from rowlock_regionserver.cells import CELL_SCHEMA, DELETE_FAMILY
from rowlock_regionserver.few_rows import FEW_CELLS_MAX, FewRows
from rowlock_regionserver.found_cells import NO_LIMIT, FoundCell, LongRowError
from rowlock_regionserver.row_groups import NO_ROW_GROUPS
from rowlock_regionserver.sources import DISK, NOWHERE, Chunk, FewWanted, LinesWanted, Reading, RowPlace, RowSource
from rowlock_regionserver.storefile.block import Block
from rowlock_regionserver.storefile.block_file import AT_ONCE_BLOCKS_MAX, BlockFile, StoreFileStatistics
from rowlock_regionserver.storefile.cell_blocks import CellBlocks
from rowlock_regionserver.storefile.index import BlockIndex
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.row_filter import RowFilter
from rowlock_regionserver.storefile.row_windows import BlockPart, RowWindow, read_backwards, read_forwards

# A row's blocks up to this size in total may be read whole; in larger ones the row's cells are counted first.
_SMALL_BLOCKS_BYTES = 1 << 18


class CellRun:
    """The cells of a store file that stand in cell blocks. Safe to use from many threads."""

    row_groups = NO_ROW_GROUPS

    def __init__(self, file: BlockFile, info: StoreFileInfo, index: BlockIndex, rows: RowFilter) -> None:
        self.info = info
        self._file = file
        self._blocks = CellBlocks(file, index, info.numbers)
        self._index = index
        self.rows = rows

    @property
    def write_number_min(self) -> int:
        """The file's, as no run has its own: at most that of the cells here."""
        return self.info.write_number_min

    @property
    def write_number_max(self) -> int:
        """The file's: at least that of the cells here."""
        return self.info.write_number_max

    @property
    def timestamp_max(self) -> int:
        """The file's: at least that of the cells here."""
        return self.info.timestamp_max

    @property
    def has_tombstones(self) -> bool:
        return self.info.tombstone_count > 0

    @property
    def line_timestamp_min(self) -> int | None:
        """None: it returns cells only."""
        return None

    # ---- points

    def row_cells(self, row: bytes, cells_max: int = NO_LIMIT) -> Sequence[FoundCell]:
        """Returns all cells of the row, in store order. Blocks on the disk for blocks that are not cached.

        Raises LongRowError when there are more than `cells_max`.
        """
        if not self.rows.may_hold(row):
            return ()
        numbers = self._index.blocks_of_row(row)
        if len(numbers) == 1:
            return self._row_cells(numbers.start, row, cells_max)
        if self._cells_between(numbers) > cells_max:
            raise LongRowError
        found: list[FoundCell] = []
        for number in numbers:
            found += self._row_cells(number, row, cells_max - len(found))
        return found

    def _row_cells(self, number: int, row: bytes, cells_max: int) -> list[FoundCell]:
        return self._blocks.block(number).row_cells(row, cells_max, partial(self._blocks.value, number))

    def columns_cells(self, row: bytes, qualifiers: Sequence[bytes], cells_max: int = NO_LIMIT) -> Sequence[FoundCell]:
        """Returns the row's cells in the columns, which ascend, and its family tombstones, in store order.

        Reads the blocks that have them, and about log2(n) more for each column of a row of n blocks.
        """
        if not self.rows.may_hold(row):
            return ()
        numbers = self._index.blocks_of_row(row)
        if len(numbers) == 1:
            return self._columns_cells(numbers.start, row, qualifiers, cells_max)
        found: list[FoundCell] = []
        if self.info.delete_family_count and not (qualifiers and qualifiers[0] == b""):
            found += [cell for cell in self._column(row, b"", numbers, cells_max) if cell[3] == DELETE_FAMILY]
        for qualifier in qualifiers:
            found += self._column(row, qualifier, numbers, cells_max - len(found))
        return found

    def _columns_cells(self, number: int, row: bytes, qualifiers: Sequence[bytes], cells_max: int) -> list[FoundCell]:
        block = self._blocks.block(number)
        return block.columns_cells(row, qualifiers, cells_max, partial(self._blocks.value, number))

    def _column(self, row: bytes, qualifier: bytes, numbers: range, cells_max: int) -> list[FoundCell]:
        """Returns the cells of one column of a row, of which these are the blocks."""
        found: list[FoundCell] = []
        for number in range(self._first_block_of(qualifier, numbers), numbers.stop):
            cells = self._columns_cells(number, row, (qualifier,), cells_max - len(found))
            found += cells if qualifier == b"" else [cell for cell in cells if cell[0] == qualifier]
            if number + 1 < numbers.stop and self._blocks.block(number).last_qualifier > qualifier:
                break
        return found

    def _first_block_of(self, qualifier: bytes, numbers: range) -> int:
        """Returns the first of a row's blocks that may have the column."""
        low, high = numbers.start, numbers.stop - 1
        while low < high:
            middle = (low + high) // 2
            # All but the last of the blocks end with a cell of the row.
            if self._blocks.block(middle).last_qualifier < qualifier:
                low = middle + 1
            else:
                high = middle
        return low

    def row_cell_count(self, row: bytes) -> int:
        """Returns about how many cells the row has, without reading from the disk.

        Counts the blocks that hold only this row; if the row's blocks are large, also its cells in the first and the
        last one as far as they are cached.
        """
        if not self.rows.may_hold(row):
            return 0
        numbers = self._index.blocks_of_row(row)
        count = self._cells_between(numbers)
        if sum([self._index.payload_bytes[number] for number in numbers]) > _SMALL_BLOCKS_BYTES:
            for number in {numbers.start, numbers.stop - 1}:
                if self._blocks.is_cached(number):
                    start, stop = self._blocks.block(number).range_of(row)
                    count += stop - start
        return count

    def _cells_between(self, numbers: range) -> int:
        """Returns the number of a row's cells in the blocks between its first and its last one."""
        return sum([self._index.cell_counts[number] for number in numbers[1:-1]])

    def row_source(self, row: bytes) -> RowSource | RowPlace:
        """Returns itself if row_cells(row) will not block on a disk, unless a block is evicted before.

        Loads one or two blocks from the page cache into the block cache: each takes some 100 µs, which is less than
        handing the read over to a thread.
        """
        if not self.rows.may_hold(row):
            return NOWHERE
        missing = [number for number in self._index.blocks_of_row(row) if not self._blocks.is_cached(number)]
        if len(missing) <= AT_ONCE_BLOCKS_MAX and all(self._blocks.try_load(number) for number in missing):
            return self
        return DISK

    # ---- scans

    def empty_until(self, start: bytes, stop: bytes, *, reverse: bool = False) -> bytes | None:
        """See Source. As exact as the index: a block's first or last row, or a bound of the range inside a block."""
        return self._index.empty_until(start, stop, reverse=reverse)

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
        """Reads whole rows of [start, stop); see Source. Uncompressed blocks are not copied.

        The large values of a block are away if it exceeds `bytes_max` and the ordinary size.
        """
        index, blocks = self._index, self._blocks
        if reading is not Reading.BULK:
            load = blocks.cached_reader(bytes_max, may_wait=reading is Reading.CACHED)
        elif reverse:
            load = partial(blocks.part, bytes_max=bytes_max)
        else:
            load = blocks.read_ahead(index.blocks_of_range(start, stop), bytes_max, bytes_max)
        read = read_backwards if reverse else read_forwards
        return self._chunk(read(index, load, start, stop, bytes_max, row_bytes_max))

    def few_rows(self, start: bytes, stop: bytes, wanted: FewWanted) -> FewRows | None:
        """Returns the first rows with their cells; see Source."""
        index, load = self._index, self._blocks.cached_blocks(may_wait=wanted.reading is Reading.CACHED)
        rows_max, bytes_max = wanted.rows_max, wanted.bytes_max
        rows: list[bytes] = []
        # Of each row: the blocks that have it, and its cells there.
        places: list[list[tuple[Block, int, int]]] = []
        frontier = None
        for number in index.blocks_of_range(start, stop):
            block = load(number)
            found = block.few_rows(start, stop, max(1, rows_max - len(rows)), bytes_max)
            if found is None:
                return None
            bytes_max -= found.byte_count
            of_block = [[(block, first, last)] for first, last in pairwise(found.starts)]
            if rows and found.rows[:1] == rows[-1:]:
                places[-1] += of_block[0]
                if sum([last - first for _, first, last in places[-1]]) > FEW_CELLS_MAX:
                    return None
                rows += found.rows[1:]
                places += of_block[1:]
            else:
                rows += found.rows
                places += of_block
            continues = found.is_all and rows[-1:] == index.first_rows[number + 1 : number + 2]
            is_full = not found.is_all or len(rows) >= rows_max or bytes_max <= 0
            if is_full and not continues:
                frontier = rows[-1] + b"\x00"
                break

        def cells_of(place: int) -> list[FoundCell]:
            return [cell for block, first, last in places[place] for cell in block.cells(first, last)]

        return FewRows(rows, frontier, cells_of)

    def row_parts(self, row: bytes, bytes_max: int, start: bytes = b"", stop: bytes = b"") -> Iterator[Chunk]:
        """Yields the row's cells with qualifiers of [start, stop), one part a block; see Source."""
        if not self.rows.may_hold(row):
            return
        numbers = self._index.blocks_of_row(row)
        if start and len(numbers) > 1:
            numbers = range(self._first_block_of(start, numbers), numbers.stop)
        load = self._blocks.read_ahead(numbers, bytes_max, NO_LIMIT)
        for number in numbers:
            part = load(number)
            first, last = first_not_below(part.batch.column(0), row), part.batch.num_rows
            if number + 1 == numbers.stop:
                last = first_not_below(part.batch.column(0), row + b"\x00")
            part = part.slice(first, max(first, last))
            qualifiers = part.batch.column(QUALIFIER)
            is_last = stop != b"" and part.batch.num_rows > 0 and qualifiers[-1].as_py() >= stop
            first = first_not_below(qualifiers, start) if start else 0
            last = first_not_below(qualifiers, stop) if is_last else part.batch.num_rows
            if first < last:
                yield self._chunk(RowWindow([part.slice(first, last)]))
            if is_last:
                return

    def _chunk(self, window: RowWindow) -> Chunk:
        info = self.info
        away = []
        before = 0
        for part in window.parts:
            away += [(before + cell, value) for cell, value in part.away]
            before += part.batch.num_rows
        return Chunk(
            table=pa.Table.from_batches([part.batch for part in window.parts], CELL_SCHEMA),
            frontier=window.frontier,
            has_tombstones=info.tombstone_count > 0,
            has_versions=info.has_versions,
            write_number_max=info.write_number_max,
            timestamp_min=info.timestamp_min,
            away=tuple(away),
            wide_row=window.wide_row,
            bytes_held=_bytes_held(window.parts),
        )

    @property
    def cell_block_count(self) -> int:
        """The number of its blocks."""
        return len(self._index)

    def cell_blocks_of_range(self, start: bytes, stop: bytes) -> int:
        """Returns the number of blocks that may have rows of [start, stop); an empty stop means no bound."""
        return len(self._index.blocks_of_range(start, stop))

    def statistics(self) -> StoreFileStatistics:
        """Returns what was read from the disk since the file was opened, of all its runs."""
        return self._file.statistics()

    def row_weights(self) -> list[tuple[bytes, int]]:
        """Returns (row, bytes on disk of the blocks that begin with it), rows ascending: where a scan may be split."""
        return self._index.row_weights()


def _bytes_held(parts: Sequence[BlockPart]) -> int:
    return sum([part.batch.get_total_buffer_size() for part in parts])
