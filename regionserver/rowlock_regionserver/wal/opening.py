"""Begins the first segment of a recovered log, with copies of the records that are valid but not proven durable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import DiskFullError
from rowlock_regionserver.files import Files, write_all
from rowlock_regionserver.system_errors import NO_SPACE
from rowlock_regionserver.wal.marker import DAMAGED, Marker, RegionState
from rowlock_regionserver.wal.record import Position, Record, encode_record, segment_seed
from rowlock_regionserver.wal.recovered import Recovered
from rowlock_regionserver.wal.segment import (
    FORMAT_VERSION,
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    encode_head,
    make_preallocated,
    name_preallocated,
)

# When the disk is full, a server still starts, in a segment with this much space for reservations and markers.
SMALL_SEGMENT_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class BegunSegment:
    """A durable segment under its name: `head_bytes` of header and marker, `byte_count` with the copies."""

    header: SegmentHeader
    descriptor: int
    head_bytes: int
    byte_count: int
    capacity: int


def begin_segment(folder: Path, files: Files, config: Config, recovered: Recovered) -> BegunSegment:
    """Makes the segment after the last one. Its rename decides that the copies count and the originals don't.

    Raises DiskFullError when there is no space for the copies. With less space than a segment it makes a small one.
    """
    header = SegmentHeader(
        recovered.last_segment + 1,
        recovered.log_id,
        recovered.last_segment,
        recovered.proven_bytes,
        version=max(FORMAT_VERSION, recovered.last_version),
    )
    head, copies = _content(header, recovered)
    byte_count = len(head) + len(copies)
    descriptor, capacity = _allocate(
        folder, files, [max(config.log_segment_bytes, byte_count), byte_count + SMALL_SEGMENT_BYTES]
    )
    header = replace(header, allocated_bytes=capacity)
    try:
        write_all(files, descriptor, header.encode() + head[SEGMENT_HEADER_BYTES:] + copies, 0)
        files.fdatasync(descriptor)
        name_preallocated(files, folder, header.number)
    except BaseException:
        files.close(descriptor)
        raise
    return BegunSegment(header, descriptor, len(head), byte_count, capacity)


def _allocate(folder: Path, files: Files, sizes: Iterable[int]) -> tuple[int, int]:
    for size in sizes:
        try:
            return make_preallocated(files, folder, size), size
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
    raise DiskFullError(
        f"no space in {folder} to copy the end of the log to a new segment; free some disk space and start again"
    )


def _content(header: SegmentHeader, recovered: Recovered) -> tuple[bytes, bytearray]:
    """Returns the head, and the copies that follow it."""
    regions = _regions_before(recovered.regions, recovered.unproven_changes())
    regions.update((region_id, RegionState(DAMAGED)) for region_id in recovered.damaged)
    marker = Marker(
        regions, recovered.unknown_damage is not None, catalog_generation=recovered.catalog_generation
    ).encode()
    # Only the part of the log before the copies is proven durable.
    durable = Position(header.predecessor, header.predecessor_bytes) if header.predecessor else Position(1, 0)
    seed = segment_seed(header.log_id, header.number)
    head = encode_head(header, seed, marker, durable)
    copies = bytearray()
    for record in recovered.unproven_changes():
        copies += encode_record(
            seed,
            len(head) + len(copies),
            record.region_id,
            record.write_number,
            record.previous,
            durable,
            record.kind,
            record.payload,
        )
    return head, copies


def _regions_before(regions: Mapping[int, RegionState], records: Iterable[Record]) -> dict[int, RegionState]:
    """The regions before these records: a chain ends at the predecessor of the region's first record."""
    before = dict(regions)
    seen: set[int] = set()
    for record in records:
        if record.region_id in before and record.region_id not in seen:
            seen.add(record.region_id)
            before[record.region_id] = replace(before[record.region_id], last_logged=record.previous)
    return before
