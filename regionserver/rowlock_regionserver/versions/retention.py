"""Which cells a flush, a compaction or pruning retains: the rules for one row, cell by cell, in plain Python.

What is dropped may change no answer: not at a protected read point, whatever the other files of the store have, and
whatever is written later. The rules are applied one after the other, each to what the one before has left. The numbers
of the rules are those of docs/compaction.md, "What a compaction drops".

1. Expired: puts with a timestamp that has expired for every reader, now or later. What the state machine of
   visibility.py does above a timestamp does not depend on cells at or below it. Such tombstones go too, but only if the
   cells are complete: else a longer time to live would bring back what they hide in other files.
2. Settled, only if the cells are complete: the cells that every protected read point sees become the puts that are live
   at the first one. The machine starts from these puts as it would from all of those cells, since they fit the limit.
   This ends before the first alter that came after a write elsewhere, which the machine processes before that alter.
3. Hidden: a cell that a later DELETE_COLUMN or DELETE_FAMILY reaches, unless a protected read point lies between them.
   The tombstone empties the column up to its timestamp, so what was there before it makes no difference afterwards.
4. Surplus: puts that newer ones of the same timestamp replace, or that `versions` higher timestamps push out, at every
   protected read point, if no tombstone can come between these puts.

Rule 3 holds for tombstones too, but only a DELETE_FAMILY covers a DELETE_FAMILY. All other tombstones stay, because
files that take no part may have cells that they hide, and a read point before a tombstone must not feel it.

If the table has a change feed, every cell beyond its horizon stays too. All read points from the horizon on are
protected then, so rules 2 and 3 drop no such cell anyway, and for rules 1 and 4 it makes no difference to an answer
whether it stays. Without that, to retain a cell that the rules drop could bring it back: docs/changes.md.

`retention_columns.py` applies the same rules to whole Arrow tables.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter

from rowlock_regionserver.cells import (
    DELETE_COLUMN,
    DELETE_FAMILY,
    NEWEST,
    PUT,
    Cell,
    Family,
    PastLimits,
    ProtectedReadPoints,
    ReadPoint,
)
from rowlock_regionserver.versions.past_limits import spans_of_limits
from rowlock_regionserver.versions.visibility import visible_cells

_qualifier_of = itemgetter(0)
_newest_first = itemgetter(1, 2)
_kind_of = itemgetter(3)


@dataclass(frozen=True, slots=True)
class Retention:
    """What may be dropped when cells are written to a file, or are pruned in memory.

    protected: the read points whose answers must not change; ask for them before any cell is read.
    is_complete: every cell of the store with a smaller write number, in the rows that take part, takes part.
    expired_through: puts with this timestamp or a lower one have expired for every reader; -1: none has.
    past: the family's limits from before the alters that came after some of the cells.
    newer_from: the write number of the oldest newer cell of the store that takes no part.
    retained_after: every cell of a greater write number stays, for a change feed; all read points from this one on are
    protected then.
    """

    protected: ProtectedReadPoints
    is_complete: bool = False
    expired_through: int = -1
    past: tuple[PastLimits, ...] = ()
    newer_from: int = NEWEST
    retained_after: int = NEWEST

    @property
    def settled_through(self) -> int:
        """The write number up to which rule 2 leaves live puts only; -1: it does not apply."""
        if not self.is_complete:
            return -1
        alters = [limits.write_number for limits in self.past if limits.write_number > self.newer_from]
        return min([self.protected[0][0], *(number - 1 for number in alters)])

    @property
    def past_unsettled(self) -> tuple[PastLimits, ...]:
        """The past limits that still matter after rule 2."""
        return tuple(limits for limits in self.past if limits.write_number > self.settled_through)


def retention_of(
    family: Family,
    protected: ProtectedReadPoints,
    oldest_now_ms: int,
    *,
    is_complete: bool,
    write_number_min: int,
    newer_from: int,
    retained_after: int = NEWEST,
) -> Retention:
    """Returns what may be dropped of a family's cells, the oldest of which has the write number `write_number_min`.

    Take `protected` and `oldest_now_ms` first, then the family, then the cells: an alter may come in between.
    """
    past = tuple(limits for limits in family.past if limits.write_number > write_number_min)
    expired = expired_for_all(family, protected, oldest_now_ms)
    return Retention(protected, is_complete, expired, past, newer_from, retained_after)


def expired_for_all(family: Family, protected: ProtectedReadPoints, oldest_now_ms: int) -> int:
    """Returns as `expired_through`; -1 also as long as a reader is under the limits from before an alter."""
    if family.as_of(protected[0][0]) is not family:
        return -1
    return expired_through(family, oldest_now_ms)


def expired_through(family: Family, oldest_now_ms: int) -> int:
    """Returns the timestamp up to which cells have expired from `oldest_now_ms` on; -1 if none may be dropped for it.

    With `min_versions` an expired version can be seen again when newer ones are deleted, so none may be dropped.
    """
    if not family.time_to_live_ms or family.min_versions:
        return -1
    return max(-1, oldest_now_ms - family.time_to_live_ms)


def retained_cells(cells: Sequence[Cell], retention: Retention, versions: int) -> list[Cell]:
    """Returns the cells to retain of one row and family, of which `versions` are live at most; both in store order."""
    retained = cells if retention.expired_through < 0 else _unexpired(cells, retention)
    has_tombstones = any(map(_kind_of, retained))
    through = retention.settled_through
    if through >= 0 and (has_tombstones or retention.past):
        retained = _settled(retained, through, Family(0, b"", versions, past=retention.past))
    if has_tombstones:
        retained = _not_hidden(retained, retention.protected)
    return _without_surplus(retained, retention, versions)


def _unexpired(cells: Sequence[Cell], retention: Retention) -> list[Cell]:
    return [
        cell
        for cell in cells
        if -cell[1] > retention.expired_through
        or -cell[2] > retention.retained_after
        or (cell[3] != PUT and not retention.is_complete)
    ]


def _settled(cells: Sequence[Cell], read_point: int, family: Family) -> list[Cell]:
    """Replaces the cells up to the read point by the puts that are live there, expired or not."""
    live = visible_cells(cells, ReadPoint(read_point, 0), replace(family.as_of(read_point), time_to_live_ms=0))
    return sorted([*live, *(cell for cell in cells if -cell[2] > read_point)])


def _not_hidden(cells: Sequence[Cell], protected: ProtectedReadPoints) -> Sequence[Cell]:
    """Drops the cells that a later tombstone reaches before a protected read point."""
    if not any(cell[3] >= DELETE_COLUMN for cell in cells):
        return cells
    of_family = _not_hidden_by([], [cell for cell in cells if cell[3] == DELETE_FAMILY], protected)
    retained = list(of_family)
    for _, column in groupby(cells, _qualifier_of):
        retained += _not_hidden_by(of_family, [cell for cell in column if cell[3] != DELETE_FAMILY], protected)
    return sorted(retained)


def _not_hidden_by(of_family: list[Cell], cells: list[Cell], protected: ProtectedReadPoints) -> list[Cell]:
    """Returns which `cells`, all of one column, or all family tombstones, are not hidden by `of_family` or each other.

    A tombstone comes before the cells that it reaches. It hides those of a smaller number between the same protected
    read points, so the greatest number of each such gap decides.
    """
    lasts = [last for _, last in protected]
    greatest: dict[int, int] = {}
    retained: list[Cell] = []
    for cell in sorted([*of_family, *cells], key=_newest_first):
        number = -cell[2]
        gap = bisect_left(lasts, number)
        if number <= protected[gap][0]:  # else the number itself is protected: nothing hides it, and it hides nothing
            if number < greatest.get(gap, 0):
                continue
            if cell[3] >= DELETE_COLUMN:
                greatest[gap] = number
        if cell[3] != DELETE_FAMILY or not of_family:
            retained.append(cell)
    return retained


def _without_surplus(cells: Sequence[Cell], retention: Retention, versions: int) -> list[Cell]:
    """Drops puts that are newer than every tombstone of `cells` that touches their column, and that no range needs.

    A range of protected read points does not need a put that is newer than its last one. It does not need a put either
    if writes up to its first read point include a newer put of the same timestamp, or puts of `versions` higher
    timestamps, which are newer than those tombstones too. Those puts are needed themselves, so they are retained.

    Every other tombstone, in these cells or elsewhere, is older than all puts after that, or newer than all: tombstones
    in older files have smaller write numbers, later ones have greater numbers. So whenever a read may see which of
    these puts are live, the state machine has taken them without a tombstone in between, whatever other puts there
    were. Then the highest timestamps are live, and versions that were pushed out before make no difference later.

    An alter between two puts may have removed versions too. So puts from before and after one never count together.
    """
    past = retention.past_unsettled
    newest_of_family = max([-cell[2] for cell in cells if cell[3] == DELETE_FAMILY], default=0)
    retained: list[Cell] = []
    for _, column in groupby(cells, _qualifier_of):
        column_cells = list(column)
        if len(column_cells) == 1:
            retained += column_cells
            continue
        newest_tombstone = max([newest_of_family, *[-cell[2] for cell in column_cells if cell[3] != PUT]])
        newer = [cell for cell in column_cells if -cell[2] > newest_tombstone]
        if not past:
            column_retained = _needed(newer, retention, versions)
        else:
            column_retained = []
            for start, stop, limit in spans_of_limits(past, versions):
                of_span = [cell for cell in newer if start <= -cell[2] < stop]
                column_retained += _needed(of_span, retention, limit)
            column_retained.sort()
        if len(newer) < len(column_cells):
            older = [cell for cell in column_cells if -cell[2] <= newest_tombstone]
            column_retained = sorted([*column_retained, *older])
        retained += column_retained
    return retained


def _needed(puts: list[Cell], retention: Retention, versions: int) -> list[Cell]:
    """Returns the puts of one column that a range or a change feed needs; there are no tombstones between them."""
    needed: set[int] = set()  # places in `puts`
    if retention.retained_after < NEWEST:
        needed.update([place for place, cell in enumerate(puts) if -cell[2] > retention.retained_after])
    for first, last in retention.protected:
        higher = 0  # timestamps >= the current one that every read of the range sees
        seen_by_all: int | None = None  # the last of them
        for place, cell in enumerate(puts):
            if cell[1] != seen_by_all:
                if higher >= versions:
                    break  # all following timestamps are lower still
                if -cell[2] <= last:
                    needed.add(place)
                if -cell[2] <= first:
                    seen_by_all = cell[1]
                    higher += 1
    return [puts[place] for place in sorted(needed)]
