"""Arrow arrays made from numpy buffers and taken apart again.

`pa.array` on Python objects imports pandas where it is installed, 1.4 s and 120 MB that nobody asked for; these
functions don't. None of them loops over elements in Python.
"""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Array: TypeAlias = "pa.Array[Any]"  # Any: pyarrow's stubs type an array by its scalars
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

# Offsets of binary arrays are 32 bits.
BINARY_BYTES_MAX = (1 << 31) - 1


def int64_array(values: npt.NDArray[np.integer]) -> Array:
    """Without nulls."""
    whole = np.ascontiguousarray(values, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(whole), [None, pa.py_buffer(whole.data)])


def primitive_array(kind: pa.DataType, values: npt.NDArray[np.generic], is_valid: Bools | None) -> Array:
    """An array of a fixed-width type from its memory; is_valid None: without nulls."""
    return pa.Array.from_buffers(kind, len(values), [validity(is_valid), buffer_of(values)])


def binary_array(offsets: npt.NDArray[np.integer], data: pa.Buffer, is_valid: Bools | None = None) -> Array:
    """From len + 1 ascending offsets into the data; raises OverflowError beyond 2 GiB."""
    if int(offsets[-1]) > BINARY_BYTES_MAX:
        raise OverflowError(f"{int(offsets[-1])} bytes are too many for one Arrow array; use smaller batches")
    narrow = np.ascontiguousarray(offsets, np.int32)
    return pa.Array.from_buffers(pa.binary(), len(narrow) - 1, [validity(is_valid), pa.py_buffer(narrow.data), data])


def binary_scalar(value: bytes) -> pa.BinaryScalar:
    """One value. (`pa.scalar` would import pandas.)"""
    scalar: pa.BinaryScalar = binary_array(np.array([0, len(value)], np.int64), pa.py_buffer(value))[0]
    return scalar


def fixed_binary_array(values: npt.NDArray[np.generic], width: int, is_valid: Bools | None) -> Array:
    """Each element's memory as `width` bytes."""
    offsets = np.arange(0, len(values) * width + 1, width, dtype=np.int64)
    if len(values) == 0:
        offsets = np.zeros(1, np.int64)
    return binary_array(offsets, buffer_of(values), is_valid)


def names_array(names: list[bytes]) -> Array:
    """A few short values; O(values) in Python."""
    offsets = np.cumsum([0, *map(len, names)], dtype=np.int64)
    return binary_array(offsets, pa.py_buffer(b"".join(names)))


def validity(is_valid: Bools | None) -> pa.Buffer | None:
    """A validity bitmap; None when all are valid."""
    if is_valid is None or bool(is_valid.all()):
        return None
    return buffer_of(np.packbits(is_valid, bitorder="little"))


def valid_of(array: Array) -> Bools | None:
    """Which elements are not null; None: all."""
    if array.null_count == 0:
        return None
    return bools_of(array.is_valid())


def values_of(array: Array, dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
    """The memory of a fixed-width array, as dtype, without copying; what stands under nulls is anything."""
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return np.empty(0, dtype)
    width = np.dtype(dtype).itemsize
    return np.frombuffer(memoryview(data), dtype, count=len(array), offset=array.offset * width)


def offsets_of(array: Array) -> Ints:
    """The len + 1 offsets of a binary array into `data_of`."""
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return np.zeros(len(array) + 1, np.int64)
    return np.frombuffer(memoryview(data), np.int32, count=len(array) + 1, offset=array.offset * 4).astype(np.int64)


def data_of(array: Array) -> npt.NDArray[np.uint8]:
    data = array.buffers()[2]
    return np.empty(0, np.uint8) if data is None else np.frombuffer(memoryview(data), np.uint8)


def slices_of(array: Array, starts: Ints, lengths: Ints) -> Array:
    """Of each element the `lengths` bytes from `starts` on (both relative to it and inside it). O(bytes)."""
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    begins = offsets_of(array)[:-1] + starts
    # Byte i of the result lies at (begin of its slice) + (i - offset of its slice).
    places = np.repeat(begins - offsets[:-1], lengths) + np.arange(int(offsets[-1]))
    return binary_array(offsets, buffer_of(data_of(array)[places]), valid_of(array))


def lengths_of(array: Array) -> Ints:
    return np.diff(offsets_of(array))


def bools_of(array: Array) -> Bools:
    """The elements of a boolean array; what stands under nulls is anything. (`to_numpy` would import pandas.)"""
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return np.zeros(len(array), np.bool_)
    bits = np.unpackbits(np.frombuffer(memoryview(data), np.uint8), bitorder="little", count=array.offset + len(array))
    return cast(Bools, bits[array.offset :].astype(np.bool_))


def one_array(column: pa.ChunkedArray[Any] | Array) -> Array:
    """A table's column as one array; nothing is copied if it is one chunk."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    chunks: list[Array] = column.chunks
    if len(chunks) == 1:
        return chunks[0]
    return pa.concat_arrays(chunks) if chunks else cast(Array, pa.nulls(0, column.type))


def first_places(array: Array, pattern: bytes) -> Ints:
    """Where the pattern first stands in each element, -1 where it doesn't. The elements are not null."""
    import pyarrow.compute as pc

    # The stubs only know text.
    found: Array = pc.find_substring(array, pattern)  # type: ignore[call-overload]
    return values_of(found, np.int32).astype(np.int64)


def joined(*parts: Array | bytes) -> Array:
    """The parts of each element, end to end; bytes stand for themselves in every element."""
    import pyarrow.compute as pc

    # Any: the stubs don't know that arrays and scalars can be mixed.
    columns: list[Any] = [binary_scalar(part) if isinstance(part, bytes) else part for part in parts]
    result: Array = pc.binary_join_element_wise(*columns, binary_scalar(b""))
    return result


def buffer_of(values: npt.NDArray[Any]) -> pa.Buffer:
    """The memory of an array, copied only if it has gaps."""
    return pa.py_buffer(np.ascontiguousarray(values).data)


def cells_schema(nullable: tuple[str, ...]) -> pa.Schema:
    """The schema of cells as they travel: row, family, qualifier, timestamp, value."""
    types: dict[str, pa.DataType] = {
        "row": pa.binary(),
        "family": pa.binary(),
        "qualifier": pa.binary(),
        "timestamp": pa.int64(),
        "value": pa.binary(),
    }
    return pa.schema([pa.field(name, kind, nullable=name in nullable) for name, kind in types.items()])
