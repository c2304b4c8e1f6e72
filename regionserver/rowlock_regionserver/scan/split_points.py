"""Where a scan may be cut into parts of about equal size, from what is known of its sources without reading them.

Each source says how many bytes begin at which of its rows: a store file of each block, a segment in memory of some rows
at even distances. A range is charged with what it touches first: bytes that several ranges share are counted once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rowlock_regionserver.scan.ranges import RowRange

# (row, about the bytes of the cells from this row up to the next one that is named), rows ascending.
RowWeights = Sequence[tuple[bytes, int]]

# Each part repeats two rows in the answer, so both have a bound: parts become larger than asked, cuts less exact.
PARTS_MAX = 10_000
CUT_BYTES_MAX = 1024


@dataclass(frozen=True, slots=True)
class Part:
    """Ranges in row order, which share no row with another part's, and about their bytes."""

    ranges: tuple[RowRange, ...]
    byte_count: int


def scaled(weights: RowWeights, byte_count: int) -> RowWeights:
    """The same rows with weights that sum up to about `byte_count`; as they are if that is less than their sum."""
    total = sum(weight for _, weight in weights)
    return weights if byte_count <= total else [(row, weight * byte_count // total) for row, weight in weights]


def parts(sources: Iterable[RowWeights], ranges: Sequence[RowRange], part_bytes: int) -> list[Part]:
    """Parts of about equal size, of at most about `part_bytes`, that are together exactly the ranges, in row order.

    The ranges ascend and don't touch, as `ranges.joined` gives them. Cut is only at rows that a source names, so a part
    may be larger; small ranges are put together. No part without a range, none at all if there is no range.
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
            # Half of it: what comes nearer to the edge, with it or without it.
            is_due = weight and held_bytes and done_bytes + held_bytes + weight / 2 > edge
            if is_due and (held or start < cut):
                if start < cut:
                    held.append((start, cut))
                result.append(Part(tuple(held), held_bytes))
                done_bytes += held_bytes
                # What was rounded is made up for; behind a part that had to be large there are no small ones.
                edge = max(edge + aim, done_bytes + aim / 2)
                held, held_bytes, start = [], 0, cut
            held_bytes += weight
            next_touched += 1
        held.append((start, stop))
    if held:
        result.append(Part(tuple(held), held_bytes))
    return result


def _touched(weights: RowWeights, ranges: Sequence[RowRange]) -> Iterator[tuple[bytes, int]]:
    """Of each stretch of the source that some range touches: the first row that it has of them, and its bytes."""
    rows = [row for row, _ in weights]
    counted = 0
    for start, stop in ranges:
        first = max(counted, bisect_right(rows, start) - 1)
        counted = max(counted, bisect_left(rows, stop) if stop else len(rows))
        for number in range(first, counted):
            yield max(start, rows[number]), weights[number][1]
