"""Parses a ScanBatch without copying its rows.

Protobuf would copy them twice: once to parse the message, and once at the access to the field. These copies were most
of the client's cost of a bulk read. So this module parses the outer message by hand: a sequence of fields, each a tag
and a value, in any order and number. It gives all fields but `arrow` and `compressed` to protobuf.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from google.protobuf.message import DecodeError
from rowlock_proto.direct_frames import Body
from rowlock_proto.v1 import region_pb2

_ARROW_FIELD, _COMPRESSED_FIELD = (
    region_pb2.ScanBatch.DESCRIPTOR.fields_by_name[name].number for name in ("arrow", "compressed")
)
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class ScanMessage:
    """A ScanBatch. `arrow` or `compressed` is a slice, which keeps the bytes of the whole message in memory.

    newest_rows: set if the rows are in this form. line_columns: not empty if they are rows in these columns.
    """

    arrow: pa.Buffer
    compressed: pa.Buffer | None
    row_continues: bool
    read_point: int
    row_count: int
    row_reached: bytes
    newest_rows: region_pb2.NewestRows | None = None
    line_columns: Sequence[region_pb2.RowFormColumn] = ()

    @classmethod
    def of(cls, fields: region_pb2.ScanBatch, arrow: pa.Buffer, compressed: pa.Buffer | None) -> ScanMessage:
        """Returns the message with these fields, of which the large ones are given."""
        newest_rows = fields.newest_rows if fields.HasField("newest_rows") else None
        return cls(
            arrow,
            compressed,
            fields.row_continues,
            fields.read_point,
            fields.row_count,
            fields.row_reached,
            newest_rows,
            fields.line_columns,
        )


def parse_scan_message(data: Body) -> ScanMessage:
    """Returns the parsed message. Raises DecodeError for malformed bytes."""
    message = pa.py_buffer(data)
    large = {_ARROW_FIELD: message.slice(0, 0)}
    other_fields: list[Body] = []
    place = 0
    while place < len(data):
        tag, value = _varint(data, place)
        start, stop = _value_bounds(data, tag & 7, value)
        if tag >> 3 in (_ARROW_FIELD, _COMPRESSED_FIELD) and tag & 7 == _BYTES:
            large[tag >> 3] = message.slice(start, stop - start)
        else:
            other_fields.append(data[place:stop])
        place = stop
    fields = region_pb2.ScanBatch.FromString(b"".join(other_fields))
    return ScanMessage.of(fields, large[_ARROW_FIELD], large.get(_COMPRESSED_FIELD))


def _value_bounds(data: Body, wire_type: int, place: int) -> tuple[int, int]:
    """Returns where the value of a field lies, after its length if it has one."""
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


def _varint(data: Body, place: int) -> tuple[int, int]:
    """Returns a number, 7 bits per byte, least significant first, and where it ends."""
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
