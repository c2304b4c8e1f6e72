"""Answers of a scan as bytes of ScanBatch messages.

The bytes are put together by hand, for a measured reason: a batch of 1.4 MB takes 0.1 ms so, and 1.5 ms when a message
object holds it, most of that for memory which the message takes and gives back. Fields may come in any order and a
message may be parsed from its parts joined, so only the frame of the Arrow field is ours.
"""

from __future__ import annotations

import pyarrow as pa
from rowlock_proto.v1.region_pb2 import ScanBatch

from rowlock_regionserver.scan.batches import ScanAnswer

# Field 1 (ScanBatch.arrow) of wire type 2 (length and bytes).
_ARROW_TAG = b"\x0a"
_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def scan_batch(answer: ScanAnswer, read_point: int) -> bytes:
    """The message. The table's chunks become record batches of one Arrow IPC stream; each byte is copied twice."""
    parts: list[bytes | pa.Buffer] = [answer.table.schema.serialize()]
    parts.extend(batch.serialize() for batch in answer.table.to_batches())
    parts.append(_END_OF_STREAM)
    rest = ScanBatch(
        row_continues=answer.row_continues,
        read_point=read_point,
        row_count=answer.row_count,
        row_reached=answer.resume_key,
    )
    head = _ARROW_TAG + _varint(sum(len(part) for part in parts))
    return b"".join([head, *parts, rest.SerializeToString()])


def _varint(number: int) -> bytes:
    """Base 128, least group first, as protobuf writes lengths."""
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)
