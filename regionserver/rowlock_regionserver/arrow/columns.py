"""Converts Python bytes to Arrow columns and back, through their buffers.

`pa.array(list)`, `Schema.empty_table()` and `to_numpy()` import pandas when it is installed (1.4 s, 120 MB). So the
server builds and reads Arrow arrays by their buffers only: a binary column is n + 1 int32 offsets and the concatenated
bytes.

Writing: `binary_array`, `integer_array`, `boolean_array`, `packed_bits`, `cells_table`.
Reading: `column`, `integers` and `offsets` (numpy views, nothing copied), `unpacked_bits`, `bytes_at`,
`equals_previous`, `run_starts`.
Selecting: `keep` by a numpy mask, `take` by indices, `distinct_of_sorted`, `sorted_distinct`.
`cell_columns.CellColumns` reads single cells as tuples.
Nothing here depends on tombstones or read points. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rowlock_regionserver.cells import CELL_SCHEMA, Cell

Integers = npt.NDArray[np.int64]
SmallIntegers = npt.NDArray[np.int8]
Mask = npt.NDArray[np.bool_]
Column: TypeAlias = "pa.Array[Any]"  # Any: pyarrow's stubs type an array by its scalars

# The places of CELL_SCHEMA's columns.
ROW, QUALIFIER, TIMESTAMP, WRITE_NUMBER, KIND, VALUE = range(6)

# Offsets of a binary column are int32.
BINARY_COLUMN_BYTES_MAX = (1 << 31) - 1


# ---- writing


def binary_array(values: Sequence[bytes]) -> pa.BinaryArray:
    """Returns a binary column of `values`, at most BINARY_COLUMN_BYTES_MAX bytes in total. About 10 M values/s."""
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    return _binary_of(lengths, b"".join(values))


def repeated_binary_array(values: Sequence[bytes], counts: Sequence[int]) -> pa.BinaryArray:
    """Returns a binary column in which values[i] is repeated counts[i] times."""
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    joined = b"".join([value * count for value, count in zip(values, counts, strict=True)])
    return _binary_of(np.repeat(lengths, np.array(counts, np.int64)), joined)


def constant_binary_array(value: bytes, count: int) -> pa.BinaryArray:
    """Returns a binary column of `count` times the same value. Some 1 G elements/s."""
    return _binary_at(np.arange(count + 1, dtype=np.int32) * len(value), value * count)


def _binary_of(lengths: Integers, joined: bytes) -> pa.BinaryArray:
    assert len(joined) <= BINARY_COLUMN_BYTES_MAX, f"a binary column of {len(joined)} bytes"
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return _binary_at(offsets, joined)


def _binary_at(offsets: npt.NDArray[np.int32], joined: bytes) -> pa.BinaryArray:
    buffers = [None, pa.py_buffer(offsets.data), pa.py_buffer(joined)]
    array = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers, null_count=0)
    assert isinstance(array, pa.BinaryArray)
    return array


def integer_array(values: Sequence[int] | npt.NDArray[np.signedinteger], arrow_type: pa.DataType) -> Column:
    """Returns an int64 or int8 column; a numpy array of the same type is not copied."""
    numbers = np.ascontiguousarray(values, np.int8 if arrow_type == pa.int8() else np.int64)
    return pa.Array.from_buffers(arrow_type, len(numbers), [None, pa.py_buffer(numbers.data)], null_count=0)


def boolean_array(mask: Mask) -> pa.BooleanArray:
    """Returns a numpy mask as an Arrow mask."""
    array = pa.Array.from_buffers(pa.bool_(), len(mask), [None, packed_bits(mask)], null_count=0)
    assert isinstance(array, pa.BooleanArray)
    return array


def packed_bits(mask: Mask) -> pa.Buffer:
    """Returns a mask as the bits of an Arrow mask or validity bitmap."""
    return pa.py_buffer(np.packbits(mask, bitorder="little").data)


def cells_table(rows: Sequence[bytes], cells_by_row: Sequence[Sequence[Cell]]) -> pa.Table:
    """Returns a table of CELL_SCHEMA with one chunk; cells_by_row[i] belong to rows[i], in order. 1 to 2 M cells/s."""
    cells = list(chain.from_iterable(cells_by_row))
    if not cells:
        return empty_cells()
    qualifiers, timestamps, write_numbers, kinds, values = zip(*cells, strict=True)
    count = len(cells)
    arrays = [
        repeated_binary_array(rows, list(map(len, cells_by_row))),
        binary_array(qualifiers),
        integer_array(-np.fromiter(timestamps, np.int64, count), pa.int64()),
        integer_array(-np.fromiter(write_numbers, np.int64, count), pa.int64()),
        integer_array(np.fromiter(kinds, np.int8, count), pa.int8()),
        binary_array(values),
    ]
    return pa.Table.from_arrays(arrays, schema=CELL_SCHEMA)


def empty_cells() -> pa.Table:
    """Returns a table of CELL_SCHEMA without cells."""
    return _EMPTY_CELLS


# Not CELL_SCHEMA.empty_table(), which imports pandas.
_EMPTY_CELLS = pa.Table.from_batches([], schema=CELL_SCHEMA)


# ---- reading


def single_chunk(table: pa.Table) -> pa.Table:
    """Returns the table with one chunk a column; the table itself if it has that already, else a copy."""
    if all(table.column(index).num_chunks == 1 for index in range(table.num_columns)):
        return table
    return table.combine_chunks()


def single_chunk_keys(table: pa.Table) -> pa.Table:
    """Returns a table that is not empty, with row, qualifier and timestamp in one chunk; other columns as they are."""
    columns = [
        single_array(chunked) if index in (ROW, QUALIFIER, TIMESTAMP) else chunked
        for index, chunked in enumerate(table.columns)
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)


def single_array(chunked: pa.ChunkedArray[Any]) -> Column:
    """Returns a column of one or more chunks as one array; copied when it has several."""
    return chunked.chunks[0] if chunked.num_chunks == 1 else pa.concat_arrays(chunked.chunks)


def column(table: pa.Table, index: int) -> Column:
    """Returns the column as one array; the table has at most one chunk a column."""
    chunked = table.column(index)
    assert chunked.num_chunks <= 1, f"{chunked.num_chunks} chunks: call single_chunk first"
    if chunked.num_chunks:
        return chunked.chunks[0]
    buffers = [None, pa.py_buffer(bytes(8)), pa.py_buffer(b"")]
    return pa.Array.from_buffers(chunked.type, 0, buffers if chunked.type == pa.binary() else buffers[:2])


def numbers(array: Column, code: Literal["b", "i", "q"], *, one_more: bool = False) -> memoryview:
    """Returns an array's second buffer as numbers of a `struct` code: its values, or with `one_more` its offsets."""
    buffer = array.buffers()[1]
    width = {"b": 1, "i": 4, "q": 8}[code]
    start, stop = array.offset * width, (array.offset + len(array) + one_more) * width
    if buffer is None or buffer.size == 0:  # as in an empty array
        return memoryview(bytes(stop - start)).cast(code)
    return memoryview(buffer)[start:stop].cast(code)


def integers(array: Column) -> Integers:
    """Returns a read-only view of an int64 column, without a copy."""
    assert array.type == pa.int64(), f"a column of {array.type}"
    return np.frombuffer(numbers(array, "q"), np.int64)


def kinds(array: Column) -> SmallIntegers:
    """Returns a read-only view of an int8 column, without a copy."""
    assert array.type == pa.int8(), f"a column of {array.type}"
    return np.frombuffer(numbers(array, "b"), np.int8)


def offsets(array: Column) -> npt.NDArray[np.int32]:
    """Returns a read-only view of a binary column's len + 1 offsets into its data buffer. The first may not be 0."""
    assert array.type == pa.binary(), f"a column of {array.type}"
    return np.frombuffer(numbers(array, "i", one_more=True), np.int32)


def bytes_at(array: Column | pa.ChunkedArray[Any], index: int) -> bytes:
    """Returns one value of a binary column, which is not null; -1 is the last one."""
    value = array[index].as_py()
    assert isinstance(value, bytes)
    return value


def equals_previous(array: Column) -> Mask:
    """Returns for each element whether it equals the previous one; false for the first. About 200 M elements/s."""
    equal = np.zeros(len(array), np.bool_)
    if len(array) > 1:
        packed = pc.equal(array.slice(1), array.slice(0, len(array) - 1))
        bits = packed.buffers()[1]
        assert bits is not None, "pc.equal gave an array without values"
        assert packed.offset == 0, f"pc.equal gave an array with offset {packed.offset}"
        equal[1:] = unpacked_bits(bits, len(packed))
    return equal


def unpacked_bits(bits: pa.Buffer, count: int, offset: int = 0) -> Mask:
    """Returns `count` bits of an Arrow mask or validity bitmap, from `offset` on."""
    unpacked = np.unpackbits(np.frombuffer(memoryview(bits), np.uint8), count=offset + count, bitorder="little")
    return unpacked[offset:].view(np.bool_)


def distinct_of_sorted(array: Column) -> Column:
    """Returns each element of an ascending column once."""
    return array.filter(boolean_array(~equals_previous(array)))


def sorted_distinct(array: Column | pa.ChunkedArray[Any]) -> Column:
    """Returns each element of a column once, ascending."""
    distinct: Column = pc.call_function("unique", [array])
    return distinct.take(pc.call_function("array_sort_indices", [distinct]))


def run_starts(equal: Mask) -> Integers:
    """Returns the places where runs of equal elements start, from a mask of `equals_previous`."""
    return np.flatnonzero(~equal)


def take(table: pa.Table, indices: Integers) -> pa.Table:
    """Returns the table's rows at `indices`, in their order."""
    return table.take(integer_array(indices, pa.int64()))


def keep(table: pa.Table, mask: Mask) -> pa.Table:
    """Returns the table's rows where `mask` is true; the table itself when it is true everywhere."""
    return table if mask.all() else table.filter(boolean_array(mask))
