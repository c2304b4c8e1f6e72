"""Encodings of typed values as bytes, for whole Arrow arrays.

binary   HBase's: numbers big-endian in two's complement or IEEE 754, text UTF-8, boolean one byte (ff is true, 00 is
         false), decimal 4 bytes of scale and the unscaled number in as few bytes as it needs; date 4 bytes of days,
         timestamp 8 bytes of microseconds, both since the epoch
millis   date and timestamp as HBase's Spark connectors write them: 8 bytes of milliseconds since the epoch
text     readable text: 15, -1.5, true, 2013-01-31, 2013-01-31T05:00:00 (UTC; a fraction only if there is one);
         a timestamp is also read with its zone, Z or +02:00
ordered  for keys: bytes that sort as the values do, see below; fixed width except string and binary

In `ordered` the sign bit of signed numbers is inverted, and so is every bit of negative floats. String and binary are
unchanged at the end of a key; elsewhere each 00 becomes 00 ff, and 00 00 ends the value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowlock._codec.arrow_buffers import (
    Array,
    Bools,
    Bytes,
    all_bytes_of,
    as_binary,
    bitmap_of,
    bools_of,
    data_of,
    fixed_size_array,
    joined,
    lengths_of,
    offsets_of,
    primitive_array,
    valid_of,
    validity_of,
    values_of,
)
from rowlock.errors import MappingError

Numbers: TypeAlias = npt.NDArray[Any]  # Any: numbers of the encoded type
TIMESTAMP = pa.timestamp("us", tz="UTC")
_MILLIS_PER_DAY = 86_400_000
_MICROS_PER_DAY = _MILLIS_PER_DAY * 1000
# 0001-01-01 and 9999-12-31 in days since the epoch.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896


@dataclass(frozen=True, slots=True)
class Codec:
    """Encodes and decodes arrays of one Arrow type.

    encode: converts an array of `arrow` to binary or fixed-size binary; decode: converts either back. Nulls stay nulls.
    Both raise MappingError. width: the size of an encoded value in bytes; None if sizes differ.
    """

    arrow: pa.DataType
    width: int | None
    encode: Callable[[Array], Array]
    decode: Callable[[Array], Array]


def fixed_codec(
    arrow: pa.DataType,
    memory: npt.DTypeLike,
    stored: npt.DTypeLike,
    to_stored: Callable[[Numbers], Numbers] = lambda values: values,
    from_stored: Callable[[Numbers], Numbers] = lambda values: values,
) -> Codec:
    """Returns the codec of a fixed-width type.

    memory: numpy's type of the array's memory. stored: of the encoded bytes, big-endian.
    """
    width = np.dtype(stored).itemsize

    def encode(array: Array) -> Array:
        values = to_stored(values_of(array, memory)).astype(stored, copy=False)
        return fixed_size_array(values, width, validity_of(array))

    def decode(array: Array) -> Array:
        values = from_stored(fixed_bytes(array, width).view(stored)).astype(memory, copy=False)
        return primitive_array(arrow, values, validity_of(array))

    return Codec(arrow, width, encode, decode)


def fixed_bytes(array: Array, width: int) -> Bytes:
    """Returns the concatenated values, undefined for nulls, without copying them if they lie side by side.

    array: binary or fixed-size binary. Raises MappingError unless all values have `width` bytes.
    """
    count = len(array)
    if array.null_count == count:
        return np.zeros(count * width, np.uint8)
    if isinstance(array.type, pa.FixedSizeBinaryType):
        _check_width(array.type.byte_width, width)
        return values_of(array, f"V{width}").view(np.uint8)
    lengths = lengths_of(array)
    is_valid = valid_of(array)
    _check_widths(lengths if is_valid is None else lengths[is_valid], width)
    data, offsets = data_of(array), offsets_of(array)
    start, stop = int(offsets[0]), int(offsets[-1])
    if is_valid is None:
        return data[start:stop]
    element = np.dtype(f"u{width}" if width in (1, 2, 4, 8) else f"V{width}")
    values = np.zeros(count, element)
    if stop - start == width * (count - array.null_count):
        values[is_valid] = data[start:stop].view(element)
    else:
        places = offsets[:-1][is_valid][:, None] + np.arange(width)
        values[is_valid] = data[places].view(element)[:, 0]
    return values.view(np.uint8)


def _check_widths(lengths: npt.NDArray[np.int64], width: int) -> None:
    is_wrong = lengths != width
    if is_wrong.any():
        _check_width(int(lengths[np.flatnonzero(is_wrong)[0]]), width)


def _check_width(length: int, width: int) -> None:
    if length != width:
        raise MappingError(f"a value has {length} {'byte' if length == 1 else 'bytes'} instead of {width}")


def first_refused(decode: Callable[[Array], Array], values: Array) -> int:
    """Returns the index of the first value that `decode` refuses, by bisection. There must be one."""
    start, stop = 0, len(values)
    while stop - start > 1:
        middle = (start + stop) // 2
        try:
            decode(values.slice(start, middle - start))
        except MappingError:
            stop = middle
        else:
            start = middle
    return start


def bytes_codec(arrow: pa.DataType) -> Codec:
    """Returns the codec of string and binary, unchanged. Decoding raises MappingError for text that is not UTF-8."""

    def decode(array: Array) -> Array:
        stored = as_binary(array)
        if pa.types.is_string(arrow) and all_bytes_of(stored).max(initial=0) < 0x80:
            # ASCII, however it is cut into values. Arrow would look at each value.
            return stored.view(arrow)
        try:
            return stored.cast(arrow)
        except pa.ArrowInvalid as error:
            raise MappingError(f"a value is not UTF-8: {error}") from error

    return Codec(arrow, None, lambda array: array.cast(pa.binary()), decode)


def terminated_codec(arrow: pa.DataType) -> Codec:
    """Returns the codec of string and binary before other parts of an ordered key."""
    plain = bytes_codec(arrow)

    def encode(array: Array) -> Array:
        from rowlock._codec.late_compute import compute as pc

        escaped = pc.replace_substring(plain.encode(array), b"\0", b"\0\xff")
        return joined(escaped, b"\0\0")

    def decode(array: Array) -> Array:
        from rowlock._codec.late_compute import compute as pc

        # Without the terminator, which decoded_keys has removed.
        return plain.decode(pc.replace_substring(array, b"\0\xff", b"\0"))

    return Codec(arrow, None, encode, decode)


def text_codec(arrow: pa.DataType) -> Codec:
    """Returns the codec of numbers, booleans, dates and timestamps as text."""

    def encode(array: Array) -> Array:
        from rowlock._codec.late_compute import compute as pc

        _check_years(array)
        if pa.types.is_timestamp(arrow):
            # Without its zone, so that no zone database is needed; the times are UTC.
            naive: Any = array.cast(pa.int64()).cast(pa.timestamp("us"))  # Any: the stubs know fewer timestamps
            text: Array = pc.strftime(naive, "%Y-%m-%dT%H:%M:%S")
            return pc.replace_substring_regex(text, r"\.000000$", "").cast(pa.binary())
        return array.cast(pa.string()).cast(pa.binary())

    def decode(array: Array) -> Array:
        try:
            text = as_binary(array).cast(pa.string())
            return timestamps_of_text(text) if pa.types.is_timestamp(arrow) else text.cast(arrow)
        except pa.ArrowInvalid as error:
            raise MappingError(f"a value is not {arrow} as text: {error}") from error

    return Codec(arrow, None, encode, decode)


def timestamps_of_text(text: Array) -> Array:
    """Parses ISO 8601 timestamps; those without a zone are UTC. Raises ArrowInvalid for other strings."""
    from rowlock._codec.late_compute import compute as pc

    # Arrow parses an array only if all strings have a zone, or none has.
    has_zone = pc.match_substring_regex(text, r"[T ].*(Z|[+-]\d\d(:?\d\d)?)$")
    # Not by pa.scalar, which imports pandas where it is installed.
    none = pa.nulls(1, text.type)[0]
    without = pc.if_else(has_zone, none, text).cast(pa.timestamp("us")).cast(pa.int64()).cast(TIMESTAMP)
    return pc.coalesce(pc.if_else(has_zone, text, none).cast(TIMESTAMP), without)


def _check_years(array: Array) -> None:
    """Raises MappingError for dates and timestamps outside of the years 0001 to 9999, which text can represent."""
    if pa.types.is_timestamp(array.type):
        days: Numbers = values_of(array, np.int64) // _MICROS_PER_DAY
    elif pa.types.is_date(array.type):
        days = values_of(array, np.int32)
    else:
        return
    if _at_values((days < _FIRST_DAY) | (days > _LAST_DAY), array).any():
        raise MappingError("a value lies outside of the years 0001 to 9999 that 'text' can represent")


def _at_values(bools: Bools, array: Array) -> Bools:
    """Returns the booleans, false where the array is null."""
    is_valid = valid_of(array)
    return bools if is_valid is None else bools & is_valid


def _ordered_bits(bits: npt.NDArray[Any]) -> Numbers:
    """Maps the bits of floats to unsigned numbers in the same order."""
    sign = bits.dtype.type(1 << (bits.dtype.itemsize * 8 - 1))
    return np.where(bits & sign, ~bits, bits | sign)


def _float_bits(bits: npt.NDArray[Any]) -> Numbers:
    """The inverse of _ordered_bits."""
    sign = bits.dtype.type(1 << (bits.dtype.itemsize * 8 - 1))
    return np.where(bits & sign, bits & ~sign, ~bits)


def ordered_integer_codec(arrow: pa.DataType, width: int) -> Codec:
    """Returns the `ordered` codec of signed integers, dates and timestamps: the sign bit is inverted."""
    memory, stored = np.dtype(f"u{width}"), np.dtype(f">u{width}")
    sign = memory.type(1 << (width * 8 - 1))
    return fixed_codec(arrow, memory, stored, lambda values: values ^ sign, lambda values: values.astype(memory) ^ sign)


def ordered_float_codec(arrow: pa.DataType, width: int) -> Codec:
    """Returns the `ordered` codec of floats."""
    memory, stored = np.dtype(f"u{width}"), np.dtype(f">u{width}")
    return fixed_codec(arrow, memory, stored, _ordered_bits, lambda values: _float_bits(values.astype(memory)))


def boolean_codec(true: int) -> Codec:
    """Returns the codec of booleans: one byte, `true` for true, 0 for false. Any byte but 0 decodes to true."""

    def encode(array: Array) -> Array:
        values = np.where(bools_of(array), np.uint8(true), np.uint8(0))
        return fixed_size_array(values, 1, validity_of(array))

    def decode(array: Array) -> Array:
        values = bitmap_of(fixed_bytes(array, 1) != 0)
        return pa.Array.from_buffers(pa.bool_(), len(array), [validity_of(array), values])

    return Codec(pa.bool_(), 1, encode, decode)


def millis_codec(arrow: pa.DataType) -> Codec:
    """Returns the codec of dates and timestamps as 8 bytes of milliseconds.

    Encoding raises MappingError for a fraction of a millisecond, decoding for a number outside of `arrow`'s range.
    """
    is_date = pa.types.is_date(arrow)
    # The limits in milliseconds: numbers that fit in `arrow`'s own unit, days or microseconds.
    ends = np.iinfo(np.int32) if is_date else np.iinfo(np.int64)
    memory = ends.dtype
    lowest = ends.min * _MILLIS_PER_DAY if is_date else -(ends.max // 1000)
    highest = ends.max * _MILLIS_PER_DAY + _MILLIS_PER_DAY - 1 if is_date else ends.max // 1000

    def encode(array: Array) -> Array:
        values: Numbers = values_of(array, memory).astype(np.int64)
        if is_date:
            return fixed_size_array((values * _MILLIS_PER_DAY).astype(">i8"), 8, validity_of(array))
        millis, fraction = np.divmod(values, 1000)
        if _at_values(fraction != 0, array).any():
            raise MappingError("a value has a fraction of a millisecond; leave out 'millis' to store microseconds")
        return fixed_size_array(millis.astype(">i8"), 8, validity_of(array))

    def decode(array: Array) -> Array:
        millis: Numbers = fixed_bytes(array, 8).view(">i8").astype(np.int64)
        is_outside = _at_values((millis < lowest) | (millis > highest), array)
        if is_outside.any():
            found = int(millis[np.flatnonzero(is_outside)[0]])
            raise MappingError(f"a value has more milliseconds than fit {arrow}: {found}")
        values = millis // _MILLIS_PER_DAY if is_date else millis * 1000
        return primitive_array(arrow, values.astype(memory, copy=False), validity_of(array))

    return Codec(arrow, 8, encode, decode)
