"""Which cells of a whole Arrow table a read sees, and which a flush retains, as vector operations.

visibility.py has the rules, their reasons, and functions with the same results for one row. tombstones.py describes how
its state machine is vectorised. Tables have the columns of CELL_SCHEMA; the value may be missing, and is never read.
They hold whole rows of one family, in store order; for `visible` all cells that any source has of the row. The results
are masks, true for the cells that are visible or retained.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import Integers, Mask
from rowlock_regionserver.arrow.sorted_cells import SortedCells, count_before, spread
from rowlock_regionserver.cells import DELETE_FAMILY, PUT, Family, ProtectedReadPoints, ReadPoint
from rowlock_regionserver.versions.tombstones import live_puts


def visible(table: pa.Table, read_point: ReadPoint, family: Family) -> Mask:
    """Returns which cells are puts that a read at `read_point` sees: live and not expired.

    40 M cells/s if every cell is a visible put and the only one of its column, else 5 to 15 M cells/s.
    """
    return visible_of(SortedCells.of(table), read_point, family)


def visible_of(cells: SortedCells, read_point: ReadPoint, family: Family) -> Mask:
    """Returns which cells a read at `read_point` sees, like `visible`, from keys that are SortedCells already."""
    published = cells.write_number <= read_point.write_number
    has_tombstones = bool(cells.kind.any())
    if not (cells.has_versions or has_tombstones or family.time_to_live_ms):
        return published
    seen = np.flatnonzero(published)
    puts = cells.at(seen)
    if has_tombstones:
        live = np.flatnonzero(live_puts(puts, family.versions))
        seen, puts = seen[live], puts.at(live)
    mask = np.zeros(len(cells), np.bool_)
    mask[seen[_newest_versions(puts, read_point.now_ms, family)]] = True
    return mask


def _newest_versions(puts: SortedCells, now_ms: int, family: Family) -> Mask:
    """Returns the newest put of each of a column's highest `versions` timestamps, without expired ones."""
    starts_column = puts.starts_column()
    if family.versions == 1:
        newest, place = starts_column, None
    else:
        starts_version = puts.starts_version()
        place = count_before(starts_version, starts_column)
        newest = starts_version & (place < family.versions)
    if not family.time_to_live_ms:
        return newest
    alive = puts.timestamp > now_ms - family.time_to_live_ms
    if family.min_versions:
        alive |= starts_column if place is None else place < family.min_versions
    return newest & alive


def retained(cells: SortedCells, family_tombstone: int, *, protected: ProtectedReadPoints, family: Family) -> Mask:
    """Returns which cells a flush must retain so that reads at protected read points keep their answers.

    A put is dropped when it is newer than every tombstone that touches its column and no range of protected read points
    needs it. A range does not need a put that is newer than its last read point, nor a put for which writes up to its
    first read point include a newer put of the same timestamp, or puts of `versions` higher timestamps that are newer
    than those tombstones too. `visibility.retained_cells` says why this is safe. If the cells are a part of a row,
    `family_tombstone` is the write number of the row's newest family tombstone, else 0.
    """
    needed = np.ones(len(cells), np.bool_)
    if not cells.has_versions:
        return needed
    if not cells.kind.any() and not family_tombstone:
        return _needed(cells, protected, family.versions)
    newer = np.flatnonzero(cells.write_number > np.maximum(_newest_tombstone(cells), family_tombstone))
    needed[newer] = _needed(cells.at(newer), protected, family.versions)
    return needed


def _needed(puts: SortedCells, protected: ProtectedReadPoints, versions: int) -> Mask:
    """Returns which puts protected read points need; there is no tombstone between those of one column."""
    starts_column = puts.starts_column()
    starts_version = puts.starts_version()
    needed = np.zeros(len(puts), np.bool_)
    for first, last in protected:
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
