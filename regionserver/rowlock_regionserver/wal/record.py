"""The record: how one change, marker or reservation lies in a segment.

    offset  bytes  field
         0      4  checksum         CRC32C of everything after this field, padding included; see below
         4      4  length           bytes of payload
         8      8  region id        0 for a marker, and for a generation of the catalog
        16      8  write number     0 for what is no change
        24      8  previous         the region's previous logged write number, 0 when there is none
        32      4  durable segment  how far the log was proven durable when this record was appended:
        36      4  durable offset     everything before this offset of that segment, and all segments before it
        40      1  kind             1 to 252: a change, 253: generation, 254: reservation, 255: marker; never 0
        41      n  payload
                   zeros up to a multiple of 8

Numbers are little-endian and unsigned. The checksum is CRC32C continued from (seed xor the record's offset in its
segment), where seed is the CRC32C of the log's id and the segment's number. So a record is valid only at its own
place of its own segment of its own log: a copy of it, inside a value or in a reused block of the disk, is not.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

import google_crc32c

RECORD = struct.Struct("<IIQQQIIB")
_BODY = struct.Struct("<IQQQIIB")
_CHECKSUM = struct.Struct("<I")

HEADER_BYTES = RECORD.size
ALIGNMENT = 8
# (length + SIZE_ROUNDING) & SIZE_MASK is the size of a record with a payload of that length.
SIZE_ROUNDING = HEADER_BYTES + ALIGNMENT - 1
SIZE_MASK = -ALIGNMENT
_PADDING = tuple(bytes(-length % ALIGNMENT) for length in range(ALIGNMENT))

# The log's own kinds; all smaller ones, but 0, are the caller's.
GENERATION = 253
RESERVATION = 254
MARKER = 255

# Records lie at offsets below this, so that an offset fits its field with a request of the largest size behind it.
SEGMENT_BYTES_MAX = 1 << 31

checksum_of: Callable[[bytes], int] = google_crc32c.value
extend_checksum: Callable[[int, bytes], int] = google_crc32c.extend


class Position(NamedTuple):
    """A place in the log; positions compare as the log is ordered."""

    segment: int
    offset: int


# Before every log: as a durable position it says nothing.
NOWHERE = Position(0, 0)


class Record(NamedTuple):
    """A record without its place."""

    region_id: int
    write_number: int
    previous: int
    kind: int
    payload: bytes


def record_size(payload_bytes: int) -> int:
    """Bytes that a record takes in a segment, padding included."""
    return (payload_bytes + SIZE_ROUNDING) & SIZE_MASK


def segment_seed(log_id: bytes, number: int) -> int:
    """What the checksums of a segment's records start from, before the offset is mixed in."""
    return checksum_of(log_id + number.to_bytes(4, "little"))


def encode_record(
    seed: int,
    offset: int,
    region_id: int,
    write_number: int,
    previous: int,
    durable: Position,
    kind: int,
    payload: bytes,
) -> bytes:
    """The bytes of a record that will lie at `offset` of the segment with this seed."""
    length = len(payload)
    body = (
        _BODY.pack(length, region_id, write_number, previous, durable[0], durable[1], kind)
        + payload
        + _PADDING[(HEADER_BYTES + length) % ALIGNMENT]
    )
    return _CHECKSUM.pack(extend_checksum(seed ^ offset, body)) + body
