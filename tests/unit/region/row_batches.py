"""Bulk batches of rows for tests, and the same batches as cells."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from rowlock_regionserver.region.bulk.row_batch import RowBatch

from .conftest import bulk_batch

Name = tuple[bytes, bytes]
# A row's key, timestamp or None, and values or None.
Row = tuple[bytes, int | None, Sequence[bytes | None]]
Cell = tuple[bytes, bytes, bytes, int | None, bytes | None]


def row_batch(
    names: Sequence[Name], rows: Sequence[Row], *, nulls_delete: bool = False, fixed: Sequence[int] = ()
) -> RowBatch:
    """Returns the batch; the columns at the places in `fixed` are fixed-size binary, as wide as their first value."""
    columns = []
    for place in range(len(names)):
        values = [of_row[place] for _, _, of_row in rows]
        width = next((len(value) for value in values if value is not None), 0)
        columns.append(pa.array(values, pa.binary(width) if place in fixed else pa.binary()))
    return RowBatch(
        pa.array([row for row, _, _ in rows], pa.binary()),
        pa.array([timestamp for _, timestamp, _ in rows], pa.int64()),
        tuple(names),
        tuple(columns),
        nulls_delete,
    )


def cells_of_rows(names: Sequence[Name], rows: Sequence[Row], *, nulls_delete: bool = False) -> list[Cell]:
    """Returns the cells, in the order of the rows."""
    return [
        (row, family, qualifier, timestamp, value)
        for row, timestamp, values in rows
        for (family, qualifier), value in zip(names, values, strict=True)
        if value is not None or nulls_delete
    ]


def cell_batch(names: Sequence[Name], rows: Sequence[Row], *, nulls_delete: bool = False) -> pa.Table:
    """Returns the same batch as cells, of which there is at least one."""
    return bulk_batch(*cells_of_rows(names, rows, nulls_delete=nulls_delete))
