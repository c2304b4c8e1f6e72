"""Applies the masks of the visibility rules to tables."""

from __future__ import annotations

import pyarrow as pa
from rowlock_regionserver.arrow.columns import keep
from rowlock_regionserver.arrow.sorted_cells import SortedCells
from rowlock_regionserver.cells import Family, ProtectedReadPoints, ReadPoint
from rowlock_regionserver.versions import visibility_columns as visibility


def visible(table: pa.Table, read_point: ReadPoint, family: Family) -> pa.Table:
    """Returns the cells that a read sees; the table itself when that is all."""
    return keep(table, visibility.visible(table, read_point, family))


def retained(table: pa.Table, protected: ProtectedReadPoints, family: Family) -> pa.Table:
    """Returns the cells that a flush retains; the table itself when that is all."""
    return keep(table, visibility.retained(SortedCells.of(table), 0, protected=protected, family=family))
