"""Converts between Arrow arrays and numpy buffers.

`pa.array` and `pa.scalar` of Python objects import pandas if it is installed, which costs 1.4 s and 120 MB. These
functions don't import it, and don't loop over elements in Python.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Array: TypeAlias = "pa.Array[Any]"  # Any: pyarrow's stubs type an array by its scalars
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Bytes: TypeAlias = npt.NDArray[np.uint8]

_DTYPES: dict[pa.DataType, npt.DTypeLike] = {
    pa.int8(): np.int8,
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.float32(): np.float32,
    pa.float64(): np.float64,
}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICRO = datetime.timedelta(microseconds=1)
# More digits than a decimal has, so that nothing is rounded.
_EXACT = Context(prec=400)
# Offsets of binary arrays are 32 bits.
BINARY_BYTES_MAX = (1 << 31) - 1
# Offsets of more elements than that are not kept.
_KEPT_OFFSETS_MAX = 1 << 16


def int64_array(values: npt.NDArray[np.integer]) -> Array:
    """Returns an int64 array without nulls."""
    contiguous = np.ascontiguousarray(values, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(contiguous), [None, pa.py_buffer(contiguous.data)])


def primitive_array(kind: pa.DataType, values: npt.NDArray[np.generic], is_valid: Bools | pa.Buffer | None) -> Array:
    """Returns an array of a fixed-width type with this memory.

    is_valid: which elements are not null, also as a bitmap; None: all.
    """
    return pa.Array.from_buffers(kind, len(values), [validity(is_valid), buffer_of(values)])


def binary_array(offsets: npt.NDArray[np.integer], data: pa.Buffer, is_valid: Bools | None = None) -> Array:
    """Returns a binary array from len + 1 ascending offsets into data. Raises OverflowError beyond 2 GiB."""
    if int(offsets[-1]) > BINARY_BYTES_MAX:
        raise OverflowError(f"{int(offsets[-1])} bytes are too many for one Arrow array; use smaller batches")
    narrow = np.ascontiguousarray(offsets, np.int32)
    return pa.Array.from_buffers(pa.binary(), len(narrow) - 1, [validity(is_valid), pa.py_buffer(narrow.data), data])


def binary_scalar(value: bytes) -> pa.BinaryScalar:
    """Returns one value as a scalar. (`pa.scalar` would import pandas.)"""
    scalar: pa.BinaryScalar = binary_array(np.array([0, len(value)], np.int64), pa.py_buffer(value))[0]
    return scalar


def fixed_size_array(values: npt.NDArray[np.generic], width: int, is_valid: Bools | pa.Buffer | None) -> Array:
    """Returns a fixed-size binary array with the memory of each element, `width` bytes."""
    return primitive_array(pa.binary(width), values, is_valid)


def as_binary(array: Array) -> Array:
    """Returns an array of binary, string or fixed-size binary as binary. Copies only the last, and only with nulls.

    Raises ArrowInvalid beyond 2 GiB.
    """
    if array.type == pa.binary():
        return array
    count = len(array)
    width = array.type.byte_width if count and pa.types.is_fixed_size_binary(array.type) else 0
    if not width or array.null_count or width * count > BINARY_BYTES_MAX:
        return array.cast(pa.binary())
    even = _kept_offsets if count <= _KEPT_OFFSETS_MAX else _even_offsets
    data = cast(pa.Buffer, array.buffers()[1]).slice(array.offset * width, width * count)
    return pa.Array.from_buffers(pa.binary(), count, [None, even(width, count), data], 0)


def _even_offsets(width: int, count: int) -> pa.Buffer:
    return repeated_offsets([width], count)


# The columns of a table have few different lengths, and most messages of a scan as many rows.
_kept_offsets = functools.lru_cache(maxsize=8)(_even_offsets)


def repeated_offsets(lengths: Sequence[int], count: int) -> pa.Buffer:
    """Returns the offsets of values that have these lengths one after the other, this many times, in 2 GiB at most.

    They can't be written to, so that many arrays may share them.
    """
    ends = np.cumsum(lengths, dtype=np.int32)
    offsets = np.zeros(count * len(lengths) + 1, np.int32)
    np.add.outer(np.arange(count, dtype=np.int32) * ends[-1], ends, out=offsets[1:].reshape(count, len(lengths)))
    offsets.setflags(write=False)
    return buffer_of(offsets)


def array_of_one(value: object, kind: pa.DataType) -> Array:
    """Returns an array of one value of a mapping's type, as value_check returns it.

    Not by pa.array or pa.scalar, which import pandas where it is installed.
    """
    if isinstance(value, str | bytes):
        return names_array([value.encode() if isinstance(value, str) else value]).cast(kind)
    if isinstance(value, Decimal):
        assert isinstance(kind, pa.Decimal128Type), kind
        unscaled = int(value.scaleb(kind.scale, _EXACT))
        return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(unscaled.to_bytes(16, "little", signed=True))])
    if isinstance(value, bool):
        return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes([value]))])
    if isinstance(value, datetime.datetime):
        return int64_array(np.array([(value - _EPOCH) // _MICRO])).cast(kind)
    if isinstance(value, datetime.date):
        days = value.toordinal() - _EPOCH.toordinal()
        return primitive_array(kind, np.array([days], np.int32), None)
    return primitive_array(kind, np.array([value], _DTYPES[kind]), None)


def names_array(names: Sequence[bytes | None]) -> Array:
    """Returns a binary array of values; None is a null. O(values) in Python."""
    values = [name or b"" for name in names]
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, values), np.int64, len(values)), out=offsets[1:])
    is_valid = np.array([name is not None for name in names], np.bool_) if None in names else None
    return binary_array(offsets, pa.py_buffer(b"".join(values)), is_valid)


def integers_array(numbers: Sequence[int | None]) -> Array:
    """Returns an int64 array of numbers; None is a null. O(numbers) in Python."""
    is_valid = np.array([number is not None for number in numbers], np.bool_) if None in numbers else None
    return primitive_array(pa.int64(), np.array([number or 0 for number in numbers], np.int64), is_valid)


def validity(is_valid: Bools | pa.Buffer | None) -> pa.Buffer | None:
    """Returns a validity bitmap; None if all elements are valid."""
    if is_valid is None or isinstance(is_valid, pa.Buffer):
        return is_valid
    return None if bool(is_valid.all()) else bitmap_of(is_valid)


def validity_of(array: Array) -> pa.Buffer | None:
    """Returns the validity bitmap of an array, from its first element; None if no element is null.

    Copies it only if the array begins inside a byte of its bitmap.
    """
    bitmap = array.buffers()[0]
    if array.null_count == 0 or bitmap is None:
        return None
    if array.offset % 8 == 0:
        return bitmap.slice(array.offset // 8)
    return bitmap_of(bools_of(array.is_valid()))


def bitmap_of(bools: Bools) -> pa.Buffer:
    """Returns one bit for each element, the first one in the lowest bit."""
    return buffer_of(np.packbits(bools, bitorder="little"))


def valid_of(array: Array) -> Bools | None:
    """Returns which elements are not null; None: all."""
    if array.null_count == 0:
        return None
    bitmap = array.buffers()[0]
    return np.zeros(len(array), np.bool_) if bitmap is None else _bits_of(bitmap, array)


def values_of(array: Array, dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
    """Returns the memory of a fixed-width array as dtype, without copying. Values under nulls are undefined."""
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return np.empty(0, dtype)
    width = np.dtype(dtype).itemsize
    return np.frombuffer(memoryview(data), dtype, count=len(array), offset=array.offset * width)


def offsets_of(array: Array) -> Ints:
    """Returns the len + 1 offsets of a binary array into `data_of`."""
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return np.zeros(len(array) + 1, np.int64)
    return np.frombuffer(memoryview(data), np.int32, count=len(array) + 1, offset=array.offset * 4).astype(np.int64)


def data_of(array: Array) -> npt.NDArray[np.uint8]:
    """Returns the data buffer of a binary array, without copying."""
    data = array.buffers()[2]
    return np.empty(0, np.uint8) if data is None else np.frombuffer(memoryview(data), np.uint8)


def all_bytes_of(array: Array) -> Bytes:
    """Returns the bytes of all elements of a binary array side by side, without copying."""
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return np.empty(0, np.uint8)
    offsets = np.frombuffer(memoryview(data), np.int32, count=len(array) + 1, offset=array.offset * 4)
    return data_of(array)[offsets[0] : offsets[-1]]


def slices_of(array: Array, starts: Ints, lengths: Ints) -> Array:
    """Returns a slice of each element: `lengths` bytes at `starts`, relative to the element. O(bytes).

    Slices must lie inside their elements.
    """
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    begins = offsets_of(array)[:-1] + starts
    # Byte i of the result lies at (begin of its slice) + (i - offset of its slice).
    places = np.repeat(begins - offsets[:-1], lengths) + np.arange(int(offsets[-1]))
    return binary_array(offsets, buffer_of(data_of(array)[places]), valid_of(array))


def lengths_of(array: Array) -> Ints:
    """Returns the length of each element of a binary array, in bytes."""
    return np.diff(offsets_of(array))


def bools_of(array: Array) -> Bools:
    """Returns a boolean array as numpy; values under nulls are undefined. (`to_numpy` would import pandas.)"""
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return np.zeros(len(array), np.bool_)
    return _bits_of(data, array)


def _bits_of(bitmap: pa.Buffer, array: Array) -> Bools:
    bits = np.unpackbits(
        np.frombuffer(memoryview(bitmap), np.uint8), bitorder="little", count=array.offset + len(array)
    )
    return cast(Bools, bits[array.offset :].view(np.bool_))


def one_array(column: pa.ChunkedArray[Any] | Array) -> Array:
    """Returns a table's column as one array; copies nothing if it has one chunk."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    chunks: list[Array] = column.chunks
    if len(chunks) == 1:
        return chunks[0]
    return pa.concat_arrays(chunks) if chunks else cast(Array, pa.nulls(0, column.type))


def first_places(array: Array, pattern: bytes) -> Ints:
    """Returns the position of the pattern in each element, -1 if it does not occur. No element may be null."""
    from rowlock._codec.late_compute import compute as pc

    # The stubs only know text.
    found: Array = pc.find_substring(array, pattern)  # type: ignore[call-overload]
    return values_of(found, np.int32).astype(np.int64)


def joined(*parts: Array | bytes) -> Array:
    """Concatenates the parts element by element; a part that is bytes is the same in every element."""
    from rowlock._codec.late_compute import compute as pc

    # Any: the stubs don't know that arrays and scalars can be mixed.
    columns: list[Any] = [binary_scalar(part) if isinstance(part, bytes) else part for part in parts]
    result: Array = pc.binary_join_element_wise(*columns, binary_scalar(b""))
    return result


def pooled(count: int, dtype: npt.DTypeLike) -> tuple[pa.Buffer, npt.NDArray[Any]]:
    """Returns memory of Arrow's pool, with undefined bytes, and an array to write to it.

    The pool keeps freed memory. The C library may return numpy's to the system after each scan. Then the page faults of
    the next one take half of the client's processor time.
    """
    kind = np.dtype(dtype)
    buffer = pa.allocate_buffer(count * kind.itemsize)
    return buffer, np.frombuffer(memoryview(buffer), kind)


def repeated_values(values: npt.NDArray[np.generic], count: int) -> pa.Buffer:
    """Returns each value this many times, one after the other."""
    buffer, repeated = pooled(len(values) * count, values.dtype)
    repeated.reshape(len(values), count)[:] = values[:, np.newaxis]
    return buffer


def side_by_side(arrays: Sequence[Array], width: int) -> npt.NDArray[np.void] | None:
    """Returns the values of fixed-size arrays of one length, `width` bytes each, as rows with a value of each array.

    Copies none. Returns None for no values, and unless the arrays lie at equal distances in memory, one after the
    other, as those of a record batch do. The memory between them may be another one's, and is not read.
    """
    count = len(arrays[0])
    if not count * width:
        return None
    places = [cast(pa.Buffer, array.buffers()[1]).address + array.offset * width for array in arrays]
    distance = places[1] - places[0] if len(places) > 1 else count * width
    if distance <= 0 or places != [places[0] + number * distance for number in range(len(places))]:
        return None
    memory = pa.foreign_buffer(places[0], places[-1] - places[0] + count * width, base=arrays)
    return np.ndarray((count, len(arrays)), f"V{width}", memoryview(memory), 0, (width, distance))


def buffer_of(values: npt.NDArray[Any]) -> pa.Buffer:
    """Returns the memory of an array; copies it only if it is not contiguous."""
    return pa.py_buffer(np.ascontiguousarray(values).data)


def cells_schema(nullable: tuple[str, ...]) -> pa.Schema:
    """Returns the protocol's schema of cells: row, family, qualifier, timestamp, value."""
    types: dict[str, pa.DataType] = {
        "row": pa.binary(),
        "family": pa.binary(),
        "qualifier": pa.binary(),
        "timestamp": pa.int64(),
        "value": pa.binary(),
    }
    return pa.schema([pa.field(name, kind, nullable=name in nullable) for name, kind in types.items()])
