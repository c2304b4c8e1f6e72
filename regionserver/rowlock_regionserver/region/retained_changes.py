"""Which changes a region retains for its change feed: its horizon, and how it moves. Values; docs/changes.md.

Every change with a greater number than the horizon is complete in memory and files. The horizon only grows: points say
which number the read point had at a time, and when one is old enough, its number becomes the horizon.

A region knows its ancestors: regions whose rows it has taken over, by splits and merges. An offset may still name them.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rowlock_regionserver.row_ranges import intersection

# This many points divide the time of retention. Changes are retained for at most one part longer than they must be.
POINTS = 32


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A region whose rows [start, stop) another one has taken over. `last`: its last write number, or a bound of it.

    continued_after: between the last write number and this one, the ancestor made no change of these rows. After a
    merge it is the higher number of two, and the new region's numbers are greater. After a split it equals `last`.
    """

    region_id: int
    start: bytes
    stop: bytes
    last: int
    continued_after: int
    horizon: int

    def clipped(self, start: bytes, stop: bytes) -> Ancestor | None:
        """Returns it with its rows of [start, stop) only; None if there are none."""
        rows = intersection((self.start, self.stop), (start, stop))
        return None if rows is None else replace(self, start=rows[0], stop=rows[1])


@dataclass(frozen=True, slots=True)
class RetainedChanges:
    """What a region with a change feed knows of it."""

    horizon: int
    # (milliseconds since the epoch, the read point at that time or an earlier one), ascending.
    points: tuple[tuple[int, int], ...] = ()
    ancestors: tuple[Ancestor, ...] = ()

    def noted(self, now_ms: int, read_point: int, interval_ms: int) -> RetainedChanges:
        """Returns it with the current point, if the last one is older than the interval and the read point moved."""
        newest_ms, newest = self.points[-1] if self.points else (now_ms - interval_ms, self.horizon)
        if read_point <= newest or now_ms - newest_ms < interval_ms:
            return self
        return replace(self, points=(*self.points, (now_ms, read_point)))

    def advanced(self, now_ms: int, retained_ms: int) -> RetainedChanges:
        """Returns it with the horizon at the newest point that is older than `retained_ms`; itself if there is none."""
        passed = [number for at_ms, number in self.points if now_ms - at_ms > retained_ms]
        if not passed:
            return self
        horizon = max(self.horizon, passed[-1])
        ancestors = tuple([each for each in self.ancestors if each.continued_after >= horizon])
        return RetainedChanges(horizon, self.points[len(passed) :], ancestors)

    def as_ancestor(self, region_id: int, start: bytes, stop: bytes, last: int) -> RetainedChanges:
        """Returns it for the regions that take over the rows of this one, which is their first ancestor."""
        return replace(self, ancestors=(Ancestor(region_id, start, stop, last, last, self.horizon), *self.ancestors))

    def with_ancestor_ended(self, last: int) -> RetainedChanges:
        """Returns it with the last number of its first ancestor."""
        first, *others = self.ancestors
        return replace(self, ancestors=(replace(first, last=last, continued_after=last), *others))

    def clipped(self, start: bytes, stop: bytes) -> RetainedChanges:
        """Returns it for the rows of [start, stop)."""
        clipped = [each.clipped(start, stop) for each in self.ancestors]
        return replace(self, ancestors=tuple([each for each in clipped if each is not None]))

    def to_json(self) -> dict[str, object]:
        return {
            "horizon": self.horizon,
            "points": self.points,
            "ancestors": [
                [each.region_id, _text(each.start), _text(each.stop), each.last, each.continued_after, each.horizon]
                for each in self.ancestors
            ],
        }

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> RetainedChanges:  # Any: as json.loads gives it
        return RetainedChanges(
            fields["horizon"],
            tuple([(at_ms, number) for at_ms, number in fields["points"]]),
            tuple(
                [
                    Ancestor(region_id, base64.b64decode(start), base64.b64decode(stop), *numbers)
                    for region_id, start, stop, *numbers in fields["ancestors"]
                ]
            ),
        )


def merged(of_regions: Sequence[RetainedChanges]) -> RetainedChanges:
    """Returns what a region retains that takes over the rows of these, whose write numbers it continues.

    Each must be `as_ancestor` and have taken its last write. The lowest horizon counts, and moves when a number is old
    enough in all of them; the ancestors have their own horizons.
    """
    if len(of_regions) == 1:
        return of_regions[0]
    continued_after = max([each.ancestors[0].last for each in of_regions])
    ancestors: tuple[Ancestor, ...] = ()
    for each in of_regions:
        ancestors += (replace(each.ancestors[0], continued_after=continued_after), *each.ancestors[1:])
    return RetainedChanges(min(each.horizon for each in of_regions), _merged_points(of_regions), ancestors)


def _merged_points(of_regions: Sequence[RetainedChanges]) -> tuple[tuple[int, int], ...]:
    """Returns points that hold for all regions: at the time, each had published all that it has up to the number."""
    points: list[tuple[int, int]] = []
    lasts = [each.ancestors[0].last for each in of_regions]
    for at_ms in sorted({at_ms for each in of_regions for at_ms, _ in each.points}):
        numbers = [_number_at(each, at_ms) for each in of_regions]
        open_ones = [number for number, last in zip(numbers, lasts, strict=True) if number < last]
        number = min(open_ones, default=max(lasts))
        if number > (points[-1][1] if points else min(each.horizon for each in of_regions)):
            points.append((at_ms, number))
    # Without a point the horizon moves later, which is harmless.
    return tuple(points if len(points) <= 2 * POINTS else [*points[:-1:2], points[-1]])


def _number_at(changes: RetainedChanges, at_ms: int) -> int:
    """Returns a number up to which all was published at the time."""
    return max([changes.horizon, *[number for noted_ms, number in changes.points if noted_ms <= at_ms]])


def _text(row: bytes) -> str:
    return base64.b64encode(row).decode()
