"""Finds a large field of bytes in a message: protobuf would copy it to parse it, and again for its value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rowlock_proto.varints import varint

# With more fields than this at one level, walking over them takes longer than the copies.
_FIELDS_MAX = 1000
# Wire types of protobuf.
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_NUMBER_BITS = 64


class LargeField(NamedTuple):
    """A field of bytes: where it is in the message, and the message without it."""

    start: int
    stop: int
    rest: bytes


class _Field(NamedTuple):
    number: int
    wire_type: int
    start: int  # of the tag
    value: int  # of bytes: where they start
    stop: int


def large_field(message: bytes, path: Sequence[int]) -> LargeField | None:
    """Returns the field of bytes at the end of a path of field numbers; those before are fields of messages.

    Returns None unless each field of the path occurs exactly once, with tag and length in their shortest form. Then
    protobuf decides how to merge repeated fields, and whether the bytes are a message.
    """
    try:
        return _found(message, path, 0, len(message))
    except (IndexError, ValueError):
        return None


def _found(message: bytes, path: Sequence[int], start: int, stop: int) -> LargeField | None:
    of_number = [field for field in _fields(message, start, stop) if field.number == path[0]]
    if len(of_number) != 1 or of_number[0].wire_type != _BYTES:
        return None
    [field] = of_number
    tag = varint(field.number << 3 | _BYTES)
    if message[field.start : field.value] != tag + varint(field.stop - field.value):
        return None  # Not in the shortest form: protobuf refuses some others.
    before, after = message[start : field.start], message[field.stop : stop]
    if len(path) == 1:
        return LargeField(field.value, field.stop, before + after)
    inner = _found(message, path[1:], field.value, field.stop)
    if inner is None:
        return None
    return LargeField(inner.start, inner.stop, before + tag + varint(len(inner.rest)) + inner.rest + after)


def _fields(message: bytes, start: int, stop: int) -> Iterator[_Field]:
    """Yields the fields of a message in [start, stop).

    Raises IndexError or ValueError if the bytes are not a message, or have too many fields.
    """
    for _ in range(_FIELDS_MAX):
        if start == stop:
            return
        tag, value = _varint_at(message, start)
        wire_type = tag & 7
        if wire_type == _VARINT:
            _, end = _varint_at(message, value)
        elif wire_type == _BYTES:
            length, value = _varint_at(message, value)
            end = value + length
        elif wire_type in (_FIXED_64, _FIXED_32):
            end = value + (8 if wire_type == _FIXED_64 else 4)
        else:
            raise ValueError(f"wire type {wire_type}")
        if end > stop:
            raise ValueError(f"a field that ends at {end} of {stop} bytes")
        yield _Field(tag >> 3, wire_type, start, value, end)
        start = end
    if start < stop:
        raise ValueError(f"more than {_FIELDS_MAX} fields")


def _varint_at(message: bytes, place: int) -> tuple[int, int]:
    """Returns the number at a place, and where it ends."""
    number = 0
    for shift in range(0, _NUMBER_BITS, 7):
        byte = message[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, place
    raise ValueError("a number of more than ten bytes")
