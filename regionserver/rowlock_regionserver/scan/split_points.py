"""Splits a scan into parts of about equal size, without reading its sources.

Each source gives the rows at which its bytes begin: a store file those of its blocks, a segment in memory some rows at
even distances. Bytes are charged to the first range that touches them, so bytes that several ranges share count once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rowlock_regionserver.row_ranges import RowRange

# (row, approximate bytes of the cells from this row up to the next listed one), rows ascending.
RowWeights = Sequence[tuple[bytes, int]]

# Each part repeats two rows in the answer. So parts may be larger than requested, and long keys are cut short.
PARTS_MAX = 10_000
CUT_BYTES_MAX = 1024


@dataclass(frozen=True, slots=True)
class Part:
    """Ranges in row order, which share no row with another part, and their approximate bytes."""

    ranges: tuple[RowRange, ...]
    byte_count: int


def scaled(weights: RowWeights, byte_count: int) -> RowWeights:
    """Returns the weights scaled up so that they sum to about `byte_count`; unchanged if their sum is larger."""
    total = sum(weight for _, weight in weights)
    return weights if byte_count <= total else [(row, weight * byte_count // total) for row, weight in weights]


def parts(sources: Iterable[RowWeights], ranges: Sequence[RowRange], part_bytes: int) -> list[Part]:
    """Returns parts of about equal size, at most about `part_bytes`, that cover exactly the ranges, in row order.

    The ranges ascend and don't touch, as `ranges.joined` returns them. Ranges are cut only at rows that a source lists,
    so a part may be larger. Small ranges share a part. Every part has a range; without ranges there are no parts.
    """
    assert part_bytes > 0, part_bytes
    touched = sorted(weight for source in sources for weight in _touched(source, ranges))
    total = sum(weight for _, weight in touched)
    aim = total / max(1, min(PARTS_MAX, -(-total // part_bytes)))
    result: list[Part] = []
    held: list[RowRange] = []
    held_bytes = done_bytes = next_touched = 0
    edge = aim
    for start, stop in ranges:
        while next_touched < len(touched) and (not stop or touched[next_touched][0] < stop):
            row, weight = touched[next_touched]
            cut = max(start, row[:CUT_BYTES_MAX])
            # Cut before this weight if its middle is beyond the edge: that comes nearer to the edge than after it.
            is_due = weight and held_bytes and done_bytes + held_bytes + weight / 2 > edge
            if is_due and (held or start < cut):
                if start < cut:
                    held.append((start, cut))
                result.append(Part(tuple(held), held_bytes))
                done_bytes += held_bytes
                # Compensates for rounding; after a part that had to be large, the next ones are not made small.
                edge = max(edge + aim, done_bytes + aim / 2)
                held, held_bytes, start = [], 0, cut
            held_bytes += weight
            next_touched += 1
        held.append((start, stop))
    if held:
        result.append(Part(tuple(held), held_bytes))
    return result


def _touched(weights: RowWeights, ranges: Sequence[RowRange]) -> Iterator[tuple[bytes, int]]:
    """Yields, for each weight of the source that a range touches, the first row touched and the bytes."""
    rows = [row for row, _ in weights]
    counted = 0
    for start, stop in ranges:
        first = max(counted, bisect_right(rows, start) - 1)
        counted = max(counted, bisect_left(rows, stop) if stop else len(rows))
        for number in range(first, counted):
            yield max(start, rows[number]), weights[number][1]
