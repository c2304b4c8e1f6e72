"""The two forms of a bulk batch: cells, and rows in wide form. No I/O.

cells: BULK_SCHEMA, one line a cell. rows: the columns `row`, `timestamp`, and "0", "1", ... for the table's columns in
order, one line a row, see BulkRows in region.proto. Both give the same result, and rows become cells if a server does
not know them: the values of N rows and C columns lie column by column in one array, and taking them row by row gives
cells in the order of the rows. So sorted rows give sorted cells. Neither way loops over cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from rowlock_proto.v1 import region_pb2

from rowlock._codec.arrow_buffers import (
    BINARY_BYTES_MAX,
    Array,
    Bools,
    as_binary,
    bitmap_of,
    bools_of,
    cells_schema,
    int64_array,
    names_array,
    primitive_array,
)

# The schema of BulkBatch.arrow. A null timestamp means the server's clock; a null value is a delete.
BULK_SCHEMA = cells_schema(nullable=("timestamp", "value"))


@dataclass(frozen=True, slots=True)
class BulkCells:
    """A batch of cells, of BULK_SCHEMA."""

    batch: pa.RecordBatch

    @property
    def keys(self) -> Array:
        """The row of each cell."""
        return self.batch.column("row")

    def filter(self, is_kept: Array) -> BulkCells:
        """Returns the cells for which a boolean array is true."""
        return BulkCells(self.batch.filter(is_kept))

    def cells(self) -> pa.RecordBatch:
        return self.batch


@dataclass(frozen=True, slots=True)
class BulkRows:
    """A batch of rows in wide form. Each row has a cell at least: a value, or a delete.

    columns: family and qualifier of the columns "0", "1", ... nulls_delete: whether a null deletes its column, or is
    no cell.
    """

    columns: tuple[tuple[bytes, bytes], ...]
    batch: pa.RecordBatch
    nulls_delete: bool

    @property
    def keys(self) -> Array:
        """The key of each row."""
        return self.batch.column("row")

    def filter(self, is_kept: Array) -> BulkRows:
        """Returns the rows for which a boolean array is true."""
        return BulkRows(self.columns, self.batch.filter(is_kept), self.nulls_delete)

    def cells(self) -> pa.RecordBatch:
        """Returns the cells of the rows, in the order of the rows. Raises OverflowError beyond 2 GiB."""
        from rowlock._codec.late_compute import compute as pc

        row_count, column_count = self.batch.num_rows, len(self.columns)
        # Cell i, row by row, has row i // C and column i % C; its value is at (i % C) * N + i // C.
        cell = np.arange(row_count * column_count, dtype=np.int64)
        row_of, column_of = cell // column_count, cell % column_count
        value_at = column_of * row_count + row_of
        values = pa.concat_arrays([as_binary(column) for column in self.batch.columns[2:]])
        if values.null_count and not self.nulls_delete:
            is_present = bools_of(values.is_valid())[value_at]
            row_of, column_of, value_at = row_of[is_present], column_of[is_present], value_at[is_present]
        families = names_array([family for family, _ in self.columns])
        qualifiers = names_array([qualifier for _, qualifier in self.columns])
        rows, place = int64_array(row_of), int64_array(column_of)
        arrays = [
            pc.take(self.keys, rows),
            pc.take(families, place),
            pc.take(qualifiers, place),
            pc.take(self.batch.column("timestamp"), rows),
            pc.take(values, int64_array(value_at)),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=BULK_SCHEMA)


BulkData = BulkCells | BulkRows


def bulk_rows(
    columns: Sequence[tuple[bytes, bytes]],
    keys: Array,
    values: Sequence[Array],
    timestamps: Array,
    *,
    nulls_delete: bool,
) -> BulkRows:
    """Returns rows with these keys and values, binary or fixed-size binary; leaves out rows without any cell.

    timestamps: int64, of each row's cells; null: the server's clock. Raises OverflowError beyond 2 GiB.
    """
    if sum(array.nbytes for array in (keys, *values)) > BINARY_BYTES_MAX:
        raise OverflowError("can't convert a batch of more than 2 GiB; use smaller batches")
    arrays = [keys, timestamps, *values]
    fields: list[pa.Field[Any]] = [pa.field("row", pa.binary(), nullable=False), pa.field("timestamp", pa.int64())]
    fields += [pa.field(str(place), array.type) for place, array in enumerate(values)]
    rows = BulkRows(tuple(columns), pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)), nulls_delete)
    if nulls_delete or any(array.null_count == 0 for array in values):
        return rows
    has_cell = _has_value(values)
    kept: Array = pa.Array.from_buffers(pa.bool_(), len(keys), [None, bitmap_of(has_cell)])
    return rows if bool(has_cell.all()) else rows.filter(kept)


def fill_arrow(message: region_pb2.BulkRows, batch: pa.RecordBatch) -> None:
    """Sets the Arrow bytes of a message of few rows, uncompressed."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    message.arrow, message.uncompressed_bytes = sink.getvalue().to_pybytes(), batch.nbytes


def timestamps_array(count: int, timestamp: int | None) -> Array:
    """Returns the timestamp for each of `count` lines; nulls if it is None."""
    if timestamp is None:
        return primitive_array(pa.int64(), np.zeros(count, np.int64), np.zeros(count, np.bool_))
    return int64_array(np.full(count, timestamp, np.int64))


def _has_value(values: Sequence[Array]) -> Bools:
    """Returns which lines have a value in some column. At least one column, each with nulls."""
    has_value = bools_of(values[0].is_valid())
    for array in values[1:]:
        has_value |= bools_of(array.is_valid())
    return has_value
