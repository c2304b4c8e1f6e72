"""Makes the cells of dense lines: one line a row, no absent cell, and values of one length in each column.

Then the cells of each line have the same places in its bytes, so the values are copied column by column into an array
of records, without an index for each cell. 3 times as fast as to take them one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import BINARY_COLUMN_BYTES_MAX, Column, Integers, integer_array
from rowlock_regionserver.cells import CELL_SCHEMA, PUT


def are_dense(columns: Sequence[Column]) -> bool:
    """Returns whether no value is absent, each column has values of one length, and one column can hold them all."""
    return all(pa.types.is_fixed_size_binary(column.type) and not column.null_count for column in columns) and (
        sum([column.type.byte_width for column in columns]) * len(columns[0]) <= BINARY_COLUMN_BYTES_MAX
    )


def dense_cells(
    rows: Column, timestamps: Integers, write_numbers: Integers, qualifiers: Sequence[bytes], columns: Sequence[Column]
) -> pa.Table:
    """Returns the cells of dense lines as a table of CELL_SCHEMA; the numbers are those of the cells in their order."""
    count, width = len(rows), len(columns)
    qualifier_stops = _stops(count, list(map(len, qualifiers)))
    arrays = [
        rows.take(integer_array(np.repeat(np.arange(count), width), pa.int64())),
        _binary(qualifier_stops, pa.py_buffer(b"".join(qualifiers) * count)),
        integer_array(timestamps, pa.int64()),
        integer_array(write_numbers, pa.int64()),
        integer_array(np.full(count * width, PUT, np.int8), pa.int8()),
        _values(columns),
    ]
    return pa.Table.from_arrays(arrays, schema=CELL_SCHEMA)


def _values(columns: Sequence[Column]) -> Column:
    """Returns the values as one binary column, line by line."""
    count = len(columns[0])
    widths = [column.type.byte_width for column in columns]
    # A field for each column that has bytes.
    record = np.dtype([(str(place), f"V{width}") for place, width in enumerate(widths) if width])
    records = np.empty(count, record)
    for place, (column, width) in enumerate(zip(columns, widths, strict=True)):
        if width:
            data = memoryview(column.buffers()[1] or b"")[column.offset * width : (column.offset + count) * width]
            records[str(place)] = np.frombuffer(data, f"V{width}")
    return _binary(_stops(count, widths), pa.py_buffer(records.view(np.uint8).data if record.itemsize else b""))


def _stops(line_count: int, widths: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """Returns the offsets of values that have these lengths in each line."""
    ends = np.cumsum(widths)
    stops = np.zeros(line_count * len(widths) + 1, np.int32)
    stops[1:] = np.add.outer(np.arange(line_count) * ends[-1], ends).ravel()
    return stops


def _binary(stops: np.ndarray[tuple[int], np.dtype[np.int32]], data: pa.Buffer) -> Column:
    return pa.Array.from_buffers(pa.binary(), len(stops) - 1, [None, pa.py_buffer(stops.data), data])
