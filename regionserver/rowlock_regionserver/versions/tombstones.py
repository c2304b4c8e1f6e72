"""Finds the puts of a sorted table that its tombstones leave live: the state machine of visibility.py, vectorised.

With only DELETE_COLUMN and DELETE_FAMILY, one pass is exact. Such a tombstone hides a timestamp only together with all
lower ones. So if it removes the higher versions that pushed a version out, it removes that version too. A put is live
if no later tombstone hides it and it is among the highest `versions` of such puts.

DELETE_VERSION breaks this: it can reduce the live versions after a version was pushed out for good. But that matters
only in a column where it hides a put and that has more timestamps than `versions`. Those columns go through the state
machine one by one (0.7 M cells/s); everything else is a few vector operations.

In store order each tombstone of a column precedes the puts that it hides: they have a lower timestamp, or the same one
and a smaller write number. So the newest tombstone that reaches a put is a running maximum. Family tombstones are in
the column with the empty qualifier, before all others of the row, and are looked up by timestamp.
"""

from __future__ import annotations

import numpy as np

from rowlock_regionserver.arrow.columns import Integers, Mask
from rowlock_regionserver.arrow.sorted_cells import SortedCells, running_maximum
from rowlock_regionserver.cells import DELETE_COLUMN, DELETE_FAMILY, DELETE_VERSION, PUT
from rowlock_regionserver.versions.visibility import Event, live_versions


def live_puts(cells: SortedCells, versions: int) -> Mask:
    """Returns which of `cells`, in whole rows, are puts that no tombstone hides; some may be beyond `versions`."""
    puts = cells.kind == PUT
    live: Mask = puts & (cells.write_number >= _newest_column_tombstone(cells))
    family_tombstones = cells.at(cells.kind == DELETE_FAMILY)
    if len(family_tombstones):
        live &= cells.write_number >= _newest_family_tombstone(cells, family_tombstones)
    if (cells.kind == DELETE_VERSION).any():
        hit = puts & (cells.write_number < _newest_version_tombstone(cells))
        live &= ~hit
        columns = _columns_where_order_matters(cells, puts, hit, versions)
        if len(columns):
            _run_machine(cells, columns, family_tombstones, versions, live)
    return live


def covered(cells: SortedCells) -> Mask:
    """Returns which of `cells` a later DELETE_COLUMN or DELETE_FAMILY of `cells` makes irrelevant.

    They are the puts that it hides, and the tombstones that hide no more than it does.
    """
    of_family = cells.kind == DELETE_FAMILY
    mask: Mask = ~of_family & (cells.write_number < _newest_column_tombstone(cells))
    family_tombstones = cells.at(of_family)
    if len(family_tombstones):
        mask |= cells.write_number < _newest_family_tombstone(cells, family_tombstones)
    return mask


def _newest_column_tombstone(cells: SortedCells) -> Integers:
    """Returns for each cell the greatest write number of a DELETE_COLUMN that reaches its timestamp; -1 without one."""
    marks = cells.kind == DELETE_COLUMN
    if not marks.any():
        return np.full(len(cells), -1)
    return running_maximum(cells.write_number, marks, cells.column)


def _newest_version_tombstone(cells: SortedCells) -> Integers:
    """Returns for each cell the greatest write number of a DELETE_VERSION at its timestamp; -1 without one."""
    return running_maximum(cells.write_number, cells.kind == DELETE_VERSION, np.cumsum(cells.starts_version()))


def _newest_family_tombstone(cells: SortedCells, tombstones: SortedCells) -> Integers:
    """Returns for each cell the greatest write number of a DELETE_FAMILY that reaches it in its row; -1 without one.

    `tombstones` are all family tombstones; in each row the highest timestamp comes first.
    """
    every = np.ones(len(tombstones), np.bool_)
    newest_so_far = running_maximum(tombstones.write_number, every, tombstones.row)
    # Row and timestamp as one ascending key. The last tombstone up to a cell's key is the lowest that reaches it.
    timestamps = np.unique(tombstones.timestamp)
    count = len(timestamps)
    keys = tombstones.row * (count + 1) + (count - np.searchsorted(timestamps, tombstones.timestamp))
    cell_keys = cells.row * (count + 1) + (count - np.searchsorted(timestamps, cells.timestamp))
    found = np.searchsorted(keys, cell_keys, side="right") - 1
    in_row = (found >= 0) & (tombstones.row[found] == cells.row)
    return np.where(in_row, newest_so_far[found], -1)


def _columns_where_order_matters(cells: SortedCells, puts: Mask, hit: Mask, versions: int) -> Integers:
    """Returns the columns in which a DELETE_VERSION hides a put and that have more timestamps than `versions`."""
    columns_of_versions = cells.column[puts][cells.at(puts).starts_version()]
    columns, counts = np.unique(columns_of_versions, return_counts=True)
    return np.intersect1d(columns[counts > versions], cells.column[hit])


def _run_machine(
    cells: SortedCells, columns: Integers, family_tombstones: SortedCells, versions: int, live: Mask
) -> None:
    """Sets `live` for the cells of `columns` by running each column through the state machine."""
    members = np.flatnonzero(np.isin(cells.column, columns) & (cells.kind != DELETE_FAMILY))
    live[members] = False
    member_columns = cells.column[members]
    starts, stops = _ranges(member_columns, columns)
    tombstone_starts, tombstone_stops = _ranges(family_tombstones.row, cells.row[members[starts]])
    events = _events(cells.at(members), members)
    family_events = _events(family_tombstones, np.full(len(family_tombstones), -1))
    survivors: list[int] = []
    for start, stop, first, last in zip(
        starts.tolist(), stops.tolist(), tombstone_starts.tolist(), tombstone_stops.tolist(), strict=True
    ):
        survivors += live_versions(events[start:stop] + family_events[first:last], versions)
    live[survivors] = True


def _ranges(ascending: Integers, values: Integers) -> tuple[Integers, Integers]:
    """Returns where each of `values` starts and stops in `ascending`."""
    return np.searchsorted(ascending, values), np.searchsorted(ascending, values, side="right")


def _events(cells: SortedCells, places: Integers) -> list[Event[int]]:
    """Returns the cells as events of the state machine, each identified by its place."""
    columns = (cells.write_number, cells.kind == PUT, -cells.timestamp, cells.kind, places)
    return list(zip(*(column.tolist() for column in columns), strict=True))
