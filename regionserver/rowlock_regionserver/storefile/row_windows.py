"""Windows of whole rows over a file's blocks: which blocks a bulk read takes, and where it cuts the first and last.

A window takes blocks until the next one would exceed its bytes, and ends where a row does. A row that goes on in the
next block is left to the next window, unless it is the window's only one: then the window grows until the row ends.
If the first block alone is too much, it is cut inside, again at a row, by the same rule. Reading backwards is the
mirror image. Block number, first and last row come from the index, so no block is read that does not take part.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from rowlock_regionserver.storefile.cutter import cell_ends
from rowlock_regionserver.storefile.index import BlockIndex

# Gives a block's cells, given its number.
Load = Callable[[int], pa.RecordBatch]


@dataclass(slots=True)
class RowWindow:
    """Cells of whole rows, in store order, and how far they reach: see sources.Chunk."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    frontier: bytes | None = None


def read_forwards(index: BlockIndex, load: Load, start: bytes, stop: bytes, bytes_max: int) -> RowWindow:
    """The first whole rows of [start, stop)."""
    window = RowWindow()
    numbers = index.blocks_of_range(start, stop)
    byte_count = 0
    for number in numbers:
        block = load(number)
        # Some 20 times cheaper than batch.nbytes. The next block is taken to be as large as this one.
        block_bytes = block.get_total_buffer_size()
        batch = _clipped(block, start if number == numbers[0] else b"", stop if number == numbers[-1] else b"")
        batch_bytes = block_bytes * batch.num_rows // max(1, block.num_rows)
        if not window.batches and batch_bytes > bytes_max:
            whole_rows = _first_rows(batch, bytes_max)
            if whole_rows < batch.num_rows:
                return RowWindow([batch.slice(0, whole_rows)], _row(batch, whole_rows))
        window.batches.append(batch)
        byte_count += batch_bytes
        if number == numbers[-1] or byte_count + block_bytes <= bytes_max:
            continue
        next_row = index.first_rows[number + 1]
        if index.last_rows[number] != next_row or _row(window.batches[0], 0) != next_row:
            _drop_from(window.batches, next_row)
            window.frontier = next_row
            return window
    return window


def read_backwards(index: BlockIndex, load: Load, start: bytes, stop: bytes, bytes_max: int) -> RowWindow:
    """The last whole rows of [start, stop), ascending all the same."""
    window = RowWindow()
    numbers = index.blocks_of_range(start, stop)
    byte_count = 0
    for number in reversed(numbers):
        block = load(number)
        # Some 20 times cheaper than batch.nbytes. The next block is taken to be as large as this one.
        block_bytes = block.get_total_buffer_size()
        batch = _clipped(block, start if number == numbers[0] else b"", stop if number == numbers[-1] else b"")
        batch_bytes = block_bytes * batch.num_rows // max(1, block.num_rows)
        if not window.batches and batch_bytes > bytes_max:
            cut = _last_rows(batch, bytes_max)
            if cut > 0:
                return RowWindow([batch.slice(cut)], _row(batch, cut))
        window.batches.insert(0, batch)
        byte_count += batch_bytes
        if number == numbers[0] or byte_count + block_bytes <= bytes_max:
            continue
        row_before = index.last_rows[number - 1]
        if index.first_rows[number] != row_before or _row(window.batches[-1], -1) != row_before:
            _drop_through(window.batches, row_before)
            window.frontier = _row(window.batches[0], 0)
            return window
    return window


def _first_rows(batch: pa.RecordBatch, bytes_max: int) -> int:
    """How many of the first cells make whole rows of about `bytes_max`, one row at least."""
    fitting = int(np.searchsorted(cell_ends(batch), bytes_max, side="right"))
    row = _row(batch, min(fitting, batch.num_rows - 1))
    return _position(batch, row) or _position_after(batch, row)


def _last_rows(batch: pa.RecordBatch, bytes_max: int) -> int:
    """From which cell on there are whole rows of about `bytes_max`, one row at least."""
    ends = cell_ends(batch)
    # The last cell that doesn't fit any more, seen from the end.
    crowded = max(0, int(np.searchsorted(ends, int(ends[-1]) - bytes_max, side="left")))
    row = _row(batch, min(crowded, batch.num_rows - 1))
    after = _position_after(batch, row)
    return after if after < batch.num_rows else _position(batch, row)


def _drop_from(batches: list[pa.RecordBatch], row: bytes) -> None:
    """Removes all cells with rows >= `row`; something is left."""
    while _row(batches[-1], -1) >= row:
        position = _position(batches[-1], row)
        last = batches.pop()
        if position:
            batches.append(last.slice(0, position))


def _drop_through(batches: list[pa.RecordBatch], row: bytes) -> None:
    """Removes all cells with rows <= `row`; something is left."""
    while _row(batches[0], 0) <= row:
        position = _position_after(batches[0], row)
        first = batches.pop(0)
        if position < first.num_rows:
            batches.insert(0, first.slice(position))


def _clipped(batch: pa.RecordBatch, start: bytes, stop: bytes) -> pa.RecordBatch:
    """The cells with rows in [start, stop); empty bounds are none."""
    first = _position(batch, start) if start and start > _row(batch, 0) else 0
    last = _position(batch, stop) if stop and stop <= _row(batch, -1) else batch.num_rows
    return batch.slice(first, last - first)


def _row(batch: pa.RecordBatch, cell: int) -> bytes:
    row: bytes = batch.column(0)[cell].as_py()
    return row


def _position(batch: pa.RecordBatch, row: bytes) -> int:
    """The first cell with a row >= `row`. O(log cells)."""
    rows = batch.column(0)
    return bisect_left(range(batch.num_rows), row, key=lambda cell: rows[cell].as_py())


def _position_after(batch: pa.RecordBatch, row: bytes) -> int:
    """The first cell with a row > `row`. O(log cells)."""
    rows = batch.column(0)
    return bisect_right(range(batch.num_rows), row, key=lambda cell: rows[cell].as_py())
