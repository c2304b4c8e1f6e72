"""A scan's answers cut to batches: whole rows, about as many bytes and at most as many rows as asked.

Only a row that is larger than a batch by itself is cut, between cells; the next batch begins with its rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rowlock_regionserver.scan.columns import Integers, offsets

# What a cell takes beside its bytes: a timestamp, and an offset in each of four binary columns.
CELL_BYTES = 8 + 4 * 4


@dataclass(frozen=True, slots=True)
class ScanAnswer:
    """One batch of a scan. `row_count` counts the rows that end in it, so the sum over a scan is its rows."""

    table: pa.Table  # ANSWER_SCHEMA, any number of chunks, never empty
    row_count: int
    row_continues: bool  # the last row goes on in the next batch


class Batches:
    """Collects whole rows, gives batches. Holds less than a batch between calls, in slices of what it was given."""

    def __init__(self, batch_bytes: int, batch_rows: int) -> None:
        assert batch_bytes >= 1, f"batches of {batch_bytes} bytes"
        assert batch_rows >= 1, f"batches of {batch_rows} rows"
        self._batch_bytes = batch_bytes
        self._batch_rows = batch_rows
        self._slices: list[pa.Table] = []
        self._bytes = 0
        self._rows_begun = 0  # rows with a cell in the batch
        self._rows_ended = 0

    def add(self, table: pa.Table, starts: Integers) -> Iterator[ScanAnswer]:
        """The batches that are full now; `table` holds whole rows of ANSWER_SCHEMA, `starts` is where they begin."""
        sizes = _bytes_before(table)
        bounds = np.append(starts, table.num_rows)
        start = 0
        while start < table.num_rows:
            stop = self._stop(start, sizes, bounds)
            if stop == start and not self._slices:
                # Not even one row fits an empty batch: as many of its cells as do, or one.
                stop = max(start + 1, _last_within(sizes, int(sizes[start]) + self._batch_bytes))
            if stop > start:
                begun = int(np.searchsorted(bounds, stop)) - int(np.searchsorted(bounds, start, "right")) + 1
                ended = int(np.searchsorted(bounds, stop, "right") - np.searchsorted(bounds, start, "right"))
                self._slices.append(table.slice(start, stop - start))
                self._bytes += int(sizes[stop] - sizes[start])
                self._rows_begun += begun
                self._rows_ended += ended
                start = stop
            is_cut = bounds[np.searchsorted(bounds, start)] != start
            if is_cut or start < table.num_rows or self._is_full():
                yield self._batch(row_continues=bool(is_cut))

    def _stop(self, start: int, sizes: Integers, bounds: Integers) -> int:
        """The last end of a row, from `start` on, up to which the cells fit the batch; `start` when none does."""
        within = _last_within(sizes, int(sizes[start]) + self._batch_bytes - self._bytes)
        ends = int(np.searchsorted(bounds, within, "right")) - 1
        first_end = int(np.searchsorted(bounds, start, "right"))
        most_rows = first_end + self._batch_rows - self._rows_begun - 1
        return max(start, int(bounds[min(ends, most_rows)]))

    def _is_full(self) -> bool:
        return self._bytes >= self._batch_bytes or self._rows_begun >= self._batch_rows

    def rest(self) -> Iterator[ScanAnswer]:
        """The last batch, if there is anything left."""
        if self._slices:
            yield self._batch(row_continues=False)

    def _batch(self, *, row_continues: bool) -> ScanAnswer:
        table = self._slices[0] if len(self._slices) == 1 else pa.concat_tables(self._slices)
        answer = ScanAnswer(table, self._rows_ended, row_continues)
        self._slices = []
        self._bytes = self._rows_begun = self._rows_ended = 0
        return answer


def _last_within(sizes: Integers, bytes_max: int) -> int:
    return int(np.searchsorted(sizes, bytes_max, "right")) - 1


def _bytes_before(table: pa.Table) -> Integers:
    """For each cell, and for the end, how many bytes of cells stand before it."""
    sizes = np.arange(table.num_rows + 1, dtype=np.int64) * CELL_BYTES
    for name in ("row", "family", "qualifier", "value"):
        offset = 0
        before = 0
        for chunk in table.column(name).chunks:
            if len(chunk) == 0:
                continue
            ends = offsets(chunk)
            sizes[offset + 1 : offset + 1 + len(chunk)] += ends[1:] - (int(ends[0]) - before)
            offset += len(chunk)
            before += int(ends[-1]) - int(ends[0])
    return sizes
