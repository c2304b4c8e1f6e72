"""Which cells of a whole Arrow table a read sees, as vector operations.

visibility.py has the rules, their reasons, and functions with the same results for one row. tombstones.py describes how
its state machine is vectorised. Tables have the columns of CELL_SCHEMA; the value may be missing, and is never read.
They hold whole rows of one family, in store order, with all cells that any source has of them. The results are masks,
true for the cells that are visible.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import Mask
from rowlock_regionserver.arrow.sorted_cells import SortedCells, count_before
from rowlock_regionserver.cells import NEWEST, Family, ReadPoint
from rowlock_regionserver.versions.past_limits import alters
from rowlock_regionserver.versions.tombstones import live_puts

_AT_THE_END = ReadPoint(NEWEST, 0)


def visible(table: pa.Table, read_point: ReadPoint, family: Family) -> Mask:
    """Returns which cells are puts that a read at `read_point` sees: live and not expired.

    40 M cells/s if every cell is a visible put and the only one of its column, else 5 to 15 M cells/s.
    """
    return visible_of(SortedCells.of(table), read_point, family)


def visible_of(cells: SortedCells, read_point: ReadPoint, family: Family) -> Mask:
    """Returns which cells a read at `read_point` sees, like `visible`, from keys that are SortedCells already."""
    if not (cells.has_versions or cells.kind.any() or family.time_to_live_ms or family.past):
        return cells.write_number <= read_point.write_number
    return _visible_at(cells, read_point, family)


def live_at(cells: SortedCells, write_number: int, family: Family) -> Mask:
    """Returns which cells are live puts after the writes up to `write_number`: visible, but for the time to live."""
    return _visible_at(cells, ReadPoint(write_number, 0), replace(family.as_of(write_number), time_to_live_ms=0))


def _visible_at(cells: SortedCells, read_point: ReadPoint, family: Family) -> Mask:
    if not family.past:
        return _visible_among(cells, read_point, family)
    family = family.as_of(read_point.write_number)
    mask = after_alters(cells, family)
    mask[mask] = _visible_among(cells.at(mask), read_point, family)
    return mask


def after_alters(cells: SortedCells, family: Family) -> Mask:
    """Returns which cells are newer than the family's past alters, or are puts that these leave."""
    mask = np.ones(len(cells), np.bool_)
    for limits in alters(family):
        places = np.flatnonzero(mask & (cells.write_number < limits.write_number))
        if not len(places):
            continue
        before = cells.at(places)
        live = _visible_among(before, _AT_THE_END, Family(0, b"", limits.versions))
        mask[places] = live & (before.timestamp > limits.gone_through)
    return mask


def _visible_among(cells: SortedCells, read_point: ReadPoint, family: Family) -> Mask:
    """Returns which cells a read sees if all were written under the limits that the family has now."""
    seen = np.flatnonzero(cells.write_number <= read_point.write_number)
    puts = cells.at(seen)
    if puts.kind.any():
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
