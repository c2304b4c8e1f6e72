"""Windows of whole rows over a file's blocks: selects the blocks of a bulk read, and cuts the first and last at a row.

A window takes blocks until the next one would exceed its bytes, and ends with a row. A row that continues in the next
block is left to the next window, unless it is the window's only one. Then the window grows until the row ends, or until
it exceeds the bytes of a row; such a wide row is only named, not returned.
If the first block alone is too large, it is cut at a row by the same rule. Reading backwards is the mirror image. Block
numbers, first and last rows come from the index, so no block is read needlessly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.cell_columns import first_not_below
from rowlock_regionserver.found_cells import AwayValue
from rowlock_regionserver.storefile.cutter import cell_ends
from rowlock_regionserver.storefile.index import BlockIndex


@dataclass(frozen=True, slots=True)
class BlockPart:
    """Consecutive cells of a block. The values at `away` are not in the batch; see sources.Chunk."""

    batch: pa.RecordBatch
    away: tuple[tuple[int, AwayValue], ...] = ()

    @property
    def byte_count(self) -> int:
        """Bytes of the whole block; some 20 times faster than batch.nbytes."""
        return self.batch.get_total_buffer_size() + sum([value.byte_count for _, value in self.away])

    def slice(self, start: int, stop: int) -> BlockPart:
        """Returns the cells at [start, stop)."""
        if start == 0 and stop == self.batch.num_rows:
            return self
        away = tuple([(cell - start, value) for cell, value in self.away if start <= cell < stop])
        return BlockPart(self.batch.slice(start, stop - start), away)


# Returns the cells of the block with this number.
Load = Callable[[int], BlockPart]


@dataclass(slots=True)
class RowWindow:
    """Cells of whole rows in store order; `frontier` and `wide_row` as in sources.Chunk."""

    parts: list[BlockPart] = field(default_factory=list)
    frontier: bytes | None = None
    wide_row: bytes | None = None


def read_forwards(
    index: BlockIndex, load: Load, start: bytes, stop: bytes, bytes_max: int, row_bytes_max: int
) -> RowWindow:
    """Returns the first whole rows of [start, stop). Only a row that spans blocks can be wide."""
    window = RowWindow()
    numbers = index.blocks_of_range(start, stop)
    byte_count = 0
    for number in numbers:
        block = load(number)
        # The next block is assumed to be as large as this one.
        block_bytes = block.byte_count
        part = _clipped(block, start if number == numbers[0] else b"", stop if number == numbers[-1] else b"")
        part_bytes = _share(block_bytes, part, block)
        if not window.parts and part_bytes > bytes_max:
            whole_rows = _first_rows(part.batch, bytes_max)
            if whole_rows < part.batch.num_rows:
                return RowWindow([part.slice(0, whole_rows)], _row(part.batch, whole_rows))
        window.parts.append(part)
        byte_count += part_bytes
        if number == numbers[-1]:
            break
        next_row = index.first_rows[number + 1]
        continues = index.last_rows[number] == next_row
        if continues and _row(window.parts[0].batch, 0) == next_row:
            if byte_count > row_bytes_max:
                return RowWindow([], next_row, next_row)
        elif byte_count + block_bytes > bytes_max:
            if continues:
                _drop_from(window.parts, next_row)
            window.frontier = next_row
            return window
    return window


def read_backwards(
    index: BlockIndex, load: Load, start: bytes, stop: bytes, bytes_max: int, row_bytes_max: int
) -> RowWindow:
    """Returns the last whole rows of [start, stop), in ascending order."""
    window = RowWindow()
    numbers = index.blocks_of_range(start, stop)
    byte_count = 0
    for number in reversed(numbers):
        block = load(number)
        block_bytes = block.byte_count
        part = _clipped(block, start if number == numbers[0] else b"", stop if number == numbers[-1] else b"")
        part_bytes = _share(block_bytes, part, block)
        if not window.parts and part_bytes > bytes_max:
            cut = _last_rows(part.batch, bytes_max)
            if cut > 0:
                return RowWindow([part.slice(cut, part.batch.num_rows)], _row(part.batch, cut))
        window.parts.insert(0, part)
        byte_count += part_bytes
        if number == numbers[0]:
            break
        row_before = index.last_rows[number - 1]
        continues = index.first_rows[number] == row_before
        if continues and _row(window.parts[-1].batch, -1) == row_before:
            if byte_count > row_bytes_max:
                return RowWindow([], row_before + b"\x00", row_before)
        elif byte_count + block_bytes > bytes_max:
            if continues:
                _drop_through(window.parts, row_before)
            window.frontier = _row(window.parts[0].batch, 0)
            return window
    return window


def _share(block_bytes: int, part: BlockPart, block: BlockPart) -> int:
    return block_bytes * part.batch.num_rows // max(1, block.batch.num_rows)


def _first_rows(batch: pa.RecordBatch, bytes_max: int) -> int:
    """Returns the number of cells in the first whole rows of about `bytes_max`, at least one row."""
    fitting = int(np.searchsorted(cell_ends(batch), bytes_max, side="right"))
    row = _row(batch, min(fitting, batch.num_rows - 1))
    return _position(batch, row) or _position_after(batch, row)


def _last_rows(batch: pa.RecordBatch, bytes_max: int) -> int:
    """Returns the first cell of the last whole rows of about `bytes_max`, at least one row."""
    ends = cell_ends(batch)
    # Counted from the end, the first cell that does not fit.
    crowded = max(0, int(np.searchsorted(ends, int(ends[-1]) - bytes_max, side="left")))
    row = _row(batch, min(crowded, batch.num_rows - 1))
    after = _position_after(batch, row)
    return after if after < batch.num_rows else _position(batch, row)


def _drop_from(parts: list[BlockPart], row: bytes) -> None:
    """Removes all cells with rows >= `row`, which are not all."""
    while _row(parts[-1].batch, -1) >= row:
        last = parts.pop()
        position = _position(last.batch, row)
        if position:
            parts.append(last.slice(0, position))


def _drop_through(parts: list[BlockPart], row: bytes) -> None:
    """Removes all cells with rows <= `row`, which are not all."""
    while _row(parts[0].batch, 0) <= row:
        first = parts.pop(0)
        position = _position_after(first.batch, row)
        if position < first.batch.num_rows:
            parts.insert(0, first.slice(position, first.batch.num_rows))


def _clipped(part: BlockPart, start: bytes, stop: bytes) -> BlockPart:
    """Returns the cells with rows in [start, stop); an empty bound means no bound."""
    batch = part.batch
    first = _position(batch, start) if start and start > _row(batch, 0) else 0
    last = _position(batch, stop) if stop and stop <= _row(batch, -1) else batch.num_rows
    return part.slice(first, max(first, last))


def _row(batch: pa.RecordBatch, cell: int) -> bytes:
    row: bytes = batch.column(0)[cell].as_py()
    return row


def _position(batch: pa.RecordBatch, row: bytes) -> int:
    """Returns the first cell with a row >= `row`. O(log cells)."""
    return first_not_below(batch.column(0), row)


def _position_after(batch: pa.RecordBatch, row: bytes) -> int:
    """Returns the first cell with a row > `row`. O(log cells)."""
    return first_not_below(batch.column(0), row + b"\x00")
