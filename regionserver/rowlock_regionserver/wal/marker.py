"""The payloads of the log's own records: markers and reservations.

A marker says, of every region that the log knows, where its chain of write numbers ends and what was reserved for
it. Each segment begins with one; one is written and synced when the log falls idle, and when it is closed.

    offset  bytes  field
         0      4  flags   bit 0: incomplete; a region that is missing here may nevertheless have lost records
         4      4  count
                   count times, in ascending order of region id:
                8  region id
                8  last logged write number; 2**64 - 1: the region's chain is broken, it is not served
                8  numbers until   write numbers below this may have been handed out
                8  stamps until    timestamps below this may have been handed out

A reservation's payload is the last two of these, for the region in its header.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

_HEAD = struct.Struct("<II")
_ENTRY = struct.Struct("<QQQQ")
_RESERVATION = struct.Struct("<QQ")
_INCOMPLETE = 1

# Stands for a last logged write number in a marker: the region's chain was found broken by an earlier recovery.
BROKEN = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class RegionState:
    """Where a region's chain ends, and what it may have handed out: everything below the two bounds."""

    last_logged: int = 0
    numbers_until: int = 0
    stamps_until: int = 0


@dataclass(frozen=True, slots=True)
class Marker:
    """The state of every region that the log knows, by region id."""

    regions: Mapping[int, RegionState]
    is_incomplete: bool = False

    def encode(self) -> bytes:
        entries = [
            _ENTRY.pack(region_id, state.last_logged, state.numbers_until, state.stamps_until)
            for region_id, state in sorted(self.regions.items())
        ]
        return _HEAD.pack(_INCOMPLETE if self.is_incomplete else 0, len(entries)) + b"".join(entries)


def decode_marker(payload: bytes) -> Marker:
    """ValueError when the payload is no marker."""
    if len(payload) < _HEAD.size:
        raise ValueError(f"a marker of {len(payload)} bytes")
    flags, count = _HEAD.unpack_from(payload)
    if flags & ~_INCOMPLETE or len(payload) != _HEAD.size + count * _ENTRY.size:
        raise ValueError(f"a marker of {len(payload)} bytes with flags {flags:#x} and {count} regions")
    return Marker(
        {
            region_id: RegionState(last_logged, numbers_until, stamps_until)
            for region_id, last_logged, numbers_until, stamps_until in _ENTRY.iter_unpack(payload[_HEAD.size :])
        },
        bool(flags & _INCOMPLETE),
    )


def encode_reservation(numbers_until: int, stamps_until: int) -> bytes:
    return _RESERVATION.pack(numbers_until, stamps_until)


def decode_reservation(payload: bytes) -> tuple[int, int]:
    """(numbers until, stamps until); ValueError when the payload is no reservation."""
    if len(payload) != _RESERVATION.size:
        raise ValueError(f"a reservation of {len(payload)} bytes")
    numbers_until, stamps_until = _RESERVATION.unpack(payload)
    return numbers_until, stamps_until
