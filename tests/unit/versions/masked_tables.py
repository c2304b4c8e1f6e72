"""Applies the masks of the rules of visibility and retention to tables."""

from __future__ import annotations

import pyarrow as pa
from rowlock_regionserver.arrow.columns import keep
from rowlock_regionserver.arrow.sorted_cells import SortedCells
from rowlock_regionserver.cells import Family, ReadPoint
from rowlock_regionserver.versions import retention_columns, visibility_columns
from rowlock_regionserver.versions.retention import Retention


def visible(table: pa.Table, read_point: ReadPoint, family: Family) -> pa.Table:
    """Returns the cells that a read sees; the table itself when that is all."""
    return keep(table, visibility_columns.visible(table, read_point, family))


def retained(table: pa.Table, retention: Retention, versions: int) -> pa.Table:
    """Returns the cells to retain; the table itself when that is all."""
    return keep(table, retention_columns.retained(SortedCells.of(table), retention, versions))
