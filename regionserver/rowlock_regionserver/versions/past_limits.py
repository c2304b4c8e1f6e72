"""What an alter of a family's limits changes, and what it leaves: each write is judged by the limits of its moment.

An alter of versions, min_versions or time to live takes a write number of its own in each region. A read at an earlier
read point is under the limits from before it, whenever it runs. At its write number, in each column:

1. Versions beyond the new limit are removed, lowest timestamps first, as a put removes them. A higher limit brings
   nothing back.
2. What has expired under the limits from before is removed. With `min_versions` that is nothing: an expired version
   could still be seen again after a delete of newer ones.

Both remove a timestamp only together with all lower ones. So the live versions at the alter are a plain start for the
writes after it. A reader, or a compaction that is complete, first replaces the cells from before each alter by the puts
that were live there and had not expired (`after_alters` in visibility.py, and its vector twin). The state machine takes
these puts before all later writes, under the next limit, which is step 1.

After a complete compaction nothing in the store depends on the past limits up to its first protected read point, and
the region forgets them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rowlock_regionserver.cells import NEWEST, Family, PastLimits


def altered(before: Family, wanted: Family, write_number: int, now_ms: int) -> Family:
    """Returns `wanted` with the past of the family before the alter, which has this write number and time."""
    if _limits_of(before) == _limits_of(wanted):
        return replace(wanted, past=before.past)
    past = PastLimits(
        write_number,
        before.versions,
        before.min_versions,
        before.time_to_live_ms,
        _gone_through(before, wanted, now_ms),
    )
    return replace(wanted, past=(*before.past, past))


def _limits_of(family: Family) -> tuple[int, int, int]:
    return family.versions, family.min_versions, family.time_to_live_ms


def _gone_through(before: Family, wanted: Family, now_ms: int) -> int:
    if not before.time_to_live_ms or before.min_versions:
        return -1
    if 0 < wanted.time_to_live_ms <= before.time_to_live_ms and not wanted.min_versions:
        return -1  # What has expired stays hidden, and the alter that could change this will remove it.
    return max(-1, now_ms - before.time_to_live_ms)


def forgotten(family: Family, write_number: int) -> Family:
    """Returns the family without the past limits up to this write number."""
    if not family.past or write_number < family.past[0].write_number:
        return family
    return replace(family, past=tuple(limits for limits in family.past if limits.write_number > write_number))


def gone_through(family: Family) -> int:
    """Returns the highest timestamp of which an alter may have removed cells because they had expired; -1: none."""
    return max([limits.gone_through for limits in family.past], default=-1)


def alters(family: Family) -> Iterator[PastLimits]:
    """Yields the limits from before each alter that may have removed versions, oldest first."""
    for place, limits in enumerate(family.past, start=1):
        versions = family.past[place].versions if place < len(family.past) else family.versions
        if limits.versions != versions or limits.gone_through >= 0:
            yield limits


def spans_of_limits(past: tuple[PastLimits, ...], versions: int) -> Iterator[tuple[int, int, int]]:
    """Yields (start, stop, versions): the write numbers [start, stop) that are under one limit, oldest first."""
    start = 0
    for limits in past:
        yield start, limits.write_number, limits.versions
        start = limits.write_number
    yield start, NEWEST, versions
