"""Which cells of a whole Arrow table a flush or a compaction retains, as vector operations.

retention.py has the rules, their reasons, and a function with the same result for one row. The cells are whole rows of
one family in store order, or whole columns of one row after all its family tombstones. The results are masks, true for
the cells that are retained.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rowlock_regionserver.arrow.columns import Integers, Mask
from rowlock_regionserver.arrow.sorted_cells import SortedCells, count_before, spread
from rowlock_regionserver.cells import DELETE_COLUMN, DELETE_FAMILY, NEWEST, PUT, Family, ProtectedReadPoints
from rowlock_regionserver.versions.past_limits import spans_of_limits
from rowlock_regionserver.versions.retention import Retention
from rowlock_regionserver.versions.tombstones import covered
from rowlock_regionserver.versions.visibility_columns import live_at


def retained(cells: SortedCells, retention: Retention, versions: int) -> Mask:
    """Returns which cells to retain; `versions` are live in a column at most.

    80 M cells/s in columns of four versions without tombstones, 15 to 20 M cells/s with some; less for each span.
    """
    is_plain = not cells.has_versions and not cells.kind.any() and not retention.past
    if retention.expired_through < 0:
        return np.ones(len(cells), np.bool_) if is_plain else _of_unexpired(cells, retention, versions)
    mask: Mask = cells.timestamp > retention.expired_through
    if not retention.is_complete:
        mask |= cells.kind != PUT
    if retention.retained_after < NEWEST:
        mask |= cells.write_number > retention.retained_after
    return mask if is_plain else _narrowed(cells, mask, lambda rest: _of_unexpired(rest, retention, versions))


def _narrowed(cells: SortedCells, mask: Mask, rule: Callable[[SortedCells], Mask]) -> Mask:
    """Returns which cells of the mask the rule retains, among these cells alone."""
    if mask.all():
        return rule(cells)
    mask[mask] = rule(cells.at(mask))
    return mask


def _of_unexpired(cells: SortedCells, retention: Retention, versions: int) -> Mask:
    """Applies rules 2 to 4. Without tombstones, rule 4 drops all that rule 2 would."""
    protected = retention.protected
    if not cells.kind.any() and not retention.past:
        return _needed(cells, retention, versions)

    def of_settled(settled: SortedCells) -> Mask:
        return _narrowed(settled, ~_hidden(settled, protected), lambda rest: _not_surplus(rest, retention, versions))

    through = retention.settled_through
    if through < 0:
        return of_settled(cells)
    family = Family(0, b"", versions, past=retention.past)
    return _narrowed(cells, (cells.write_number > through) | live_at(cells, through, family), of_settled)


def _hidden(cells: SortedCells, protected: ProtectedReadPoints) -> Mask:
    """Returns which cells a later tombstone reaches before a protected read point."""
    hidden = np.zeros(len(cells), np.bool_)
    if not (cells.kind >= DELETE_COLUMN).any():
        return hidden
    before = -1
    for first, last in protected:
        # No read point lies between two of these.
        gap = np.flatnonzero((cells.write_number > before) & (cells.write_number <= first))
        hidden[gap] = covered(cells.at(gap))
        before = last
    return hidden


def _not_surplus(cells: SortedCells, retention: Retention, versions: int) -> Mask:
    """Drops puts that are newer than every tombstone that touches their column, and that no range needs."""
    past = retention.past_unsettled
    if not len(cells) or not (past or cells.kind.any()):
        return _needed(cells, retention, versions)
    retained = np.ones(len(cells), np.bool_)
    is_newer = cells.write_number > _newest_tombstone(cells)
    for start, stop, limit in spans_of_limits(past, versions):
        newer = np.flatnonzero(is_newer & (cells.write_number >= start) & (cells.write_number < stop))
        if len(newer):
            retained[newer] = _needed(cells.at(newer), retention, limit)
    return retained


def _needed(puts: SortedCells, retention: Retention, versions: int) -> Mask:
    """Returns which puts read points or a change feed need; there is no tombstone between those of one column."""
    starts_column = puts.starts_column()
    starts_version = puts.starts_version()
    needed: Mask = puts.write_number > retention.retained_after
    for first, last in retention.protected:
        read_by_all = puts.write_number <= first
        newer_of_timestamp = count_before(read_by_all, starts_version)
        first_read_by_all = read_by_all & (newer_of_timestamp == 0)
        # Counted up to the start of the put's own timestamp, so only higher timestamps count.
        higher = spread(count_before(first_read_by_all, starts_column)[starts_version], starts_version)
        outlived = (newer_of_timestamp > 0) | (higher >= versions)
        needed |= ~outlived & (puts.write_number <= last)
    return needed


def _newest_tombstone(cells: SortedCells) -> Integers:
    """Returns for each cell the greatest write number of a tombstone that touches its column; 0 without one."""
    of_family = _greatest(cells.write_number, cells.kind == DELETE_FAMILY, cells.row)
    return np.maximum(of_family, _greatest(cells.write_number, cells.kind != PUT, cells.column))


def _greatest(values: Integers, marks: Mask, runs: Integers) -> Integers:
    """Returns for each element the greatest marked value of its run, or 0; `runs` has the runs' numbers, from 0 on."""
    greatest = np.zeros(int(runs[-1]) + 1, np.int64)
    np.maximum.at(greatest, runs[marks], values[marks])
    return greatest[runs]
