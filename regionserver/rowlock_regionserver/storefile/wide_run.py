"""The wide blocks of a store file as a Source: one row's cells for points, lines or tables of cells for scans.

A row is never in two wide blocks, and never large (arrow/line_forming.py), so nothing is away here and no row is wide
in the sense of Source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from rowlock_regionserver.arrow.block_lines import BlockLines
from rowlock_regionserver.arrow.cell_columns import first_not_below
from rowlock_regionserver.arrow.columns import empty_cells
from rowlock_regionserver.arrow.line_merging import cells_of_parts, concatenated_lines
from rowlock_regionserver.arrow.line_slices import last_slice_of, slices_of
from rowlock_regionserver.arrow.line_values import as_binary, cell_bytes_of_all
from rowlock_regionserver.arrow.lines import Lines, cells_of
from rowlock_regionserver.arrow.stored_lines import BlockSlice, StoredLines
from rowlock_regionserver.cells import TIMESTAMP_MAX
from rowlock_regionserver.few_rows import NO_FEW_ROWS, FewRows
from rowlock_regionserver.found_cells import NO_LIMIT, FoundCell
from rowlock_regionserver.row_groups import RowGroups
from rowlock_regionserver.sources import (
    CELLS_OF_LINES,
    DISK,
    NOWHERE,
    Chunk,
    FewWanted,
    LinesWanted,
    Reading,
    RowPlace,
    RowSource,
)
from rowlock_regionserver.storefile.adopted_numbers import AS_WRITTEN, AdoptedNumbers
from rowlock_regionserver.storefile.block_file import BlockFile, StoreFileStatistics
from rowlock_regionserver.storefile.row_filter import RowFilter
from rowlock_regionserver.storefile.shares import Shares, shares_of
from rowlock_regionserver.storefile.stored_block import StoredBlocks, StoredWideBlock
from rowlock_regionserver.storefile.wide_blocks import CachedLoader, HeldBlock, WideBlocks, WideLoader
from rowlock_regionserver.storefile.wide_index import WideIndex
from rowlock_regionserver.storefile.window_bounds import WindowBounds

_KNOWN_SHARES_MAX = 64
# Of blocks that stay unread only the keys are in memory. So a window may have this many times its bytes: each window
# takes the same steps, however large it is.
_UNREAD_WINDOWS = 16


@dataclass(slots=True)
class _Window:
    """What a bulk read has taken so far: lines, and the blocks that they come from."""

    parts: list[Lines] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    frontier: bytes | None = None


class WideRun:
    """The lines of a store file. Safe to use from many threads."""

    has_tombstones = False

    def __init__(
        self,
        file: BlockFile,
        index: WideIndex,
        rows: RowFilter,
        row_groups: RowGroups,
        numbers: AdoptedNumbers = AS_WRITTEN,
    ) -> None:
        """`index` and `row_groups` have the adopted numbers; `numbers` is for the blocks."""
        self._file = file
        self._blocks = WideBlocks(file, index, numbers)
        self._index = index
        self.rows = rows
        self.row_groups = row_groups
        self.write_number_min = min(index.write_numbers_min)
        self.write_number_max = max(index.write_numbers_max)
        self.line_timestamp_min = min(index.timestamps_min)
        self.timestamp_max = row_groups.timestamp_max
        # By what a scan wants. Threads may find the same at once, which is harmless.
        self._known_shares: dict[LinesWanted, Shares] = {}

    # ---- points

    def row_cells(self, row: bytes, cells_max: int = NO_LIMIT) -> Sequence[FoundCell]:
        """Returns all cells of the row, in store order. Blocks on the disk for a block that is not cached.

        Raises LongRowError when there are more than `cells_max`.
        """
        block = self._block_of(row)
        return () if block is None else block.row_cells(row, cells_max)

    def columns_cells(self, row: bytes, qualifiers: Sequence[bytes], cells_max: int = NO_LIMIT) -> Sequence[FoundCell]:
        """Returns the row's cells in the columns, which ascend, in store order. Decompresses only these columns."""
        block = self._block_of(row)
        return () if block is None else block.columns_cells(row, qualifiers, cells_max)

    def _block_of(self, row: bytes) -> HeldBlock | None:
        number = self._number_of(row)
        return None if number is None else self._blocks.held(number)

    def _number_of(self, row: bytes) -> int | None:
        """Returns the number of the only block that may have the row; None if there is none."""
        if self.rows.may_hold(row):
            for number in self._index.blocks_of_row(row):  # one at most
                return number
        return None

    def row_cell_count(self, row: bytes) -> int:
        """Returns the average of the rows' block, without reading: 0 if the row is not there."""
        if not self.rows.may_hold(row):
            return 0
        return sum(
            [self._index.cell_counts[each] // self._index.line_counts[each] for each in self._index.blocks_of_row(row)]
        )

    def row_source(self, row: bytes) -> RowSource | RowPlace:
        """Returns the row's block if it is in memory, so that nothing is looked up again.

        Loads it from the page cache into the block cache, which takes some 100 µs.
        """
        number = self._number_of(row)
        if number is None:
            return NOWHERE
        return self._blocks.held_in_memory(number) or DISK

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
        """Reads whole rows of [start, stop), at least those of one block as lines; see Source.

        The flags are those of the blocks that were read.
        """
        if lines is not None and lines.compressed:
            assert reading is Reading.BULK, "stored blocks are read when they are needed, past the cache"
            stored = self._stored_window(start, stop, bytes_max, lines, reverse=reverse)
            if stored is not None:
                return stored
            lines = replace(lines, compressed=False, without_rows=False)
        window = self._window(start, stop, bytes_max, lines, reading, reverse=reverse)
        if not window.parts:
            return self._chunk(window, empty_cells(), None, 0)
        parts = window.parts[::-1] if reverse else window.parts
        if lines is not None:
            taken = concatenated_lines(parts)
            return self._chunk(window, empty_cells(), taken, taken.bytes_held)
        # Of all parts at once: making the cells of a block costs as much as those of thousands of lines.
        table = cells_of_parts(parts)
        return self._chunk(window, table, None, table.get_total_buffer_size())

    def few_rows(self, start: bytes, stop: bytes, wanted: FewWanted) -> FewRows | None:
        """Returns the first rows of one block; see Source. Each is one line unless some of them have versions."""
        index = self._index
        numbers = index.blocks_of_range(start, stop)
        if not numbers:
            return NO_FEW_ROWS
        number = numbers.start
        line_bytes = index.raw_bytes[number] // index.line_counts[number]
        rows_max = min(wanted.rows_max, max(1, wanted.bytes_max // max(1, line_bytes)))
        frontier = index.first_rows[number + 1] if number + 1 < numbers.stop else None
        reader = self._blocks.cached_reader(None, may_wait=wanted.reading is Reading.CACHED)
        return reader.few_rows(number, start, stop, rows_max, frontier, wanted.columns)

    def _window(
        self, start: bytes, stop: bytes, bytes_max: int, wanted: LinesWanted | None, reading: Reading, *, reverse: bool
    ) -> _Window:
        index = self._index
        numbers = index.blocks_of_range(start, stop)
        window = _Window()
        if not numbers:
            return window
        loader: CachedLoader | WideLoader
        if reading is Reading.BULK:
            ahead = 0 if reverse else self._bytes_ahead(numbers.start, bytes_max, wanted)
            loader = self._blocks.loader(numbers, ahead, wanted)
        else:
            loader = self._blocks.cached_reader(wanted, may_wait=reading is Reading.CACHED)
        byte_count = block_bytes = 0
        is_by_cell = has_versions = False
        for number in reversed(numbers) if reverse else numbers:
            edge = index.last_rows[number] + b"\x00" if reverse else index.first_rows[number]
            # The next block is assumed to be as large as this one.
            if window.parts and byte_count + block_bytes > bytes_max and not loader.has_read(number):
                window.frontier = edge
                break
            block = loader.load(number)
            block_bytes = _byte_count(block, wanted)
            part = _clipped(block, start if number == numbers[0] else b"", stop if number == numbers[-1] else b"")
            if not len(part):
                continue
            is_by_cell, has_versions = is_by_cell or part.is_by_cell, has_versions or bool(index.have_versions[number])
            if window.parts and is_by_cell and has_versions:
                # Rows with several lines have one number a line.
                window.frontier = edge
                break
            window.numbers.append(number)
            byte_count += block_bytes if part is block else _byte_count(part, wanted)
            if _counts_cells(wanted) and byte_count > bytes_max and not window.parts:
                if reading is Reading.BULK or is_by_cell or has_versions:
                    fitting = last_slice_of(part, bytes_max) if reverse else next(slices_of(part, bytes_max))
                else:
                    fitting = _share_of(part, bytes_max, byte_count, reverse=reverse)
                if len(fitting) < len(part):
                    # The next read begins in this block.
                    loader.keep_last()
                    row = fitting.rows[0] if reverse else part.rows[len(fitting)]
                    window.parts, window.frontier = [fitting], row.as_py()
                    break
            window.parts.append(part)
        return window

    def _stored_window(
        self, start: bytes, stop: bytes, bytes_max: int, wanted: LinesWanted, *, reverse: bool
    ) -> Chunk | None:
        """Returns lines that are read when they are needed; None if the first block has a row with several lines."""
        index, window = self._index, _Window()
        every = index.blocks_of_range(start, stop)
        if not every:
            return self._chunk(window, empty_cells(), None, 0)
        in_order = every[::-1] if reverse else every
        shares = self._shares(in_order[0], wanted)
        reader = None
        if shares.may_stay_unread:
            reader = self._reader(in_order, bytes_max, wanted, shares, may_stay_unread=True)
        if reader is None or not reader.leaves_unread:
            reader = self._reader(in_order, bytes_max, wanted, shares, reader)
        if reader is None:
            return None
        numbers = reader.numbers
        if len(numbers) < len(in_order):
            following = in_order[len(numbers)]
            window.frontier = index.last_rows[following] + b"\x00" if reverse else index.first_rows[following]
        window.numbers += numbers
        blocks = [StoredWideBlock(reader, number) for number in numbers]
        columns = wanted.columns
        if columns is None:
            columns = frozenset().union(*[block.qualifiers for block in blocks])
        qualifiers = tuple(sorted(columns))
        lines = BlockLines(StoredLines(tuple([BlockSlice(each, 0, each.line_count) for each in blocks])), qualifiers)
        # Only the rows of the first and the last block may be outside.
        first, last = 0, len(lines)
        if start > index.first_rows[numbers[0]]:
            first = first_not_below(as_binary(blocks[0].values(None)), start)
        if stop and stop <= index.last_rows[numbers[-1]]:
            last -= blocks[-1].line_count - first_not_below(as_binary(blocks[-1].values(None)), stop)
        clipped = lines.slice(first, max(first, last))
        if not len(clipped):
            return None
        bytes_held = reader.bytes_held if reader.leaves_unread else clipped.bytes_held
        return self._chunk(window, empty_cells(), clipped, bytes_held)

    def _reader(
        self,
        in_order: range,
        bytes_max: int,
        wanted: LinesWanted,
        shares: Shares,
        other: StoredBlocks | None = None,
        *,
        may_stay_unread: bool = False,
    ) -> StoredBlocks | None:
        """Returns a reader of the first of these neighbours, of about `bytes_max`.

        None: the first block has a row with several lines. `other`: see StoredBlocks. `may_stay_unread`: `bytes_max`
        bounds the keys, and several times as much the values.
        """
        numbers = self._bounds.fitting(
            in_order,
            shares,
            _UNREAD_WINDOWS * bytes_max if may_stay_unread else bytes_max,
            bytes_max if shares.are_plain else NO_LIMIT,
            counts_cells=wanted.counts_cells,
        )
        if not numbers:
            return None
        ascending = numbers if numbers.step > 0 else numbers[::-1]
        return StoredBlocks(self._blocks, ascending, wanted, shares, other)

    @cached_property
    def _bounds(self) -> WindowBounds:
        return WindowBounds(self._index)

    def _shares(self, number: int, wanted: LinesWanted) -> Shares:
        """Returns what the first scan that wanted these columns found; reads a block's directory for the first one."""
        shares = self._known_shares.get(wanted)
        if shares is None:
            shares = shares_of(self._blocks.directory(number), wanted)
            if len(self._known_shares) < _KNOWN_SHARES_MAX:
                self._known_shares[wanted] = shares
        return shares

    def _bytes_ahead(self, number: int, bytes_max: int, wanted: LinesWanted | None) -> int:
        """Returns the bytes on disk, from a block on, of what one read takes."""
        as_lines = self._index.bytes_on_disk(number, bytes_max, as_cells=False)
        if wanted is not None and not wanted.has_every_cell:
            return as_lines
        cell_bytes_max = bytes_max if _counts_cells(wanted) else CELLS_OF_LINES * bytes_max
        return min(as_lines, self._index.bytes_on_disk(number, cell_bytes_max, as_cells=True))

    def row_parts(self, row: bytes, bytes_max: int, start: bytes = b"", stop: bytes = b"") -> Iterator[Chunk]:
        """Yields the row's cells with qualifiers of [start, stop) as one part; see Source."""
        if not self.rows.may_hold(row):
            return
        numbers = self._index.blocks_of_row(row)
        loader = self._blocks.loader(numbers, 0, None)
        for number in numbers:
            part = _clipped(loader.load(number), row, row + b"\x00")
            table = cells_of(
                part.select([each for each in part.qualifiers if start <= each and (not stop or each < stop)])
            )
            if table.num_rows:
                yield self._chunk(_Window(numbers=[number]), table, None, table.get_total_buffer_size())

    def _chunk(self, window: _Window, table: pa.Table, lines: Lines | None, bytes_held: int) -> Chunk:
        index = self._index
        # They are neighbours, in either order.
        read = slice(min(window.numbers), max(window.numbers) + 1) if window.numbers else slice(0)
        return Chunk(
            table=table,
            frontier=window.frontier,
            has_tombstones=False,
            has_versions=any(index.have_versions[read]),
            write_number_max=max(index.write_numbers_max[read], default=0),
            timestamp_min=min(index.timestamps_min[read], default=TIMESTAMP_MAX),
            bytes_held=bytes_held,
            lines=lines,
        )

    def statistics(self) -> StoreFileStatistics:
        """Returns what was read from the disk since the file was opened, of all its runs."""
        return self._file.statistics()

    def row_weights(self) -> list[tuple[bytes, int]]:
        """Returns (first row of a block, its bytes before compression), rows ascending: where a scan may be split."""
        return list(zip(self._index.first_rows, self._index.raw_bytes, strict=True))


def _byte_count(lines: Lines, wanted: LinesWanted | None) -> int:
    """Returns the bytes of the lines in the form in which the reader takes them."""
    if wanted is not None and not wanted.has_every_cell:
        return lines.bytes_held
    cell_bytes = cell_bytes_of_all(lines.rows, lines.qualifiers, lines.columns)
    return cell_bytes if _counts_cells(wanted) else max(lines.bytes_held, cell_bytes // CELLS_OF_LINES)


def _counts_cells(wanted: LinesWanted | None) -> bool:
    """Returns whether the reader bounds the bytes of the cells: it takes cells, or makes some of the lines."""
    return wanted is None or wanted.counts_cells


def _share_of(lines: Lines, bytes_max: int, byte_count: int, *, reverse: bool) -> Lines:
    """Returns about the first or last `bytes_max` of lines that have `byte_count`, each a row; at least one.

    As if all were equally large: their sizes would take as long to find as the lines take to read.
    """
    count = max(1, len(lines) * bytes_max // byte_count)
    return lines.slice(len(lines) - count, len(lines)) if reverse else lines.slice(0, count)


def _clipped(lines: Lines, start: bytes, stop: bytes) -> Lines:
    """Returns the lines with rows in [start, stop); an empty bound means no bound."""
    first = first_not_below(lines.rows, start) if start else 0
    last = first_not_below(lines.rows, stop) if stop else len(lines)
    return lines.slice(first, max(first, last))
