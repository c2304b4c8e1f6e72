"""The ids of the requests in a PointRequests message, read without parsing the message.

A message for which there is no memory is refused request by request, and parsing it would take several times its
bytes. This module walks the fields in protobuf's wire format: a tag, then a varint, eight or four bytes, or a length
and as many bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from rowlock_proto.direct_frames import Body
from rowlock_proto.v1.region_pb2 import PointRequest, PointRequests

from rowlock_regionserver.errors import InvalidRequestError

_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5


_REQUESTS: int = PointRequests.DESCRIPTOR.fields_by_name["requests"].number
_ID: int = PointRequest.DESCRIPTOR.fields_by_name["id"].number


def request_ids(data: Body) -> list[int]:
    """Returns the ids in their order. Raises InvalidRequestError if the bytes are not a PointRequests message."""
    message = memoryview(data)
    try:
        return [
            _id(message[start:stop])
            for number, kind, start, stop in _fields(message)
            if number == _REQUESTS and kind == _LENGTH
        ]
    except (IndexError, ValueError):
        raise InvalidRequestError(
            f"the {len(data)} bytes sent are not a {PointRequests.DESCRIPTOR.full_name} message; generate the client "
            "from the .proto files of rowlock.v1"
        ) from None


def _id(request: memoryview) -> int:
    """Returns the id of one request: the last one if the field is repeated, 0 if it is absent."""
    found = 0
    for number, kind, start, _ in _fields(request):
        if number == _ID and kind == _VARINT:
            found, _ = _varint(request, start)
    return found


def _fields(message: memoryview) -> Iterator[tuple[int, int, int, int]]:
    """Yields (field number, wire type, start, stop) of each value. Raises IndexError or ValueError for other bytes."""
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        kind, start = tag & 7, place
        if kind == _VARINT:
            _, place = _varint(message, place)
        elif kind == _LENGTH:
            length, start = _varint(message, place)
            place = start + length
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            place += 8 if kind == _EIGHT_BYTES else 4
        else:
            raise ValueError(f"wire type {kind}")
        if place > len(message):
            raise ValueError(f"a field ends at {place} of {len(message)} bytes")
        yield tag >> 3, kind, start, place


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    """Returns the varint that begins here, and the position after it."""
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
