"""The record: the format of a change, marker, reservation or generation in a segment.

    offset  bytes  field
         0      4  checksum         CRC32C of everything after this field, padding included; see below
         4      4  length           bytes of payload
         8      8  region id        0 for a marker, and for a generation of the catalog
        16      8  write number     0 in all records but changes
        24      8  previous         the region's previous logged write number, 0 when there is none
        32      4  durable segment  how far the log was proven durable when this record was appended:
        36      4  durable offset     everything before this offset of that segment, and all segments before it
        40      1  kind             1 to 252: a change, 253: generation, 254: reservation, 255: marker; never 0
        41      n  payload
                   zeros up to a multiple of 8

Numbers are little-endian and unsigned. The checksum is CRC32C continued from (seed xor the record's offset in its
segment), where seed is the CRC32C of the log's id and the segment's number. So a record is valid only at its own offset
in its own segment of its own log: a copy of it, inside a value or in a reused block of the disk, is not.
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

# Records begin at offsets below this, so that the end of the largest possible record still fits an offset's field.
SEGMENT_BYTES_MAX = 1 << 31

checksum_of: Callable[[bytes], int] = google_crc32c.value
extend_checksum: Callable[[int, bytes], int] = google_crc32c.extend


class Position(NamedTuple):
    """A position in the log; positions compare in log order."""

    segment: int
    offset: int


# Before the first position of every log: as a durable position it proves nothing.
NOWHERE = Position(0, 0)


class Record(NamedTuple):
    """A record without its position."""

    region_id: int
    write_number: int
    previous: int
    kind: int
    payload: bytes


def record_size(payload_bytes: int) -> int:
    """The size in bytes of a record in a segment, padding included."""
    return (payload_bytes + SIZE_ROUNDING) & SIZE_MASK


def segment_seed(log_id: bytes, number: int) -> int:
    """The seed of the checksums of a segment's records."""
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
    """Encodes a record for `offset` of the segment with this seed."""
    length = len(payload)
    body = (
        _BODY.pack(length, region_id, write_number, previous, durable[0], durable[1], kind)
        + payload
        + _PADDING[(HEADER_BYTES + length) % ALIGNMENT]
    )
    return _CHECKSUM.pack(extend_checksum(seed ^ offset, body)) + body
