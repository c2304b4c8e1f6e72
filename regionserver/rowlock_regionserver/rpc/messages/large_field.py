"""Finds a large field of bytes in a message: protobuf would copy it to parse it, and again for its value."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from rowlock_proto.varints import varint

from rowlock_regionserver.rpc.messages.wire_fields import LENGTH, fields_of

# With more fields than this at one level, walking over them takes longer than the copies.
_FIELDS_MAX = 1000


class LargeField(NamedTuple):
    """A field of bytes: where it is in the message, and the message without it."""

    start: int
    stop: int
    rest: bytes


def large_field(message: bytes | bytearray | memoryview, path: Sequence[int]) -> LargeField | None:
    """Returns the field of bytes at the end of a path of field numbers; those before are fields of messages.

    Returns None unless each field of the path occurs exactly once, with tag and length in their shortest form. Then
    protobuf decides how to merge repeated fields, and whether the bytes are a message.
    """
    try:
        return _found(memoryview(message), path)
    except (IndexError, ValueError):
        return None


def _found(message: memoryview, path: Sequence[int]) -> LargeField | None:
    fields = list(islice(fields_of(message), _FIELDS_MAX + 1))
    of_number = [field for field in fields if field.number == path[0]]
    if len(fields) > _FIELDS_MAX or len(of_number) != 1 or of_number[0].kind != LENGTH:
        return None
    [field] = of_number
    tag = varint(field.number << 3 | LENGTH)
    if message[field.tag : field.start] != tag + varint(field.stop - field.start):
        return None  # Not in the shortest form: protobuf refuses some others.
    before, after = message[: field.tag], message[field.stop :]
    if len(path) == 1:
        return LargeField(field.start, field.stop, b"".join([before, after]))
    inner = _found(message[field.start : field.stop], path[1:])
    if inner is None:
        return None
    rest = b"".join([before, tag, varint(len(inner.rest)), inner.rest, after])
    return LargeField(field.start + inner.start, field.start + inner.stop, rest)
