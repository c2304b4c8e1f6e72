"""The numbers of the requests in a PointRequests message, read without making a message of it.

A message for which there is no memory is refused request by request, and to parse it would take several times its
bytes. Fields are walked as protobuf writes them: a tag, then a number, eight or four bytes, or a length and that many.
"""

from __future__ import annotations

from collections.abc import Iterator

from rowlock_proto.v1.region_pb2 import PointRequest, PointRequests

from rowlock_regionserver.errors import InvalidRequestError

_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5


_REQUESTS: int = PointRequests.DESCRIPTOR.fields_by_name["requests"].number
_ID: int = PointRequest.DESCRIPTOR.fields_by_name["id"].number


def request_ids(data: bytes) -> list[int]:
    """In their order. Raises InvalidRequestError when it is no such message."""
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
    """Of a field that is there twice the last one counts; one that is not there is 0."""
    found = 0
    for number, kind, start, _ in _fields(request):
        if number == _ID and kind == _VARINT:
            found, _ = _varint(request, start)
    return found


def _fields(message: memoryview) -> Iterator[tuple[int, int, int, int]]:
    """Number, kind, and where the value stands. IndexError or ValueError: it is no message."""
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
    """The number that begins here, and where it ends."""
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
