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


def are_dense(parts: Sequence[Sequence[Column]]) -> bool:
    """Returns whether lines with these columns, in parts, are dense, and one binary column can hold their values."""
    types = [column.type for column in parts[0]]
    return (
        all(map(pa.types.is_fixed_size_binary, types))
        and all([column.type for column in columns] == types for columns in parts[1:])
        and not any(column.null_count for columns in parts for column in columns)
        and sum([each.byte_width for each in types]) * _count(parts) <= BINARY_COLUMN_BYTES_MAX
    )


def dense_cells(
    rows: Column,
    timestamps: Integers,
    write_numbers: Integers,
    qualifiers: Sequence[bytes],
    parts: Sequence[Sequence[Column]],
) -> pa.Table:
    """Returns the cells of dense lines as a table of CELL_SCHEMA.

    The numbers have the shape that those of Lines have; `parts` are the columns of the lines, in parts.
    """
    count, width = len(rows), len(qualifiers)
    qualifier_stops = _stops(count, list(map(len, qualifiers)))
    of_cells = [np.broadcast_to(numbers, (width, count)).T.ravel() for numbers in (timestamps, write_numbers)]
    arrays = [
        rows.take(integer_array(np.repeat(np.arange(count), width), pa.int64())),
        _binary(qualifier_stops, pa.py_buffer(b"".join(qualifiers) * count)),
        *[integer_array(numbers, pa.int64()) for numbers in of_cells],
        integer_array(np.full(count * width, PUT, np.int8), pa.int8()),
        _values(parts),
    ]
    return pa.Table.from_arrays(arrays, schema=CELL_SCHEMA)


def _values(parts: Sequence[Sequence[Column]]) -> Column:
    """Returns the values as one binary column, line by line."""
    widths = [column.type.byte_width for column in parts[0]]
    # A field for each column that has bytes.
    record = np.dtype([(str(place), f"V{width}") for place, width in enumerate(widths) if width])
    records = np.empty(_count(parts), record)
    start = 0
    for columns in parts:
        count = len(columns[0])
        for place, (column, width) in enumerate(zip(columns, widths, strict=True)):
            if width:
                data = memoryview(column.buffers()[1] or b"")[column.offset * width : (column.offset + count) * width]
                records[str(place)][start : start + count] = np.frombuffer(data, f"V{width}")
        start += count
    values = pa.py_buffer(records.view(np.uint8).data if record.itemsize else b"")
    return _binary(_stops(len(records), widths), values)


def _count(parts: Sequence[Sequence[Column]]) -> int:
    return sum([len(columns[0]) for columns in parts])


def _stops(line_count: int, widths: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """Returns the offsets of values that have these lengths in each line."""
    ends = np.cumsum(widths)
    stops = np.zeros(line_count * len(widths) + 1, np.int32)
    stops[1:] = np.add.outer(np.arange(line_count) * ends[-1], ends).ravel()
    return stops


def _binary(stops: np.ndarray[tuple[int], np.dtype[np.int32]], data: pa.Buffer) -> Column:
    return pa.Array.from_buffers(pa.binary(), len(stops) - 1, [None, pa.py_buffer(stops.data), data])
