"""What visibility's masks leave of a table."""

from __future__ import annotations

import pyarrow as pa
from rowlock_regionserver.arrow.columns import keep
from rowlock_regionserver.arrow.sorted_cells import SortedCells
from rowlock_regionserver.cells import Family, ProtectedReadPoints, ReadPoint
from rowlock_regionserver.versions import visibility_columns as visibility


def visible(table: pa.Table, read_point: ReadPoint, family: Family) -> pa.Table:
    """The cells that a read sees; the table itself when that is all."""
    return keep(table, visibility.visible(table, read_point, family))


def retained(table: pa.Table, spans: ProtectedReadPoints, family: Family) -> pa.Table:
    """The cells that a flush keeps; the table itself when that is all."""
    return keep(table, visibility.retained(SortedCells.of(table), 0, spans=spans, family=family))
