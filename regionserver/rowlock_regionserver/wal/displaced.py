"""Displaced records: records of this segment at another offset than the one in their checksum.

They exist when a piece of the segment was cut out or put in. A record's checksum is continued from (seed xor its
offset), and CRC32C is linear: the offset that fits can be computed from the checksum, the bytes and the seed.
Any bytes fit some offset. So a record counts only when its distance is a multiple of the sector size, and a valid
record at the same distance follows it.

The positions that such records call durable had been durable. That holds for copies inside a value too: they were made
from a log that had proven as much by then.
"""

from __future__ import annotations

from rowlock_regionserver.wal.reader import find_candidates
from rowlock_regionserver.wal.record import (
    HEADER_BYTES,
    NOWHERE,
    RECORD,
    SEGMENT_BYTES_MAX,
    SIZE_MASK,
    SIZE_ROUNDING,
    Position,
    extend_checksum,
)

_SECTOR_BYTES = 512
_POLYNOMIAL = 0x82F63B78  # CRC32C, with the lowest bit first
_ALL_ONES = 0xFFFFFFFF
# To compute an offset takes a microsecond for each byte of the record. So longer records are skipped, and the search
# ends after this many bytes without success: a tail full of copies must not delay a start.
_RECORD_BYTES_MAX = 1 << 16
_COMPUTED_BYTES_MAX = 1 << 22


def displaced_proof(data: bytes, start: int, seed: int, number: int) -> Position:
    """Returns the greatest position that a displaced record at or after `start` calls durable, or NOWHERE.

    `number` is the segment's.
    """
    proven = NOWHERE
    next_place = start
    computed_bytes = 0
    for place in find_candidates(data, start, len(data), number):
        if place < next_place:
            continue  # inside the records that were found last
        checksum, length = RECORD.unpack_from(data, place)[:2]
        stop = place + ((length + SIZE_ROUNDING) & SIZE_MASK)
        if stop > len(data) or stop - place > _RECORD_BYTES_MAX:
            continue
        distance = _distance(data[place + 4 : stop], checksum, place, seed)
        if distance:
            next_place, claimed = _walk(data, place, seed, distance)
            proven = max(proven, claimed)
        else:
            computed_bytes += stop - place
            if computed_bytes > _COMPUTED_BYTES_MAX:
                break
    return proven


def _distance(body: bytes, checksum: int, place: int, seed: int) -> int:
    """The distance from `place` to the offset of the record with this body; 0: it belongs there, or nowhere."""
    # A CRC that is continued from another value differs by the image of the difference of the two values.
    offset = seed ^ _difference_before(checksum ^ extend_checksum(0, body), len(body))
    distance = offset - place
    return distance if 0 <= offset < SEGMENT_BYTES_MAX and distance % _SECTOR_BYTES == 0 else 0


def _difference_before(difference: int, byte_count: int) -> int:
    """The difference of two CRCs before they were continued over this many equal bytes."""
    for _ in range(byte_count):
        entry = _ENTRY_BY_TOP[difference >> 24]
        difference = ((difference ^ _TABLE[entry]) << 8 | entry) & _ALL_ONES
    return difference


def _walk(data: bytes, place: int, seed: int, distance: int) -> tuple[int, Position]:
    """The end of the valid records at this distance, and what they call durable; `place` if there are not two."""
    start, proven, count = place, NOWHERE, 0
    while place + HEADER_BYTES <= len(data):
        checksum, length, _, _, _, segment, offset, kind = RECORD.unpack_from(data, place)
        stop = place + ((length + SIZE_ROUNDING) & SIZE_MASK)
        expected = extend_checksum(seed ^ (place + distance), data[place + 4 : stop])
        if not kind or stop > len(data) or expected != checksum:
            break
        proven = max(proven, Position(segment, offset))
        place = stop
        count += 1
    return (place, proven) if count > 1 else (start, NOWHERE)


def _table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _table()
_ENTRY_BY_TOP = {value >> 24: entry for entry, value in enumerate(_TABLE)}
