"""Which cells of a whole Arrow table a read sees, and which a flush keeps, as vector operations.

The rules and their reasons stand in `visibility_rows`, whose plain functions give the same for one row; `tombstones`
says how the machine there is vectorised. Tables have the columns of CELL_SCHEMA; the value may be missing, and is never
looked at. They are one family's, in store order, and hold rows whole: for `visible` all cells that any source has of
the row. The answer is a mask: true where a cell stays.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import Integers, Mask
from rowlock_regionserver.arrow.sorted_cells import SortedCells, count_before, spread
from rowlock_regionserver.cells import DELETE_FAMILY, PUT, Family, ProtectedReadPoints, ReadPoint
from rowlock_regionserver.versions.tombstones import live_puts


def visible(table: pa.Table, read_point: ReadPoint, family: Family) -> Mask:
    """Which cells are puts that a read at `read_point` sees: live and not expired.

    Where every cell is a put, seen and alone in its column: 40 M cells/s. Else 5 to 15 M cells/s.
    """
    return visible_of(SortedCells.of(table), read_point, family)


def visible_of(cells: SortedCells, read_point: ReadPoint, family: Family) -> Mask:
    """The same of cells whose keys were taken apart already."""
    published = cells.write_number <= read_point.write_number
    has_tombstones = bool(cells.kind.any())
    if not (cells.has_versions or has_tombstones or family.time_to_live_ms):
        return published
    seen = np.flatnonzero(published)
    left = cells.at(seen)
    if has_tombstones:
        live = np.flatnonzero(live_puts(left, family.versions))
        seen, left = seen[live], left.at(live)
    mask = np.zeros(len(cells), np.bool_)
    mask[seen[_newest_versions(left, read_point.now_ms, family)]] = True
    return mask


def _newest_versions(puts: SortedCells, now_ms: int, family: Family) -> Mask:
    """Of each column the highest `versions` timestamps, of each its newest put, without what has expired."""
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


def retained(cells: SortedCells, family_tombstone: int, *, spans: ProtectedReadPoints, family: Family) -> Mask:
    """Which cells a flush must keep so that every read in one of the spans answers the same.

    A put goes when it is newer than every tombstone that touches its column and no span needs it: it is later than the
    span's last read point, or writes up to its first one hold a newer put of its timestamp, or puts of `versions`
    higher timestamps, which are newer than those tombstones too. `visibility_rows.retained_cells` says why that is
    safe. Where the cells are a part of a row, `family_tombstone` is the write number of the row's newest, or 0.
    """
    needed = np.ones(len(cells), np.bool_)
    if not cells.has_versions:
        return needed
    if not cells.kind.any() and not family_tombstone:
        return _needed(cells, spans, family.versions)
    newer = np.flatnonzero(cells.write_number > np.maximum(_newest_tombstone(cells), family_tombstone))
    needed[newer] = _needed(cells.at(newer), spans, family.versions)
    return needed


def _needed(puts: SortedCells, spans: ProtectedReadPoints, versions: int) -> Mask:
    """Which of the puts some span needs; there is no tombstone between those of one column."""
    starts_column = puts.starts_column()
    starts_version = puts.starts_version()
    needed = np.zeros(len(puts), np.bool_)
    for first, last in spans:
        read_by_all = puts.write_number <= first
        newer_of_timestamp = count_before(read_by_all, starts_version)
        first_read_by_all = read_by_all & (newer_of_timestamp == 0)
        # Counted up to the start of the put's own timestamp: those of higher timestamps only.
        higher = spread(count_before(first_read_by_all, starts_column)[starts_version], starts_version)
        outlived = (newer_of_timestamp > 0) | (higher >= versions)
        needed |= ~outlived & (puts.write_number <= last)
    return needed


def _newest_tombstone(cells: SortedCells) -> Integers:
    """For each cell the greatest write number of a tombstone that touches its column; 0 without one."""
    of_family = _greatest(cells.write_number, cells.kind == DELETE_FAMILY, cells.row)
    return np.maximum(of_family, _greatest(cells.write_number, cells.kind != PUT, cells.column))


def _greatest(values: Integers, marks: Mask, runs: Integers) -> Integers:
    """For each element the greatest marked value of its run, or 0; `runs` numbers the runs from 0 or more on."""
    greatest = np.zeros(int(runs[-1]) + 1, np.int64)
    np.maximum.at(greatest, runs[marks], values[marks])
    return greatest[runs]
