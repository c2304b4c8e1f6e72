"""A clip: the rows [start, stop) of a store file that count for its region, and what they are of the file's parts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from rowlock_regionserver.row_groups import NO_ROW_GROUPS, RowGroups
from rowlock_regionserver.row_ranges import intersection

# No server stores a longer row (config.py).
_ROW_BYTES_MAX = (1 << 16) - 1


class Clip(NamedTuple):
    """Rows from `start` to before `stop`; an empty stop means no bound."""

    start: bytes
    stop: bytes

    def __contains__(self, row: object) -> bool:
        assert isinstance(row, bytes), row
        return self.start <= row and (not self.stop or row < self.stop)

    def within(self, start: bytes, stop: bytes) -> Clip | None:
        """Returns the rows of [start, stop) that are in the clip; None if there are none."""
        rows = intersection(self, (start, stop))
        return None if rows is None else Clip(*rows)

    def of_weights(self, weights: Sequence[tuple[bytes, int]]) -> list[tuple[bytes, int]]:
        """Returns (row, bytes from it on) for the rows in the clip; what begins before it begins with it."""
        rows = [row for row, _ in weights]
        first = max(0, bisect_right(rows, self.start) - 1)
        last = bisect_left(rows, self.stop) if self.stop else len(rows)
        return [(max(row, self.start), byte_count) for row, byte_count in weights[first:last]]

    def of_groups(self, groups: RowGroups) -> RowGroups:
        """Returns the row groups of the rows in the clip.

        Where the clip cuts a group, the digest is that of the whole group, and the clip: groups with the same rows have
        the same ones when they are cut by the same clip.
        """
        places = groups.of_range(*self)
        if not places:
            return NO_ROW_GROUPS
        cut = b"%d:" % len(self.start) + self.start + self.stop
        digests = [groups.digests[place] + (b"" if self._has(groups.bounds(place)) else cut) for place in places]
        return replace(
            groups,
            first_rows=groups.first_rows[places.start : places.stop],
            digests=digests,
            complete_columns=groups.complete_columns[places.start : places.stop],
        )

    def _has(self, bounds: tuple[bytes, bytes]) -> bool:
        """Returns whether all rows between the bounds are in the clip."""
        return self.within(*bounds) == bounds


def row_before(stop: bytes) -> bytes:
    """Returns the greatest row below `stop`, which is not empty."""
    if stop.endswith(b"\0"):
        return stop[:-1]
    return stop[:-1] + bytes([stop[-1] - 1]) + b"\xff" * (_ROW_BYTES_MAX - len(stop))
