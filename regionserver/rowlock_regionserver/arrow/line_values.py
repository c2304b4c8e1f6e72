"""Columns of lines: values as binary or fixed-size binary, and nulls where a line has no cell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import Column, Integers, Mask, offsets, packed_bits, unpacked_bits
from rowlock_regionserver.cells import CELL_BYTES_BESIDE

_OFFSET_BYTES = 4
_OFFSET_MAX = (1 << 31) - 1  # of a binary column of Arrow


def is_present(column: Column) -> Mask:
    """Returns which values of a column are not null."""
    bitmap = column.buffers()[0]
    if column.null_count == 0 or bitmap is None:
        return np.ones(len(column), np.bool_)
    return unpacked_bits(bitmap, len(column), column.offset)


def bitmap_of(mask: Mask) -> pa.Buffer | None:
    """Returns a validity bitmap; None if everything is valid."""
    return None if mask.all() else packed_bits(mask)


def value_lengths(column: Column) -> Integers:
    """Returns the length of each value; 0 for a null."""
    lengths: Integers
    if pa.types.is_fixed_size_binary(column.type):
        lengths = is_present(column) * np.int64(column.type.byte_width)
        return lengths
    lengths = np.diff(offsets(column)).astype(np.int64)
    # A writer other than ourselves may leave bytes under a null.
    return lengths * is_present(column) if column.null_count else lengths


def may_be_fixed_size(width: int, value_count: int, line_count: int) -> bool:
    """Returns whether `value_count` values of one length, and nulls on all other lines, may be fixed-size binary.

    A null takes as many bytes as a value there. So one long value among many nulls would take very much memory.
    """
    return width * line_count <= 2 * (width * value_count + _OFFSET_BYTES * line_count)


def without_bytes_below_nulls(column: Column) -> Column:
    """Returns the column without any bytes where it is null; itself, uncopied, if there are none."""
    if not column.null_count:
        return column
    present = is_present(column)
    if pa.types.is_fixed_size_binary(column.type):
        width = column.type.byte_width
        data = np.frombuffer(memoryview(column.buffers()[1] or b""), np.uint8)
        below = data[column.offset * width :][: len(column) * width].reshape(-1, width)[~present]
    else:
        below = np.diff(offsets(column))[~present]
    return _spread(column, present) if below.any() else column


def with_few_bytes_of_nulls(column: Column) -> Column:
    """Returns the column in its variable form if it is fixed-size binary and its nulls take too many bytes."""
    count = len(column) - column.null_count
    if not pa.types.is_fixed_size_binary(column.type) or may_be_fixed_size(column.type.byte_width, count, len(column)):
        return column
    return _spread(column, is_present(column))


def _spread(column: Column, present: Mask) -> Column:
    return spread_values(as_binary(column.drop_null()), np.flatnonzero(present), len(column))


def cell_bytes(rows: Column, qualifiers: Sequence[bytes], columns: Sequence[Column]) -> Integers:
    """Returns the bytes of each line's cells, counted as those of a table of CELL_SCHEMA."""
    row_bytes = np.diff(offsets(rows)).astype(np.int64)
    total = np.zeros(len(rows), np.int64)
    for qualifier, column in zip(qualifiers, columns, strict=True):
        beside = row_bytes + (len(qualifier) + CELL_BYTES_BESIDE)
        if column.null_count:
            beside = beside * is_present(column)
        total += beside + value_lengths(column)
    return total


def cell_bytes_of_all(rows: Column, qualifiers: Sequence[bytes], columns: Sequence[Column]) -> int:
    """Returns the sum of `cell_bytes`. Does not look at single values of a column without nulls."""
    with_nulls = [place for place, column in enumerate(columns) if column.null_count]
    total = (len(columns) - len(with_nulls)) * _byte_count(rows)
    if with_nulls:
        some = cell_bytes(rows, [qualifiers[place] for place in with_nulls], [columns[place] for place in with_nulls])
        total += int(some.sum())
    for qualifier, column in zip(qualifiers, columns, strict=True):
        if not column.null_count:
            total += _byte_count(column) + len(rows) * (len(qualifier) + CELL_BYTES_BESIDE)
    return total


def _byte_count(column: Column) -> int:
    """Returns the bytes of all values of a column without nulls."""
    if pa.types.is_fixed_size_binary(column.type):
        return len(column) * int(column.type.byte_width)
    bounds = offsets(column)
    return int(bounds[-1] - bounds[0])


def as_binary(column: Column) -> Column:
    """Returns a column in its variable form. Values that fill their buffer are not copied."""
    if column.type == pa.binary():
        return column
    width, data = int(column.type.byte_width), column.buffers()[1]
    if not width or column.null_count or data is None or not len(column) * width == data.size <= _OFFSET_MAX:
        return column.cast(pa.binary())
    bounds = np.arange(0, data.size + 1, width, dtype=np.int32)
    array: Column = pa.Array.from_buffers(pa.binary(), len(column), [None, pa.py_buffer(bounds.data), data])
    return array


def fixed_size(width: int, count: int, present: Mask | None, data: pa.Buffer) -> Column:
    """Returns a column whose values have one length, from `count` * `width` bytes."""
    bitmap = None if present is None else bitmap_of(present)
    array: Column = pa.Array.from_buffers(pa.binary(width), count, [bitmap, data])
    return array


def spread_values(values: Column, lines: Integers, line_count: int) -> Column:
    """Returns a column with the binary `values` on `lines`, which ascend, and nulls on all others.

    It is fixed-size binary if all values have one length, unless the nulls would take too many bytes.
    """
    present = None
    if len(values) < line_count:
        present = np.zeros(line_count, np.bool_)
        present[lines] = True
    bounds = offsets(values)
    lengths = np.diff(bounds)
    data = values.buffers()[2] or pa.py_buffer(b"")
    width = int(lengths[0]) if len(lengths) else 0
    if width and (lengths == width).all() and may_be_fixed_size(width, len(values), line_count):
        data = data.slice(int(bounds[0]), width * len(values))
        if present is not None:
            spread = np.zeros((line_count, width), np.uint8)
            spread[lines] = np.frombuffer(memoryview(data), np.uint8).reshape(-1, width)
            data = pa.py_buffer(spread.data)
        return fixed_size(width, line_count, present, data)
    if present is not None:
        before = np.zeros(line_count + 1, np.int64)
        np.cumsum(present, out=before[1:])
        bounds = bounds[before]
    bitmap = None if present is None else bitmap_of(present)
    array: Column = pa.Array.from_buffers(pa.binary(), line_count, [bitmap, pa.py_buffer(bounds.data), data])
    return array


def concatenated_column(parts: Sequence[Column | None], counts: Sequence[int]) -> Column:
    """Returns a column of several parts; None stands for that many nulls.

    It is binary if the parts have different forms, or if the nulls would take too many bytes in a fixed-size one.
    """
    types = {part.type for part in parts if part is not None}
    of_type = types.pop() if len(types) == 1 else pa.binary()
    if pa.types.is_fixed_size_binary(of_type):
        value_count = sum([len(part) for part in parts if part is not None])
        if not may_be_fixed_size(of_type.byte_width, value_count, sum(counts)):
            of_type = pa.binary()
    return pa.concat_arrays(
        [
            pa.nulls(count, of_type) if part is None else part if part.type == of_type else as_binary(part)
            for part, count in zip(parts, counts, strict=True)
        ]
    )
