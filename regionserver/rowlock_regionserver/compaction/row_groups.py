"""Which files of a major compaction become one file each.

Files whose rows overlap, directly or through others, are in one group. A file that overlaps no other is a group of its
own, and is not even read if there is nothing to drop from it. So rows that are loaded in ascending order are not
written again and again.

Small groups that are neighbours in row order are combined, or a store would gather small bases without end. Of two
neighbouring groups at least one has `enough_bytes`; hence there are at most 2 * bytes / enough_bytes + 1 groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RowSpan:
    """The rows of one file, inclusive at both ends."""

    first_row: bytes
    last_row: bytes
    byte_count: int
    must_rewrite: bool  # there is something to drop


def row_groups(spans: Sequence[RowSpan], enough_bytes: int) -> list[list[int]]:
    """Returns the groups in row order, each as ascending indexes of `spans`. O(n log n)."""
    groups: list[list[int]] = []
    small: list[int] = []
    for group in _overlapping(spans):
        if len(group) == 1 and not spans[group[0]].must_rewrite and spans[group[0]].byte_count >= enough_bytes:
            groups.extend([small] if small else [])
            groups.append(group)
            small = []
            continue
        small = small + group
        if sum(spans[index].byte_count for index in small) >= enough_bytes:
            groups.append(small)
            small = []
    groups.extend([small] if small else [])
    return [sorted(group) for group in groups]


def _overlapping(spans: Sequence[RowSpan]) -> list[list[int]]:
    """Returns the connected components of the spans, in row order."""
    groups: list[list[int]] = []
    last_row = b""
    for index in sorted(range(len(spans)), key=lambda index: spans[index].first_row):
        if groups and spans[index].first_row <= last_row:
            groups[-1].append(index)
        else:
            groups.append([index])
        last_row = max(last_row, spans[index].last_row)
    return groups
