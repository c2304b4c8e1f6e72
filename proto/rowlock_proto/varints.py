"""Numbers in the encoding of protobuf, for messages that are assembled by hand."""

from __future__ import annotations


def varint(number: int) -> bytes:
    """Encodes a number as a protobuf varint: base 128, least significant group first."""
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)
