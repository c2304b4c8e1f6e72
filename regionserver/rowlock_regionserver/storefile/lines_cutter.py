"""Cuts lines into wide blocks of about twice the family's block_bytes, at rows.

A block takes lines of one piece after the other; its columns are those of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import Column, Integers, offsets
from rowlock_regionserver.arrow.line_forming import COLUMNS_MAX
from rowlock_regionserver.arrow.line_merging import concatenated_lines, may_be_concatenated
from rowlock_regionserver.arrow.line_slices import fitting_lines, row_ranges
from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.config import MIB

# Beside the family's block_bytes: a get that misses the cache costs as much in a wide block of twice the bytes as in a
# block of cells, and scans are faster for it.
_FACTOR = 2
_BLOCK_BYTES_MAX = 4 * MIB
# Of a line without a cell in a column, and of a timestamp or write number.
_NULL_BYTES, _NUMBER_BYTES = 4, 8


class LinesCutter:
    """Holds at most one block's lines between calls; these keep alive the piece that they are of. Not thread-safe."""

    def __init__(self, block_bytes: int) -> None:
        """`block_bytes` is the family's."""
        self._block_bytes = min(_FACTOR * block_bytes, _BLOCK_BYTES_MAX)
        self._rest: Lines | None = None

    def add(self, lines: Lines) -> Iterator[Lines]:
        """Adds lines, of whole rows, and yields the blocks that are full."""
        line_bytes = uncompressed_bytes(lines)
        start = 0 if self._rest is None else self._fitting(self._rest, lines, line_bytes)
        if self._rest is not None and start:
            self._rest = concatenated_lines([self._rest, lines.slice(0, start)])
        if start == len(lines):
            return
        yield from self.finish()
        *full, last = row_ranges(lines, line_bytes, self._block_bytes, start)
        for first, stop in full:
            yield lines.slice(first, stop)
        self._rest = lines.slice(*last)

    def _fitting(self, rest: Lines, lines: Lines, line_bytes: Integers) -> int:
        """Returns how many of the first lines fit into the block of those that are left."""
        width = len({*rest.qualifiers, *lines.qualifiers})
        if width > COLUMNS_MAX or not may_be_concatenated(rest, lines):
            return 0
        of_rest = int(uncompressed_bytes(rest).sum()) + len(rest) * _bytes_beside(rest, lines, width)
        return fitting_lines(lines, line_bytes + _bytes_beside(lines, rest, width), self._block_bytes - of_rest)

    def finish(self) -> Iterator[Lines]:
        """Yields the last block, if lines are left."""
        if self._rest is not None:
            yield self._rest
            self._rest = None


def _bytes_beside(lines: Lines, others: Lines, width: int) -> int:
    """Returns the bytes that each line takes in addition in a block with other lines, of `width` columns together.

    It has the columns and the form of numbers of both; a null takes an offset.
    """
    byte_count = _NULL_BYTES * (width - len(lines.qualifiers))
    for own, other in ((lines.timestamps, others.timestamps), (lines.write_numbers, others.write_numbers)):
        if own.shape == other.shape == (1, 1) and own[0, 0] == other[0, 0]:
            continue
        together = width if max(own.shape[0], other.shape[0]) > 1 else 1
        byte_count += _NUMBER_BYTES * (together - (own.shape[0] if own.shape[1] > 1 else 0))
    return byte_count


def uncompressed_bytes(lines: Lines) -> Integers:
    """Returns the bytes of each line in a block before compression."""
    total = np.zeros(len(lines), np.int64)
    for column in (lines.rows, *lines.columns):
        total += _stored_lengths(column)
        if column.null_count:
            total[::8] += 1
    for numbers in (lines.timestamps, lines.write_numbers):
        if numbers.shape[1] > 1:
            total += _NUMBER_BYTES * numbers.shape[0]
    return total


def _stored_lengths(column: Column) -> Integers | int:
    """Returns the bytes of each value; a null of a fixed-size column takes as many as a value."""
    if pa.types.is_fixed_size_binary(column.type):
        return int(column.type.byte_width)
    return np.diff(offsets(column)).astype(np.int64) + 4
