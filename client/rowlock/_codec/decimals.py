"""Encodings of decimals: HBase's Bytes.toBytes(BigDecimal), and an order-preserving one for keys. Vectorised.

Arrow stores a decimal128 as 16 bytes, little-endian, two's complement, without its scale.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowlock._codec.arrow_buffers import (
    Array,
    binary_array,
    buffer_of,
    data_of,
    fixed_binary_array,
    lengths_of,
    offsets_of,
    primitive_array,
    valid_of,
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
        digits = _big_endian(array)
        needed = _bytes_needed(digits)
        padded = np.concatenate([np.broadcast_to(scale, (len(array), _SCALE_BYTES)), digits], axis=1)
        # Of each row: the scale, and the last `needed` bytes.
        place = np.arange(_SCALE_BYTES + _WIDTH)
        is_needed = (place < _SCALE_BYTES) | (place >= (_SCALE_BYTES + _WIDTH - needed)[:, None])
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(needed + _SCALE_BYTES)])
        return binary_array(offsets, buffer_of(padded[is_needed]), valid_of(array))

    def decode(array: Array) -> Array:
        is_valid = valid_of(array)
        checked = np.ones(len(array), np.bool_) if is_valid is None else is_valid
        lengths = lengths_of(array)
        if ((lengths <= _SCALE_BYTES) | (lengths > _SCALE_BYTES + _WIDTH))[checked].any():
            raise MappingError(f"a value is not a decimal, which has 5 to {_SCALE_BYTES + _WIDTH} bytes")
        data, starts, stops = data_of(array), offsets_of(array)[:-1], offsets_of(array)[1:]
        if len(data) == 0:
            return primitive_array(arrow, np.zeros(len(array), "V16"), np.zeros(len(array), np.bool_))
        stored_scales = data[np.minimum(starts[:, None] + np.arange(_SCALE_BYTES), len(data) - 1)]
        if (stored_scales != scale)[checked].any():
            raise MappingError(f"a value is a decimal with another scale than {arrow.scale}")
        # Right-aligned: the bytes in front of a number repeat its sign.
        places = stops[:, None] - _WIDTH + np.arange(_WIDTH)
        is_inside = places >= (starts + _SCALE_BYTES)[:, None]
        first = data[np.minimum(starts + _SCALE_BYTES, len(data) - 1)]
        sign = np.where(first & 0x80, np.uint8(0xFF), np.uint8(0))
        digits = np.where(is_inside, data[np.clip(places, 0, len(data) - 1)], sign[:, None])
        return _from_big_endian(arrow, digits, is_valid)

    return Codec(arrow, None, encode, decode)


def ordered_decimal_codec(arrow: Decimal128) -> Codec:
    """The unscaled number as 16 bytes, big-endian, with the sign bit inverted; the scale is the mapping's."""

    def encode(array: Array) -> Array:
        digits = _big_endian(array)
        digits[:, 0] ^= 0x80
        return fixed_binary_array(digits, _WIDTH, valid_of(array))

    def decode(array: Array) -> Array:
        digits = np.frombuffer(fixed_bytes(array, _WIDTH), np.uint8).reshape(-1, _WIDTH).copy()
        digits[:, 0] ^= 0x80
        return _from_big_endian(arrow, digits, valid_of(array))

    return Codec(arrow, _WIDTH, encode, decode)


def _big_endian(array: Array) -> npt.NDArray[np.uint8]:
    """Returns the unscaled numbers as (len, 16) bytes, a copy, with zeros under nulls."""
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return np.zeros((len(array), _WIDTH), np.uint8)
    little = np.frombuffer(memoryview(data), np.uint8, count=len(array) * _WIDTH, offset=array.offset * _WIDTH)
    digits: npt.NDArray[np.uint8] = little.reshape(-1, _WIDTH)[:, ::-1].copy()
    is_valid = valid_of(array)
    if is_valid is not None:
        digits[~is_valid] = 0
    return digits


def _from_big_endian(arrow: Decimal128, digits: npt.NDArray[np.uint8], is_valid: npt.NDArray[np.bool_] | None) -> Array:
    little = np.ascontiguousarray(digits[:, ::-1].astype(np.uint8))
    array = primitive_array(arrow, little.view("V16").reshape(-1), is_valid)
    try:
        # A stored number may exceed the mapping's precision.
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise MappingError(f"a value does not fit {arrow}: {error}") from error
    return array


def _bytes_needed(digits: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Returns how many of the last bytes represent each number with its sign, 1 to 16."""
    sign = np.where(digits[:, 0] & 0x80, np.uint8(0xFF), np.uint8(0))
    # A leading byte is redundant if it repeats the sign and the byte after it has the sign's first bit.
    repeats = digits[:, :-1] == sign[:, None]
    next_agrees = (digits[:, 1:] & 0x80) == (sign & 0x80)[:, None]
    redundant = np.cumprod(repeats & next_agrees, axis=1).sum(axis=1)
    needed: npt.NDArray[np.int64] = (_WIDTH - redundant).astype(np.int64)
    return needed
