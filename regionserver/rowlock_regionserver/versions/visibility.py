"""Which cells of one row a read sees, and which a flush keeps: the rules, cell by cell, in plain Python.

A column is a machine that takes its writes in the order of their write numbers. What is live after all writes up to
the read point is what the read may see:

1. A put replaces the live version of its timestamp, or else is added. When more than `versions` are live, the one with
   the lowest timestamp goes, be it the new one. Gone is gone for good.
2. DELETE_VERSION removes the live version of exactly its timestamp, DELETE_COLUMN and DELETE_FAMILY those of its
   timestamp and below. They touch what is live at that moment: a later put under an older timestamp is seen.
3. Inside one write number the tombstones come first, then the puts.
4. At the read, a live version with timestamp + time to live <= now is not seen, unless it is one of the newest
   `min_versions` live ones.

So without tombstones a column's answer is its `versions` highest timestamps, each by its highest write number. A worked
example, versions 1: put a@100, put b@200, DELETE_VERSION@200 leaves nothing (b had pushed out a); put c@100 after that
is seen. `live_versions` is that machine; `visible_cells` asks it only for columns that a tombstone touches.

`visibility.py` gives the same answers for whole Arrow tables.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

from rowlock_regionserver.cells import DELETE_FAMILY, DELETE_VERSION, PUT, Cell, Family, ProtectedReadPoints, ReadPoint
from rowlock_regionserver.sources import AnyCell

T = TypeVar("T")

_qualifier_of = itemgetter(0)


def visible_cells(cells: Sequence[AnyCell], read_point: ReadPoint, family: Family) -> list[AnyCell]:
    """The puts of one row and family that a read sees, in store order; `cells` are all its cells in store order.

    A row of 10 cells, each column once and no tombstones, takes about 1 µs.
    """
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


def _expired_from(read_point: ReadPoint, family: Family) -> int:
    """Cells whose negated timestamp is this or more have expired; above all of them when the family keeps forever."""
    return family.time_to_live_ms - read_point.now_ms if family.time_to_live_ms else 1


def _live(cells: list[AnyCell], family: Family) -> list[AnyCell]:
    """The puts left when the columns that tombstones touch have been through the machine; in store order."""
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
    """Of each column the highest `versions` timestamps, of each its newest put, without what has expired."""
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


# (write number, is a put, negated timestamp, kind, what stands for it in the answer): their natural order is the
# order in which the machine takes them.
Event = tuple[int, bool, int, int, T]


def live_versions(events: Iterable[Event[T]], versions: int) -> list[T]:
    """The machine above: of one column's events, all tombstones that concern it included, what is live after the last.

    Takes any order, gives the highest timestamp first. O(n log n) for n events.
    """
    live: dict[int, T] = {}  # by negated timestamp
    newest_first: list[int] = []  # the keys of `live`, ascending
    for _, _, at, kind, answer in sorted(events):
        if kind == PUT:
            if at not in live:
                insort(newest_first, at)
            live[at] = answer
            if len(newest_first) > versions:
                del live[newest_first.pop()]
        elif kind == DELETE_VERSION:
            if live.pop(at, None) is not None:
                newest_first.remove(at)
        else:
            # Timestamps up to the tombstone's are, negated, those from `at` on.
            first = bisect_left(newest_first, at)
            for removed in newest_first[first:]:
                del live[removed]
            del newest_first[first:]
    return [live[at] for at in newest_first]


def retained_cells(cells: Sequence[Cell], spans: ProtectedReadPoints, versions: int) -> list[Cell]:
    """What of one row and family must be kept so that every read in one of the spans answers the same.

    A put goes when it is newer than every tombstone of `cells` that touches its column and no span needs it: it is
    later than the span's last read point, or writes up to its first one hold a newer put of its timestamp, or puts of
    `versions` higher timestamps, which are newer than those tombstones too. Those that outlive it are needed
    themselves, so it is not missed.

    Tombstones stay, since older files may hold what they hide, and so do the puts before the newest that touches their
    column. Of the puts after that, every tombstone, here or elsewhere, is older than all or newer than all: those in
    older places have smaller write numbers, those to come have greater ones. So where a read may see which of them are
    live, the machine has taken them without a tombstone in between, whatever else was put meanwhile: live are the
    highest timestamps, and what has been pushed out by then makes no difference later. Nothing goes for its time to
    live.
    """
    newest_of_family = max([-cell[2] for cell in cells if cell[3] == DELETE_FAMILY], default=0)
    retained: list[Cell] = []
    for _, column in groupby(cells, _qualifier_of):
        column_cells = list(column)
        if len(column_cells) == 1:
            retained += column_cells
            continue
        newest_tombstone = max([newest_of_family, *[-cell[2] for cell in column_cells if cell[3] != PUT]])
        newer = [cell for cell in column_cells if -cell[2] > newest_tombstone]
        kept = _retained_puts(newer, spans, versions)
        if len(newer) < len(column_cells):
            kept = sorted([*kept, *[cell for cell in column_cells if -cell[2] <= newest_tombstone]])
        retained += kept
    return retained


def _retained_puts(puts: list[Cell], spans: ProtectedReadPoints, versions: int) -> list[Cell]:
    """The same for puts of one column without tombstones between them."""
    needed: set[int] = set()  # places in `puts`
    for first, last in spans:
        higher = 0  # timestamps above the current one, or equal to it, that every reader of the span has
        seen_by_all: int | None = None  # the last of them
        for place, cell in enumerate(puts):
            if cell[1] != seen_by_all:
                if higher >= versions:
                    break  # all that follow are lower still
                if -cell[2] <= last:
                    needed.add(place)
                if -cell[2] <= first:
                    seen_by_all = cell[1]
                    higher += 1
    return [puts[place] for place in sorted(needed)]
