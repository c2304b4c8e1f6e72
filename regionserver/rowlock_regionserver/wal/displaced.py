"""Displaced records: those of this segment that stand at another offset than their checksum says.

They are there when a piece of the segment was cut out, or put in. A record's checksum is continued from (seed xor its
offset), and CRC32C is linear: from the checksum, the bytes and the seed the offset can be computed for which they fit.
Any bytes fit some offset. So one is believed only when it lies a whole number of sectors away, and the bytes behind it
are a valid record at the same distance.

What such records call durable had been durable. Also when they are copies inside a value: these were made of a log that
had proven as much by then.
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
# To compute an offset takes a microsecond for each byte of the record. So longer ones are passed over, and the search
# ends when it has computed over so many bytes without success: a tail full of copies must not hold up a start.
_RECORD_BYTES_MAX = 1 << 16
_COMPUTED_BYTES_MAX = 1 << 22


def displaced_proof(data: bytes, start: int, seed: int, number: int) -> Position:
    """The greatest position that a displaced record at or after `start` calls durable; NOWHERE if there is none.

    `number` is the segment's.
    """
    proven = NOWHERE
    next_place = start
    computed_bytes = 0
    for place in find_candidates(data, start, len(data), number):
        if place < next_place:
            continue  # inside those that were found last
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
    """How far from `place` a record belongs, given its bytes after the checksum; 0: it belongs there, or nowhere."""
    # Continued from another value, the checksum differs by what the difference of the two values becomes.
    offset = seed ^ _undone(checksum ^ extend_checksum(0, body), len(body))
    distance = offset - place
    return distance if 0 <= offset < SEGMENT_BYTES_MAX and distance % _SECTOR_BYTES == 0 else 0


def _undone(difference: int, byte_count: int) -> int:
    """The difference of two CRCs before so many equal bytes made it what it is now."""
    for _ in range(byte_count):
        entry = _ENTRY_BY_TOP[difference >> 24]
        difference = ((difference ^ _TABLE[entry]) << 8 | entry) & _ALL_ONES
    return difference


def _walk(data: bytes, place: int, seed: int, distance: int) -> tuple[int, Position]:
    """Where the valid records at this distance end, and what they call durable; `place` when there are not two."""
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
