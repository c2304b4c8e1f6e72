"""Encodings of decimals: HBase's Bytes.toBytes(BigDecimal), and an order-preserving one for keys. Vectorised.

Arrow stores a decimal128 as 16 bytes, little-endian, two's complement, without its scale. Numbers of at most 8 bytes,
which most are, are converted as int64; longer ones byte by byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowlock._codec.arrow_buffers import (
    Array,
    Bytes,
    Ints,
    binary_array,
    buffer_of,
    data_of,
    fixed_size_array,
    lengths_of,
    offsets_of,
    primitive_array,
    valid_of,
    validity_of,
    values_of,
)
from rowlock._codec.encodings import Codec, fixed_bytes
from rowlock.errors import MappingError

Decimal128: TypeAlias = "pa.Decimal128Type[Any, Any]"  # Any: the stubs type it by its digits

_WIDTH = 16
_SCALE_BYTES = 4


def decimal_codec(arrow: Decimal128) -> Codec:
    """4 bytes of scale, then the unscaled number, big-endian, in the fewest bytes that preserve its sign."""
    scale = np.frombuffer(int(arrow.scale).to_bytes(_SCALE_BYTES, "big", signed=True), np.uint8)

    def encode(array: Array) -> Array:
        numbers = _int64s(array)
        if numbers is None:
            digits = _big_endian(array)
            needed = _bytes_needed(digits)
        else:
            digits = numbers.astype(">i8").view(np.uint8).reshape(-1, 8)
            needed = _bytes_of_int64s(numbers)
        is_valid = valid_of(array)
        found = needed if is_valid is None else needed[is_valid]
        longest = int(found.max(initial=1))
        padded = np.empty((len(array), _SCALE_BYTES + longest), np.uint8)
        padded[:, :_SCALE_BYTES] = scale
        padded[:, _SCALE_BYTES:] = digits[:, digits.shape[1] - longest :]
        if (found == longest).all():
            return fixed_size_array(padded, _SCALE_BYTES + longest, validity_of(array))
        # Of each row: the scale, and the last `needed` bytes.
        place = np.arange(_SCALE_BYTES + longest)
        is_needed = (place < _SCALE_BYTES) | (place >= (_SCALE_BYTES + longest - needed)[:, None])
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(needed + _SCALE_BYTES)])
        return binary_array(offsets, buffer_of(padded[is_needed]), is_valid)

    def decode(array: Array) -> Array:
        # The low and the high half of each number.
        halves = np.zeros((len(array), 2), np.int64)
        longest = 0
        for width, places, stored in _by_width(array):
            if not _SCALE_BYTES < width <= _SCALE_BYTES + _WIDTH:
                raise MappingError(f"a value is not a decimal, which has 5 to {_SCALE_BYTES + _WIDTH} bytes")
            if (_signed(stored, _SCALE_BYTES, _SCALE_BYTES) != arrow.scale).any():
                raise MappingError(f"a value is a decimal with another scale than {arrow.scale}")
            number_bytes = width - _SCALE_BYTES
            low = _signed(stored, width, min(number_bytes, 8))
            halves[places, 0] = low
            halves[places, 1] = _signed(stored, width - 8, number_bytes - 8) if number_bytes > 8 else low >> 63
            longest = max(longest, number_bytes)
        decimals = primitive_array(arrow, halves.view("V16")[:, 0], validity_of(array))
        always_fits = 1 << (8 * longest - 1) < 10**arrow.precision if longest else True
        return decimals if always_fits else _checked(decimals)

    return Codec(arrow, None, encode, decode)


def ordered_decimal_codec(arrow: Decimal128) -> Codec:
    """The unscaled number as 16 bytes, big-endian, with the sign bit inverted; the scale is the mapping's."""

    def encode(array: Array) -> Array:
        digits = _big_endian(array)
        digits[:, 0] ^= 0x80
        return fixed_size_array(digits, _WIDTH, validity_of(array))

    def decode(array: Array) -> Array:
        digits = fixed_bytes(array, _WIDTH).reshape(-1, _WIDTH)[:, ::-1].copy()
        digits[:, -1] ^= 0x80
        return _checked(primitive_array(arrow, digits.view("V16")[:, 0], validity_of(array)))

    return Codec(arrow, _WIDTH, encode, decode)


def _by_width(array: Array) -> Iterator[tuple[int, slice | Ints, Bytes]]:
    """Yields the values of each width: the width, their places, and their bytes as (count, width). Leaves out nulls."""
    is_valid = valid_of(array)
    if isinstance(array.type, pa.FixedSizeBinaryType):
        width = array.type.byte_width
        if array.null_count < len(array):
            places = slice(None) if is_valid is None else np.flatnonzero(is_valid)
            stored = fixed_bytes(array, width) if width else np.empty(0, np.uint8)
            yield width, places, stored.reshape(len(array), width)[places]
        return
    lengths = lengths_of(array)
    # The longest have one byte too many, or more.
    groups = np.minimum(lengths, _SCALE_BYTES + _WIDTH + 1)
    found = np.flatnonzero(np.bincount(groups if is_valid is None else groups[is_valid]))
    data, offsets = data_of(array), offsets_of(array)
    for width in found.tolist():
        if len(found) == 1 and is_valid is None and width <= _SCALE_BYTES + _WIDTH:
            yield width, slice(None), data[offsets[0] : offsets[-1]].reshape(len(array), width)
            return
        places = np.flatnonzero(groups == width if is_valid is None else (groups == width) & is_valid)
        yield width, places, data[offsets[places][:, None] + np.arange(width)]


def _signed(stored: Bytes, stop: int, width: int) -> npt.NDArray[np.int32 | np.int64]:
    """Returns the numbers in the 1 to 8 bytes of each row of `stored` that end at `stop`: big-endian, two's complement.

    Four bytes or more must lie before `stop`, eight if the number has more than four. They are read as one number, and
    those before the number are shifted out.
    """
    element = 4 if width <= 4 else 8
    unused_bits = 8 * (element - width)
    read = stored[:, stop - element : stop].view(f">i{element}")[:, 0]
    numbers: npt.NDArray[np.int32 | np.int64] = read.astype(np.int32 if element == 4 else np.int64)
    return ((numbers << unused_bits) >> unused_bits) if unused_bits else numbers


def _int64s(array: Array) -> Ints | None:
    """Returns the unscaled numbers, zero for nulls; None unless all fit in 8 bytes."""
    halves = values_of(array, "V16").view(np.int64).reshape(-1, 2)
    is_valid = valid_of(array)
    if is_valid is not None:
        halves = np.where(is_valid[:, None], halves, 0)
    numbers: Ints = np.ascontiguousarray(halves[:, 0])
    return numbers if (numbers >> 63 == halves[:, 1]).all() else None


def _big_endian(array: Array) -> Bytes:
    """Returns the unscaled numbers as (len, 16) bytes, a copy, with zeros under nulls."""
    digits: Bytes = values_of(array, "V16").view(np.uint8).reshape(-1, _WIDTH)[:, ::-1].copy()
    is_valid = valid_of(array)
    if is_valid is not None:
        digits[~is_valid] = 0
    return digits


def _checked(array: Array) -> Array:
    """Returns the decimals. Raises MappingError if one has more digits than the mapping's type."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise MappingError(f"a value does not fit {array.type}: {error}") from error
    return array


def _bytes_of_int64s(numbers: Ints) -> Ints:
    """Returns how many of the last bytes represent each number with its sign, 1 to 8."""
    magnitudes = numbers ^ (numbers >> 63)
    needed = np.ones(len(numbers), np.int64)
    for bits in range(7, 63, 8):
        is_longer = magnitudes >> bits != 0
        if not is_longer.any():
            break
        needed += is_longer
    return needed


def _bytes_needed(digits: Bytes) -> Ints:
    """Returns how many of the last bytes represent each number with its sign, 1 to 16."""
    sign = np.where(digits[:, 0] & 0x80, np.uint8(0xFF), np.uint8(0))
    # A leading byte is redundant if it repeats the sign and the byte after it has the sign's first bit.
    repeats = digits[:, :-1] == sign[:, None]
    next_agrees = (digits[:, 1:] & 0x80) == (sign & 0x80)[:, None]
    redundant = np.cumprod(repeats & next_agrees, axis=1).sum(axis=1)
    needed: Ints = (_WIDTH - redundant).astype(np.int64)
    return needed
