"""Which cells of one row a read sees: the rules, cell by cell, in plain Python.

A column is a state machine that takes its writes in the order of their write numbers. A read may see the versions that
are live after all writes up to its read point:

1. A put replaces the live version with its timestamp, or else is added. If more than `versions` are live then, the one
   with the lowest timestamp is removed, even if it is the new one. A removed version never comes back.
2. DELETE_VERSION removes the live version with exactly its timestamp, DELETE_COLUMN and DELETE_FAMILY those with its
   timestamp or a lower one. They affect only versions that are live at that moment: a later put with a lower timestamp
   is visible.
3. Within one write number the tombstones come first, then the puts.
4. A read does not see a live version with timestamp + time to live <= now, unless it is one of the newest
   `min_versions` live ones.
5. An alter of these limits is a step of its own between two writes: past_limits.py.

So without tombstones a column's answer is its `versions` highest timestamps, each with its highest write number. A
worked example with versions 1: put a@100, put b@200, DELETE_VERSION@200 leaves nothing (b had pushed out a); put c@100
after that is visible. `live_versions` is this state machine; `visible_cells` uses it only for columns that a tombstone
touches.

`visibility_columns.py` applies the same rules to whole Arrow tables.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

from rowlock_regionserver.cells import DELETE_FAMILY, DELETE_VERSION, NEWEST, PUT, Family, ReadPoint
from rowlock_regionserver.found_cells import AnyCell
from rowlock_regionserver.versions.past_limits import alters, gone_through

T = TypeVar("T")

_qualifier_of = itemgetter(0)
_AT_THE_END = ReadPoint(NEWEST, 0)


def are_seen(read_point: ReadPoint, write_number_max: int, timestamp_min: int, family: Family) -> bool:
    """Returns whether a read sees all puts within these bounds that no tombstone and no other put hides.

    family: with the limits for this read point (Family.as_of).
    """
    expires = family.time_to_live_ms and timestamp_min + family.time_to_live_ms <= read_point.now_ms
    is_gone = family.past and timestamp_min <= gone_through(family)
    return write_number_max <= read_point.write_number and not expires and not is_gone


def visible_cells(cells: Sequence[AnyCell], read_point: ReadPoint, family: Family) -> list[AnyCell]:
    """Returns the puts of one row and family that a read sees; `cells` are all its cells. Both are in store order.

    A row of 10 cells, one a column and without tombstones, takes about 1 µs.
    """
    if family.past:
        family = family.as_of(read_point.write_number)
        cells = after_alters(cells, family)
    oldest_seen = -read_point.write_number  # numbers in tuples are negated: greater ones are older
    expired_from = _expired_from(read_point, family)
    previous: bytes | None = None
    for qualifier, negated_timestamp, negated_write_number, kind, _ in cells:
        if (
            kind != PUT
            or negated_write_number < oldest_seen
            or negated_timestamp >= expired_from
            or qualifier == previous
        ):
            break
        previous = qualifier
    else:
        return list(cells)
    return _newest_versions(_live([cell for cell in cells if cell[2] >= oldest_seen], family), expired_from, family)


def after_alters(cells: Sequence[AnyCell], family: Family) -> Sequence[AnyCell]:
    """Replaces the cells from before the family's past alters by the puts that these leave; both are in store order.

    The cells are all of one row and family, or of one column with the family tombstones. Later cells stay as they are.
    """
    for limits in alters(family):
        before = [cell for cell in cells if -cell[2] < limits.write_number]
        if before:
            live = visible_cells(before, _AT_THE_END, Family(0, b"", limits.versions))
            left = [cell for cell in live if -cell[1] > limits.gone_through]
            left += [cell for cell in cells if -cell[2] > limits.write_number]
            left.sort()
            cells = left
    return cells


def _expired_from(read_point: ReadPoint, family: Family) -> int:
    """Returns the negated timestamp from which on cells have expired; above all of them without a time to live."""
    return family.time_to_live_ms - read_point.now_ms if family.time_to_live_ms else 1


def _live(cells: list[AnyCell], family: Family) -> list[AnyCell]:
    """Returns the puts that are live after the state machine has run on columns with tombstones, in store order."""
    if not any(cell[3] for cell in cells):
        return cells
    family_tombstones = [cell for cell in cells if cell[3] == DELETE_FAMILY]
    live: list[AnyCell] = []
    for _, column in groupby(cells, _qualifier_of):
        column_cells = [cell for cell in column if cell[3] != DELETE_FAMILY]
        if family_tombstones or any(cell[3] for cell in column_cells):
            events = [(-cell[2], cell[3] == PUT, cell[1], cell[3], cell) for cell in family_tombstones + column_cells]
            live += live_versions(events, family.versions)
        else:
            live += column_cells
    return live


def _newest_versions(puts: list[AnyCell], expired_from: int, family: Family) -> list[AnyCell]:
    """Returns the newest put of each of a column's highest `versions` timestamps, without expired ones."""
    visible: list[AnyCell] = []
    previous: bytes | None = None
    found, at = 0, 0
    for cell in puts:
        if cell[0] != previous:
            previous, found = cell[0], 0
        elif cell[1] == at or found == family.versions:
            continue
        at = cell[1]
        found += 1
        if at < expired_from or found <= family.min_versions:
            visible.append(cell)
    return visible


# (write number, is a put, negated timestamp, kind, the item to return for it). Their natural order is the order in
# which the state machine takes them.
Event = tuple[int, bool, int, int, T]


def live_versions(events: Iterable[Event[T]], versions: int) -> list[T]:
    """Runs the state machine above on one column's events, with all tombstones that reach it; returns the live ones.

    The events may have any order. The highest timestamp comes first in the result. O(n log n) for n events.
    """
    live: dict[int, T] = {}  # by negated timestamp
    newest_first: list[int] = []  # the keys of `live`, ascending
    for _, _, at, kind, item in sorted(events):
        if kind == PUT:
            if at not in live:
                insort(newest_first, at)
            live[at] = item
            if len(newest_first) > versions:
                del live[newest_first.pop()]
        elif kind == DELETE_VERSION:
            if live.pop(at, None) is not None:
                newest_first.remove(at)
        else:
            # Negated, the timestamps up to the tombstone's are those from `at` on.
            first = bisect_left(newest_first, at)
            for removed in newest_first[first:]:
                del live[removed]
            del newest_first[first:]
    return [live[at] for at in newest_first]
