"""Finds the records in the bytes of a segment: one after the other, and by a search after bad bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rowlock_regionserver.wal.record import (
    ALIGNMENT,
    HEADER_BYTES,
    RECORD,
    SIZE_MASK,
    SIZE_ROUNDING,
    Position,
    Record,
    extend_checksum,
)

_LENGTH = struct.Struct("<4xI")

# How many offsets one vector operation checks; bounds the memory of a search.
_SEARCH_OFFSETS = 1 << 18


@dataclass(frozen=True, slots=True)
class SegmentBytes:
    """The bytes of a segment, with what is needed to read its records."""

    path: Path
    number: int
    version: int  # of the format
    seed: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Run:
    """Adjacent valid records in [start, stop), and the greatest position that they call proven durable."""

    start: int
    stop: int
    proven: Position


def read_run(data: bytes, start: int, limit: int, seed: int) -> Run:
    """Returns the run of valid records from `start` to the first that is bad or reaches beyond `limit`."""
    offset = start
    proven = Position(0, 0)
    while offset + HEADER_BYTES <= limit:
        checksum, length, _, _, _, durable_segment, durable_offset, kind = RECORD.unpack_from(data, offset)
        end = offset + ((length + SIZE_ROUNDING) & SIZE_MASK)
        if not kind or end > limit or extend_checksum(seed ^ offset, data[offset + 4 : end]) != checksum:
            break
        proven = max(proven, Position(durable_segment, durable_offset))
        offset = end
    return Run(start, offset, proven)


def find_runs(
    data: bytes, start: int, limit: int, seed: int, number: int, *, search_offsets: int = _SEARCH_OFFSETS
) -> list[Run]:
    """Returns all runs of valid records that begin at or after `start`, in order.

    Checks each aligned offset, in time linear in the bytes: vector operations exclude impossible headers, then the
    checksums of the others are computed. `number` is the segment's. One operation checks `search_offsets` offsets.
    """
    runs: list[Run] = []
    offset = -(-start // ALIGNMENT) * ALIGNMENT
    while offset + HEADER_BYTES <= limit:
        stop = min(offset + search_offsets * ALIGNMENT, limit - HEADER_BYTES + ALIGNMENT)
        for candidate in _candidates(data, offset, stop, limit, number):
            if candidate < offset:
                continue  # inside the last run
            run = read_run(data, candidate, limit, seed)
            if run.stop > run.start:
                runs.append(run)
                offset = run.stop
        offset = max(offset, -(-stop // ALIGNMENT) * ALIGNMENT)
    return runs


def cut_run(data: bytes, run: Run, offset: int, seed: int) -> bytes:
    """Returns the bytes of the records of a run that begin at or after `offset`."""
    if run.start < offset < run.stop and read_run(data, offset, run.stop, seed).stop == run.stop:
        return data[offset : run.stop]  # A record begins there, as at each position where the log was synced.
    start = run.start
    while start < min(offset, run.stop):
        (length,) = _LENGTH.unpack_from(data, start)
        start += (length + SIZE_ROUNDING) & SIZE_MASK
    return data[start : run.stop]


def unpack_records(data: bytes) -> Iterator[Record]:
    """Yields the adjacent valid records in `data`."""
    offset = 0
    while offset < len(data):
        _, length, region_id, write_number, previous, _, _, kind = RECORD.unpack_from(data, offset)
        payload = data[offset + HEADER_BYTES : offset + HEADER_BYTES + length]
        yield Record(region_id, write_number, previous, kind, payload)
        offset += (length + SIZE_ROUNDING) & SIZE_MASK


def find_candidates(data: bytes, start: int, limit: int, number: int) -> Iterator[int]:
    """Yields all offsets at or after `start` with a plausible header, wherever its record belongs in the segment."""
    offset = -(-start // ALIGNMENT) * ALIGNMENT
    while offset + HEADER_BYTES <= limit:
        stop = offset + _SEARCH_OFFSETS * ALIGNMENT
        yield from _candidates(data, offset, stop, limit, number, is_in_place=False)
        offset = stop


def _candidates(data: bytes, start: int, stop: int, limit: int, number: int, *, is_in_place: bool = True) -> list[int]:
    """Offsets in [start, stop) at which a header is plausible."""
    count = max(0, -(-(min(stop, limit - HEADER_BYTES + 1) - start) // ALIGNMENT))
    if not count:
        return []

    def column(field_offset: int, dtype: str) -> npt.NDArray[np.int64]:
        field: npt.NDArray[np.int64] = np.ndarray(
            (count,), dtype=dtype, buffer=data, offset=start + field_offset, strides=(ALIGNMENT,)
        ).astype(np.int64)
        return field

    offsets = start + np.arange(count, dtype=np.int64) * ALIGNMENT
    durable_segment = column(32, "<u4")
    plausible = column(40, "u1") != 0
    plausible &= (durable_segment >= 1) & (durable_segment <= number)
    plausible &= offsets + column(4, "<u4") + HEADER_BYTES <= limit
    if is_in_place:
        plausible &= (durable_segment < number) | (column(36, "<u4") <= offsets)
    candidates: list[int] = offsets[plausible].tolist()
    return candidates
