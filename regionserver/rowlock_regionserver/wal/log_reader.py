"""One pass over the segments of a log, oldest first: delivers records, and finds losses and the log's end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.wal.displaced import displaced_proof
from rowlock_regionserver.wal.durable import DurableNote
from rowlock_regionserver.wal.log_cleaner import Sealed
from rowlock_regionserver.wal.log_replay import Apply, Damage, LogReplay
from rowlock_regionserver.wal.marker import is_last_marker
from rowlock_regionserver.wal.reader import Run, SegmentBytes, cut_run, find_runs, unpack_records
from rowlock_regionserver.wal.record import ALIGNMENT, MARKER, NOWHERE, RECORD, Position, record_size, segment_seed
from rowlock_regionserver.wal.recovered import Recovered
from rowlock_regionserver.wal.segment import (
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    decode_segment_header,
    segment_path,
)


class LogReader:
    """Reads one log, once."""

    def __init__(
        self,
        folder: Path,
        files: Files,
        apply: Apply,
        flushed: Mapping[int, int],
        expected_log_id: bytes | None,
        note: DurableNote | None,
        durable: Position,
    ) -> None:
        """`note` is the content of the file `durable`; `durable` is the greatest position in manifests and catalog."""
        self._folder = folder
        self._files = files
        self._log_id = expected_log_id
        self._note = note
        self._durable = durable
        self._replay = LogReplay(apply, flushed)
        self._segments: list[Sealed] = []
        self._gaps: list[Damage] = []
        self._byte_count = 0

    def read(self, numbers: list[int]) -> Recovered:
        """Reads the segments of these consecutive numbers, at least one. Raises CorruptionError."""
        # A segment's final length is in its successor's header, so two segments are in memory.
        data = self._files.read(segment_path(self._folder, numbers[0]))
        header = self._header(numbers[0], data)
        self._check_newest(numbers[-1])
        for number in numbers[1:]:
            next_data = self._files.read(segment_path(self._folder, number))
            next_header = self._header(number, next_data)
            self._read_sealed(self._segment(header, data), next_header.predecessor_bytes)
            data, header = next_data, next_header
        end_bytes, proven_bytes, unproven = self._read_last(self._segment(header, data), header.allocated_bytes)
        is_torn = _has_any(data, end_bytes)
        self._replay.finish()
        replay = self._replay
        assert self._log_id is not None
        return Recovered(
            log_id=self._log_id,
            regions=replay.regions(),
            damaged=replay.damaged,
            unknown_damage=replay.damage_of_unknown(),
            catalog_generation=replay.catalog_generation,
            gaps=tuple(self._gaps),
            torn=Position(numbers[-1], end_bytes) if is_torn else None,
            starts=replay.starts(),
            record_count=replay.record_count,
            byte_count=self._byte_count,
            segments=tuple(self._segments),
            last_segment=numbers[-1],
            last_version=header.version,
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

    def _segment(self, header: SegmentHeader, data: bytes) -> SegmentBytes:
        path = segment_path(self._folder, header.number)
        return SegmentBytes(path, header.number, header.version, segment_seed(header.log_id, header.number), data)

    def _check_newest(self, number: int) -> None:
        """Checks the newest segment against the positions in the file `durable`, manifests and catalog."""
        if self._note is not None and self._note.log_id != self._log_id:
            self._note = None
        if self._note is not None:
            self._durable = max(self._durable, self._note.position)
        if self._durable.segment > number:
            raise CorruptionError.missing(
                segment_path(self._folder, self._durable.segment),
                f"log segment {self._durable.segment}, which was durable up to byte {self._durable.offset}",
                "no file",
            )

    def _read_sealed(self, segment: SegmentBytes, final_bytes: int) -> None:
        """Reads a segment with a successor: all of it, up to its final length, was proven durable."""
        proven = Position(segment.number, final_bytes)
        limit = min(final_bytes, len(segment.data))
        touched: dict[int, int] = {}
        gap_count = len(self._gaps)
        offset, _ = self._replay.read(segment, SEGMENT_HEADER_BYTES, limit, touched)
        if offset < final_bytes:
            later = find_runs(segment.data, offset + ALIGNMENT, limit, segment.seed, segment.number)
            self._read_later(segment, offset, later, proven, touched)
        self._segments.append(Sealed(segment.number, touched, len(self._gaps) > gap_count))
        self._byte_count += final_bytes

    def _read_last(self, segment: SegmentBytes, allocated_bytes: int) -> tuple[int, int, list[bytes]]:
        """Reads the last segment. Returns the end of its valid records, its proven length, and what is valid beyond."""
        data, seed, number = segment.data, segment.seed, segment.number
        touched: dict[int, int] = {}
        gap_count = len(self._gaps)
        offset, proven = self._replay.read(segment, SEGMENT_HEADER_BYTES, len(data), touched)
        runs = [Run(SEGMENT_HEADER_BYTES, offset, proven)]
        later = find_runs(data, offset + ALIGNMENT, len(data), seed, number) if _has_any(data, offset) else []
        proven = self._proven(segment, allocated_bytes, runs + later)
        read, offset = self._read_later(segment, offset, later, proven, touched)
        unproven = [cut_run(data, run, proven.offset, seed) for run in runs + read if run.stop > proven.offset]
        self._segments.append(Sealed(number, touched, len(self._gaps) > gap_count))
        self._byte_count += offset
        return offset, proven.offset, unproven

    def _proven(self, segment: SegmentBytes, allocated_bytes: int, runs: list[Run]) -> Position:
        """How far the last segment was durable, by all the evidence. `runs` are all its valid records."""
        # The first marker was durable before the segment had its name.
        first_stop = Position(segment.number, _first_record_stop(segment.data, runs[0]))
        displaced = NOWHERE
        if _has_any(segment.data, runs[0].stop):
            displaced = displaced_proof(segment.data, runs[0].stop, segment.seed, segment.number)
        full = Position(segment.number, allocated_bytes)
        is_short = len(segment.data) < allocated_bytes and not self._was_truncated(segment, runs[-1])
        return max([first_stop, displaced, self._durable, full if is_short else NOWHERE, *(r.proven for r in runs)])

    def _was_truncated(self, segment: SegmentBytes, last_run: Run) -> bool:
        """Whether the file was truncated by a log that was closed, or by a recovery that cut its tail."""
        note = self._note
        if note is not None and note.position.segment == segment.number and 0 < note.cut_bytes <= len(segment.data):
            return True
        if last_run.stop != len(segment.data) or last_run.start == last_run.stop:
            return False
        *_, last = unpack_records(segment.data[last_run.start : last_run.stop])
        return last.kind == MARKER and is_last_marker(last.payload, segment.version)

    def _read_later(
        self, segment: SegmentBytes, offset: int, later: list[Run], proven: Position, touched: dict[int, int]
    ) -> tuple[list[Run], int]:
        """Reads later runs while the bad bytes before them were proven durable. Returns these runs and their end."""
        read: list[Run] = []
        for run in later:
            if Position(segment.number, offset) >= proven:
                return read, offset
            self._add_gap(segment, offset, f"the next at byte {run.start}")
            offset, _ = self._replay.read(segment, run.start, run.stop, touched)
            assert offset == run.stop, f"{segment.path} changed while it was read"
            read.append(run)
        if Position(segment.number, offset) < proven:
            found = "none up to the segment's end"
            if len(segment.data) < proven.offset:
                found = f"the end of the file at byte {len(segment.data)}"
            self._add_gap(segment, offset, found)
        return read, offset

    def _add_gap(self, segment: SegmentBytes, offset: int, found: str) -> None:
        damage = Damage(segment.path, offset, "a valid record, because it was proven durable", found)
        self._gaps.append(damage)
        self._replay.gap(damage, Position(segment.number, offset))


def _first_record_stop(data: bytes, run: Run) -> int:
    """The end of a segment's first record; if that is bad, a place just after its start, so that it counts as lost."""
    if run.stop == run.start:
        return run.start + ALIGNMENT
    return run.start + record_size(RECORD.unpack_from(data, run.start)[1])


def _has_any(data: bytes, start: int) -> bool:
    """Whether a byte from `start` on is not zero."""
    return bool(np.frombuffer(data, np.uint8)[start:].any())
