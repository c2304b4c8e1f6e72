"""A batch of a scan as it comes: the message's fields, its Arrow bytes where they are.

Protobuf would copy these bytes twice, once when it reads the message and once when the field is asked for, which is
most of what reading in bulk costs a client. So the message's outer frame is read by hand: it is a run of fields, each a
tag and its value, in any order and number. All but the Arrow field goes to protobuf.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from google.protobuf.message import DecodeError
from rowlock_proto.v1 import region_pb2

_ARROW_FIELD = region_pb2.ScanBatch.DESCRIPTOR.fields_by_name["arrow"].number
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class ScanMessage:
    """A ScanBatch; `arrow` keeps the bytes of the whole message."""

    arrow: pa.Buffer
    row_continues: bool
    read_point: int
    row_count: int
    row_reached: bytes


def parse_scan_message(data: bytes) -> ScanMessage:
    """The message; raises DecodeError for bytes that are none."""
    whole = pa.py_buffer(data)
    arrow = whole.slice(0, 0)
    rest: list[bytes] = []
    place = 0
    while place < len(data):
        tag, value = _varint(data, place)
        start, stop = _value_bounds(data, tag & 7, value)
        if tag >> 3 == _ARROW_FIELD and tag & 7 == _BYTES:
            arrow = whole.slice(start, stop - start)
        else:
            rest.append(data[place:stop])
        place = stop
    fields = region_pb2.ScanBatch.FromString(b"".join(rest))
    return ScanMessage(arrow, fields.row_continues, fields.read_point, fields.row_count, fields.row_reached)


def _value_bounds(data: bytes, wire_type: int, place: int) -> tuple[int, int]:
    """Where the value of a field lies, after its length if it has one."""
    if wire_type == _VARINT:
        bounds = place, _varint(data, place)[1]
    elif wire_type == _BYTES:
        length, start = _varint(data, place)
        bounds = start, start + length
    elif wire_type in (_FIXED64, _FIXED32):
        bounds = place, place + (8 if wire_type == _FIXED64 else 4)
    else:
        raise DecodeError(f"a batch of a scan has a field of wire type {wire_type} at byte {place}")
    if bounds[1] > len(data):
        raise DecodeError(f"a batch of a scan ends within a field, at byte {len(data)} of {bounds[1]}")
    return bounds


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """A number of 7 bits a byte, least first, and where it ends."""
    number = shift = 0
    while True:
        if place >= len(data) or shift > 63:
            raise DecodeError(f"a batch of a scan has no number at byte {place}")
        byte = data[place]
        number |= (byte & 0x7F) << shift
        place += 1
        if byte < 0x80:
            return number, place
        shift += 7
