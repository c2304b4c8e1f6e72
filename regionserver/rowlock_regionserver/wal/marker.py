"""The payloads of the log's own records: markers, reservations and generations.

A full marker has, for every region that the log knows, the end of its chain of write numbers, its reservations and the
generation of its manifest. Each segment begins with one, and a log that was closed ends with one. A partial marker has
the same for the regions with records since a position. One or the other is written and synced when the log becomes
idle.

    offset  bytes  field
         0      4  flags   bit 0: incomplete; a region that is missing here may nevertheless have lost records
                           bit 1: partial; bit 2: last, the file ends with this marker
         4      4  count
         8      8  catalog generation   the newest that was noted in the log; 0: none was
        16      8  since   segment (4) and offset (4): all records since then are of regions that are named here
                   count times, in ascending order of region id:
                8  region id
                8  last logged write number; 2**64 - 1: the region is damaged, it is not served
                8  numbers until   write numbers below this may have been allocated
                8  stamps until    timestamps below this may have been used
                8  manifest generation

A reservation's payload is numbers until and stamps until, for the region in its header; a generation's is one number.
In segments of format 1 a marker has neither catalog generation nor since nor manifest generations.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from rowlock_regionserver.wal.record import NOWHERE, Position

_HEAD = struct.Struct("<IIQII")
_ENTRY = struct.Struct("<QQQQQ")
_HEAD_1 = struct.Struct("<II")
_ENTRY_1 = struct.Struct("<QQQQ")
_RESERVATION = struct.Struct("<QQ")
_GENERATION = struct.Struct("<Q")
_INCOMPLETE, _PARTIAL, _LAST = 1, 2, 4

# In place of a last logged write number in a marker: an earlier recovery found the region damaged.
DAMAGED = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class RegionState:
    """The end of a region's chain, the bounds of what it may have used, and the generation of its manifest."""

    last_logged: int = 0
    numbers_until: int = 0
    stamps_until: int = 0
    manifest_generation: int = 0


@dataclass(frozen=True, slots=True)
class Marker:
    """The states of regions, by region id: of all that the log knows, unless it is partial."""

    regions: Mapping[int, RegionState]
    is_incomplete: bool = False
    is_partial: bool = False
    is_last: bool = False
    catalog_generation: int = 0
    since: Position = NOWHERE

    def encode(self) -> bytes:
        flags = _INCOMPLETE * self.is_incomplete | _PARTIAL * self.is_partial | _LAST * self.is_last
        entries = [
            _ENTRY.pack(
                region_id, state.last_logged, state.numbers_until, state.stamps_until, state.manifest_generation
            )
            for region_id, state in sorted(self.regions.items())
        ]
        return _HEAD.pack(flags, len(entries), self.catalog_generation, *self.since) + b"".join(entries)


def marker_size(region_count: int) -> int:
    """The size in bytes of a marker that names this many regions."""
    return _HEAD.size + region_count * _ENTRY.size


def decode_marker(payload: bytes, version: int) -> Marker:
    """Decodes a marker of a segment of this format version. Raises ValueError when the payload is not one."""
    head, entry, flags_known = (_HEAD_1, _ENTRY_1, _INCOMPLETE) if version == 1 else (_HEAD, _ENTRY, 7)
    if len(payload) < head.size:
        raise ValueError(f"a marker of {len(payload)} bytes")
    flags, count, *more = head.unpack_from(payload)
    if flags & ~flags_known or len(payload) != head.size + count * entry.size:
        raise ValueError(f"a marker of {len(payload)} bytes with flags {flags:#x} and {count} regions")
    catalog_generation, segment, offset = more or (0, 0, 0)
    return Marker(
        {region_id: RegionState(*state) for region_id, *state in entry.iter_unpack(payload[head.size :])},
        is_incomplete=bool(flags & _INCOMPLETE),
        is_partial=bool(flags & _PARTIAL),
        is_last=bool(flags & _LAST),
        catalog_generation=catalog_generation,
        since=Position(segment, offset),
    )


def is_last_marker(payload: bytes, version: int) -> bool:
    """Whether it is the last marker of a log of this format version that was closed."""
    try:
        return decode_marker(payload, version).is_last
    except ValueError:
        return False


def encode_reservation(numbers_until: int, stamps_until: int) -> bytes:
    return _RESERVATION.pack(numbers_until, stamps_until)


def decode_reservation(payload: bytes) -> tuple[int, int]:
    """Returns (numbers until, stamps until). Raises ValueError when the payload is not a reservation."""
    if len(payload) != _RESERVATION.size:
        raise ValueError(f"a reservation of {len(payload)} bytes")
    numbers_until, stamps_until = _RESERVATION.unpack(payload)
    return numbers_until, stamps_until


def encode_generation(generation: int) -> bytes:
    return _GENERATION.pack(generation)


def decode_generation(payload: bytes) -> int:
    """Raises ValueError when the payload is not a generation."""
    if len(payload) != _GENERATION.size:
        raise ValueError(f"a generation of {len(payload)} bytes")
    (generation,) = _GENERATION.unpack(payload)
    assert isinstance(generation, int)
    return generation
