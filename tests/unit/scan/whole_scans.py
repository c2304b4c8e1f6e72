"""Scans of all rows, and the sizes of their answers."""

from __future__ import annotations

from rowlock_regionserver.cells import ReadPoint
from rowlock_regionserver.row_ranges import EVERYTHING
from rowlock_regionserver.scan.ranges import RowsAt

# Bytes of a cell beside its row, family, qualifier and value: a timestamp, and an offset in each of the four columns.
CELL_BYTES = 8 + 4 * 4


def all_rows_at(read_point: ReadPoint) -> tuple[RowsAt, ...]:
    """Returns all rows at one read point."""
    return (RowsAt(EVERYTHING, read_point),)
