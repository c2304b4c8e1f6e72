"""Walks over the fields of a message in protobuf's wire format, without parsing it.

A field is a tag, then a varint, eight or four bytes, or a length and as many bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

# Wire types.
VARINT, LENGTH = 0, 2
_EIGHT_BYTES, _FOUR_BYTES = 1, 5


class WireField(NamedTuple):
    """Where a field is in its message: its tag is at `tag`, its value in [start, stop)."""

    number: int
    kind: int  # the wire type
    tag: int
    start: int
    stop: int


def fields_of(message: memoryview) -> Iterator[WireField]:
    """Yields the fields in their order. Raises IndexError or ValueError if the bytes are not a message."""
    place = 0
    while place < len(message):
        at = place
        tag, place = varint_at(message, place)
        kind, start = tag & 7, place
        if kind == VARINT:
            _, place = varint_at(message, place)
        elif kind == LENGTH:
            length, start = varint_at(message, place)
            place = start + length
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            place += 8 if kind == _EIGHT_BYTES else 4
        else:
            raise ValueError(f"wire type {kind}")
        if place > len(message):
            raise ValueError(f"a field ends at {place} of {len(message)} bytes")
        yield WireField(tag >> 3, kind, at, start, place)


def varint_at(message: memoryview, place: int) -> tuple[int, int]:
    """Returns the varint that begins here, and the position after it. Raises IndexError and ValueError."""
    value = shift = 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, place
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
