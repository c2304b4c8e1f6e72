"""Columns whose type was widened: which types may follow each other, and the codec that reads the cells of both.

A cell has only bytes. So a type may follow another one only if every value stays the same and the bytes show which of
the two a cell has: by its length in `binary`, where a decimal is longer than 4 bytes and carries its scale. In `text`
and `millis` the wider type reads the narrower one's bytes as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rowlock._codec.arrow_buffers import (
    Array,
    Bools,
    as_binary,
    bools_of,
    data_of,
    int64_array,
    lengths_of,
    offsets_of,
)
from rowlock._codec.casts import as_type
from rowlock._codec.encodings import TIMESTAMP, Codec
from rowlock.errors import MappingError

_SCALE_BYTES = 4
# The bits of an integer, without its sign, and its decimal digits.
_BITS: Mapping[pa.DataType, int] = {pa.int8(): 7, pa.int16(): 15, pa.int32(): 31, pa.int64(): 63}
_DIGITS: Mapping[pa.DataType, int] = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
# The integers up to 2 to this power are floats.
_EXACT_BITS: Mapping[pa.DataType, int] = {pa.float32(): 24, pa.float64(): 53}


@dataclass(frozen=True, slots=True)
class Former:
    """A type that a column had before. type: its name. codec: of the column's encoding."""

    type: str
    codec: Codec


def is_lossless(old: pa.DataType, new: pa.DataType) -> bool:
    """Returns whether every value of the old type is a value of the new one."""
    if old == new:
        return True
    if old in _BITS:
        if isinstance(new, pa.Decimal128Type):
            return bool(_DIGITS[old] <= new.precision - new.scale)
        return _BITS[old] <= _BITS.get(new, _EXACT_BITS.get(new, 0))
    if isinstance(old, pa.Decimal128Type) and isinstance(new, pa.Decimal128Type):
        return bool(old.scale <= new.scale and old.precision - old.scale <= new.precision - new.scale)
    return (old, new) in (
        (pa.float32(), pa.float64()),
        (pa.date32(), TIMESTAMP),
        (pa.string(), pa.binary()),
    )


def has_same_bytes(old: pa.DataType, new: pa.DataType, encoding: str) -> bool:
    """Returns whether each value of the old type has the same bytes in the new, wider one."""
    if old == new or (old, new) == (pa.string(), pa.binary()):
        return True
    if isinstance(old, pa.Decimal128Type) and isinstance(new, pa.Decimal128Type):
        return bool(old.scale == new.scale)
    if encoding == "text":
        return old in _BITS and new in _BITS
    return encoding == "millis"


def may_follow(old: pa.DataType, new: pa.DataType, encoding: str, *, is_key: bool) -> bool:
    """Returns whether a column of the old type may get the new one, so that all of its cells can still be read."""
    if not is_lossless(old, new):
        return False
    if is_key:
        # A key is found by its bytes.
        return has_same_bytes(old, new, encoding)
    if encoding == "text":
        # As text a FLOAT has fewer digits than the same number as DOUBLE.
        return old != pa.float32() or new == old
    # A BIGINT may be as long as a decimal.
    return not (old == pa.int64() and pa.types.is_decimal(new))


def are_distinct(codec: Codec, formers: Sequence[Former], encoding: str) -> bool:
    """Returns whether a cell's bytes show which of these types it has."""
    if encoding != "binary" or not formers:
        return True
    marks = [_mark(kind) for kind in (codec, *(former.codec for former in formers))]
    return len(set(marks)) == len(marks)


def _mark(codec: Codec) -> tuple[str, int]:
    """Returns what distinguishes a type's bytes: their number, or the scale of a decimal."""
    if isinstance(codec.arrow, pa.Decimal128Type):
        return "scale", codec.arrow.scale
    assert codec.width is not None, codec.arrow
    return "width", codec.width


def widened_codec(codec: Codec, formers: Sequence[Former], encoding: str) -> Codec:
    """Returns a codec that encodes as `codec` does, and decodes the formers' bytes too."""
    if encoding != "binary" or not formers:
        return codec

    def decode(array: Array) -> Array:
        stored = as_binary(array)
        is_open = bools_of(stored.is_valid())
        groups: list[tuple[np.ndarray[tuple[int], np.dtype[np.int64]], Array]] = []
        for former in formers:
            is_former = _has_type(stored, former.codec) & is_open
            if is_former.any():
                places = np.flatnonzero(is_former)
                values = former.codec.decode(stored.take(int64_array(places)))
                groups.append((places, _widened(values, codec.arrow)))
                is_open &= ~is_former
        if not groups:
            return codec.decode(array)
        # With the nulls.
        own = np.flatnonzero(is_open | ~bools_of(stored.is_valid()))
        groups.append((own, codec.decode(stored.take(int64_array(own)))))
        order = np.argsort(np.concatenate([places for places, _ in groups]))
        return pa.concat_arrays([values for _, values in groups]).take(int64_array(order))

    return Codec(codec.arrow, None, codec.encode, decode)


def _widened(values: Array, wanted: pa.DataType) -> Array:
    try:
        return as_type(values, wanted)
    except pa.ArrowInvalid as error:
        # A date beyond the years of a timestamp.
        raise MappingError(f"a value does not fit {wanted}: {error}") from error


def _has_type(stored: Array, codec: Codec) -> Bools:
    """Returns which of the values have the length of the codec's, or the scale of its decimals."""
    lengths = lengths_of(stored)
    if codec.width is not None:
        is_found: Bools = lengths == codec.width
        return is_found
    assert isinstance(codec.arrow, pa.Decimal128Type), codec.arrow
    is_decimal: Bools = lengths > _SCALE_BYTES
    places = np.flatnonzero(is_decimal)
    if len(places):
        begins = offsets_of(stored)[places]
        scales = np.ascontiguousarray(data_of(stored)[begins[:, None] + np.arange(_SCALE_BYTES)]).view(">i4")[:, 0]
        is_decimal[places] = scales == codec.arrow.scale
    return is_decimal
