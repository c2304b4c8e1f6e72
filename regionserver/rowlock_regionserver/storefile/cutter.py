"""Cuts sorted cells into record batches of about one block's bytes.

A cell is never split, so one that is larger than a block gets a block of its own. A block ends with a row if it is at
least half full then. So most rows are in one block, and a point read needs one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow import columns
from rowlock_regionserver.cells import CELL_BYTES_BESIDE, CELL_SCHEMA


class Cutter:
    """Holds at most one block's cells between calls. Not thread-safe."""

    def __init__(self, block_bytes: int) -> None:
        self._block_bytes = block_bytes
        self._parts: list[pa.RecordBatch] = []
        self._part_bytes = 0

    def add(self, batch: pa.RecordBatch, row_starts: columns.Integers) -> Iterator[pa.RecordBatch]:
        """Adds cells and yields the blocks that are full; rows begin at `row_starts` in `batch`, ascending."""
        ends = cell_ends(batch)
        cell_count = batch.num_rows
        start = 0
        while start < cell_count:
            before = int(ends[start - 1]) if start else 0
            bytes_left = self._block_bytes - self._part_bytes
            stop = int(np.searchsorted(ends, before + bytes_left, side="right"))
            if stop == cell_count:
                self._parts.append(batch.slice(start))
                self._part_bytes += int(ends[-1]) - before
                return
            if stop == start and not self._parts:
                stop = start + 1
            else:
                stop = self._row_start_near(stop, start, before, ends, row_starts)
            if stop > start:
                self._parts.append(batch.slice(start, stop - start))
            yield self._pop_block()
            start = stop

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yields the last block, if cells are left."""
        if self._parts:
            yield self._pop_block()

    def _row_start_near(
        self,
        stop: int,
        start: int,
        before: int,
        ends: columns.Integers,
        row_starts: columns.Integers,
    ) -> int:
        at = int(np.searchsorted(row_starts, stop, side="right")) - 1
        row_start = int(row_starts[at]) if at >= 0 else 0
        if row_start <= start:
            return stop
        is_half_full = self._part_bytes + int(ends[row_start - 1]) - before >= self._block_bytes // 2
        return row_start if is_half_full else stop

    def _pop_block(self) -> pa.RecordBatch:
        parts, self._parts, self._part_bytes = self._parts, [], 0
        if len(parts) == 1:
            return parts[0]
        (batch,) = pa.Table.from_batches(parts, CELL_SCHEMA).combine_chunks().to_batches()
        return batch


def cell_ends(batch: pa.RecordBatch) -> columns.Integers:
    """Returns the running total of the cells' bytes: element i is the uncompressed size of the first i + 1 cells."""
    ends = np.arange(1, batch.num_rows + 1, dtype=np.int64) * CELL_BYTES_BESIDE
    for place in (columns.ROW, columns.QUALIFIER, columns.VALUE):
        offsets = columns.offsets(batch.column(place))
        ends += offsets[1:]
        ends -= offsets[0]
    return ends
