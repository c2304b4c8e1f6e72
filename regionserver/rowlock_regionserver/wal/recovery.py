"""Recovery: what the log holds is delivered, its torn tail is cut, and what it lost is named.

Only the last segment can have a torn tail: a segment exists only once its predecessor is durable up to its final
length. In the last segment let P be the greatest position that any valid record calls proven durable. A bad place
before P is damage: reading goes on with the next valid record. The first bad place at or after P is the torn tail:
appends that were not synced reach the disk in any order, so valid records behind it prove nothing and go with it.

What lies between P and the cut was perhaps acknowledged and is perhaps only in the page cache. It is delivered, and
`Log.open` writes it anew: it makes a segment whose header states P as the final length of this one and which
begins with copies of those records, syncs it, and names it. That rename is the only step that counts. Before it, a
crash leaves the log as it was, and recovery does the same again; after it, the old copies lie beyond their segment's
final length and are not read. So no record is delivered twice, and none is lost, wherever a crash falls.
"""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rowlock_regionserver.errors import CorruptionError, DataFolderError
from rowlock_regionserver.files import Files
from rowlock_regionserver.wal.marker import RegionState
from rowlock_regionserver.wal.reader import Run, cut_run, find_runs, unpack_records
from rowlock_regionserver.wal.record import ALIGNMENT, RECORD, RESERVATION, Position, Record, record_size, segment_seed
from rowlock_regionserver.wal.replay import Apply, Damage, Replay
from rowlock_regionserver.wal.segment import (
    LOG_ID_BYTES,
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    decode_segment_header,
    segment_number,
    segment_path,
)
from rowlock_regionserver.wal.trimmer import Sealed


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was found in a log, and what `Log.open` needs to go on with it."""

    log_id: bytes
    # The regions that the log knows: whole ones, and damaged ones with the reason.
    regions: Mapping[int, RegionState] = field(default_factory=dict)
    broken: Mapping[int, Damage] = field(default_factory=dict)
    # Why a region that the log does not know may have lost records.
    unknown_broken: Damage | None = None
    # Each place where proven records are lost, and the place where a torn tail was found.
    gaps: tuple[Damage, ...] = ()
    torn: Position | None = None
    # What must be in store files because the log begins after it: region and write number.
    starts: Mapping[int, int] = field(default_factory=dict)
    record_count: int = 0  # changes delivered
    byte_count: int = 0  # of segments, headers and markers included
    # For `Log.open`: the segments; the last one's number (0: a new log), the end of its valid records, the length
    # up to which it is proven durable, and the valid records beyond, as they were read.
    segments: tuple[Sealed, ...] = ()
    last_segment: int = 0
    end_bytes: int = 0
    proven_bytes: int = 0
    unproven: tuple[bytes, ...] = ()

    def unproven_changes(self) -> Iterator[Record]:
        """The changes that are written anew, in log order."""
        for records in self.unproven:
            yield from (record for record in unpack_records(records) if record.kind < RESERVATION)

    def damage_of(self, region_id: int) -> Damage | None:
        """Why this region must not be served; None when the log is whole for it."""
        if region_id in self.regions:
            return None
        return self.broken.get(region_id, self.unknown_broken)


def recover(
    folder: Path,
    files: Files,
    apply: Apply,
    *,
    flushed: Mapping[int, int] | None = None,
    expected_log_id: bytes | None = None,
) -> Recovered:
    """Reads the log in `folder`, delivers each change to `apply` in log order, and cuts a torn tail.

    `apply(region_id, write_number, kind, payload)` also gets changes that are in store files already, which it has
    to pass over by their write number; what it raises ends the recovery. Makes the folder when it is missing.

    `flushed` is, by region, the write number up to which everything is in store files: what is lost of that breaks
    no chain. `expected_log_id` is the id that this log had before, if that is known.

    Raises CorruptionError when a segment is missing, its header is damaged, or it is of another log; DataFolderError
    when it is of another format version, or the whole log is missing. Other damage is named in what is returned.
    """
    try:
        files.list_folder(folder)
    except FileNotFoundError:
        files.make_folder(folder)
        files.fsync_folder(folder.parent)
    recovered = _read_log(folder, files, apply, flushed or {}, expected_log_id)
    path = segment_path(folder, recovered.last_segment)
    if recovered.last_segment and recovered.end_bytes < files.size(path):
        descriptor = files.open(path, os.O_RDWR)
        try:
            files.truncate(descriptor, recovered.end_bytes)
            files.fsync(descriptor)
        finally:
            files.close(descriptor)
    return recovered


def read_log(folder: Path, files: Files, apply: Apply, *, flushed: Mapping[int, int] | None = None) -> Recovered:
    """The same as `recover`, but changes nothing on the disk: to verify or salvage a stopped server's log."""
    return _read_log(folder, files, apply, flushed or {}, None)


def _read_log(
    folder: Path, files: Files, apply: Apply, flushed: Mapping[int, int], expected_log_id: bytes | None
) -> Recovered:
    numbers = sorted(number for name in files.list_folder(folder) if (number := segment_number(name)) is not None)
    if not numbers:
        if expected_log_id is not None:
            raise DataFolderError(f"The log in {folder} is missing: it had the id {expected_log_id.hex()}.")
        return Recovered(secrets.token_bytes(LOG_ID_BYTES))
    for before, number in itertools.pairwise(numbers):
        if number != before + 1:
            raise CorruptionError(segment_path(folder, before + 1), 0, f"log segment {before + 1}", "no file")
    return _LogReader(folder, files, apply, flushed, expected_log_id).read(numbers)


class _LogReader:
    """One pass over the segments of a log, the oldest first."""

    def __init__(
        self, folder: Path, files: Files, apply: Apply, flushed: Mapping[int, int], expected_log_id: bytes | None
    ) -> None:
        self._folder = folder
        self._files = files
        self._log_id = expected_log_id
        self._replay = Replay(apply, flushed)
        self._segments: list[Sealed] = []
        self._gaps: list[Damage] = []
        self._byte_count = 0

    def read(self, numbers: list[int]) -> Recovered:
        # A segment's final length stands in its successor's header, so one segment more is held than is read.
        data = self._files.read(segment_path(self._folder, numbers[0]))
        self._header(numbers[0], data)
        for number in numbers[1:]:
            next_data = self._files.read(segment_path(self._folder, number))
            header = self._header(number, next_data)
            self._read_sealed(number - 1, data, header.predecessor_bytes)
            data = next_data
        end_bytes, proven_bytes, unproven = self._read_last(numbers[-1], data)
        is_torn = _has_any(data, end_bytes)
        self._replay.finish()
        replay = self._replay
        assert self._log_id is not None
        return Recovered(
            log_id=self._log_id,
            regions=replay.regions(),
            broken=replay.broken,
            unknown_broken=replay.damage_of_unknown(),
            gaps=tuple(self._gaps),
            torn=Position(numbers[-1], end_bytes) if is_torn else None,
            starts=replay.starts(),
            record_count=replay.record_count,
            byte_count=self._byte_count,
            segments=tuple(self._segments),
            last_segment=numbers[-1],
            end_bytes=end_bytes,
            proven_bytes=proven_bytes,
            unproven=tuple(unproven),
        )

    def _header(self, number: int, data: bytes) -> SegmentHeader:
        path = segment_path(self._folder, number)
        header = decode_segment_header(path, data)
        if self._log_id is None:
            self._log_id = header.log_id
        if header.log_id != self._log_id:
            raise CorruptionError(path, 16, f"log id {self._log_id.hex()}", header.log_id.hex())
        if header.number != number:
            raise CorruptionError(path, 12, f"segment {number}, as its name says", f"segment {header.number}")
        if header.predecessor != number - 1:
            raise CorruptionError(path, 32, f"predecessor {number - 1}", f"{header.predecessor}")
        return header

    def _read_sealed(self, number: int, data: bytes, final_bytes: int) -> None:
        """A segment with a successor: all of it, up to its final length, was proven durable."""
        proven = Position(number, final_bytes)
        limit = min(final_bytes, len(data))
        touched: dict[int, int] = {}
        gap_count = len(self._gaps)
        seed = self._seed(number)
        offset, _ = self._replay.read(self._path(number), data, SEGMENT_HEADER_BYTES, limit, seed, touched)
        if offset < final_bytes:
            later = find_runs(data, offset + ALIGNMENT, limit, seed, number)
            self._read_later(number, data, offset, later, proven, touched)
        self._segments.append(Sealed(number, touched, len(self._gaps) > gap_count))
        self._byte_count += final_bytes

    def _read_last(self, number: int, data: bytes) -> tuple[int, int, list[bytes]]:
        """The end of the segment's valid records, its length as proven, and the valid records beyond that."""
        touched: dict[int, int] = {}
        gap_count = len(self._gaps)
        seed = self._seed(number)
        limit = len(data)
        offset, proven = self._replay.read(self._path(number), data, SEGMENT_HEADER_BYTES, limit, seed, touched)
        runs = [Run(SEGMENT_HEADER_BYTES, offset, proven)]
        later = find_runs(data, offset + ALIGNMENT, limit, seed, number) if _has_any(data, offset) else []
        # The first marker was durable before the segment had its name.
        first_stop = Position(number, _first_record_stop(data, runs[0]))
        proven = max([proven, first_stop, *(run.proven for run in later)])
        read, offset = self._read_later(number, data, offset, later, proven, touched)
        unproven = [cut_run(data, run, proven.offset, seed) for run in runs + read if run.stop > proven.offset]
        self._segments.append(Sealed(number, touched, len(self._gaps) > gap_count))
        self._byte_count += offset
        return offset, proven.offset, unproven

    def _read_later(
        self, number: int, data: bytes, offset: int, later: list[Run], proven: Position, touched: dict[int, int]
    ) -> tuple[list[Run], int]:
        """Reads on behind bad bytes at `offset` as long as they were proven durable. What was read, and its end."""
        path = self._path(number)
        read: list[Run] = []
        for run in later:
            if Position(number, offset) >= proven:
                return read, offset
            self._add_gap(path, offset, f"the next at byte {run.start}")
            offset, _ = self._replay.read(path, data, run.start, run.stop, self._seed(number), touched)
            assert offset == run.stop, f"{path} changed while it was read"
            read.append(run)
        if Position(number, offset) < proven:
            self._add_gap(path, offset, "none up to the segment's end")
        return read, offset

    def _add_gap(self, path: Path, offset: int, found: str) -> None:
        damage = Damage(path, offset, "a valid record, for it was proven durable", found)
        self._gaps.append(damage)
        self._replay.gap(damage)

    def _path(self, number: int) -> Path:
        return segment_path(self._folder, number)

    def _seed(self, number: int) -> int:
        assert self._log_id is not None
        return segment_seed(self._log_id, number)


def _first_record_stop(data: bytes, run: Run) -> int:
    """The end of a segment's first record; if that is bad, a place just behind its start, which shows it as lost."""
    if run.stop == run.start:
        return run.start + ALIGNMENT
    return run.start + record_size(RECORD.unpack_from(data, run.start)[1])


def _has_any(data: bytes, start: int) -> bool:
    """Whether a byte from `start` on is not zero."""
    return bool(np.frombuffer(data, np.uint8)[start:].any())
