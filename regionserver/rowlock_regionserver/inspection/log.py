"""Reads the log of a stopped server: checks every checksum, or extracts every intact record."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.inspection.folder import StoredFolder, listed
from rowlock_regionserver.wal.durable import read_durable
from rowlock_regionserver.wal.reader import find_runs, unpack_records
from rowlock_regionserver.wal.record import GENERATION, Record, segment_seed
from rowlock_regionserver.wal.recovered import Recovered
from rowlock_regionserver.wal.recovery import read_log
from rowlock_regionserver.wal.segment import (
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    decode_segment_header,
    segment_number,
    segment_path,
)

# (region id, write number, kind, payload), in log order.
Apply = Callable[[int, int, int, bytes], None]


@dataclass(frozen=True, slots=True)
class LogFound:
    """The result of checking the log. `recovered` None: it could not be read completely."""

    recovered: Recovered | None
    segment_count: int


def check_log(stored: StoredFolder, files: Files, apply: Apply, damage: list[CorruptionError]) -> LogFound:
    """Delivers the changes that recovery would, without changes on disk; adds damage to `damage`.

    A torn tail is not damage: its records were never proven durable.
    """
    headers, damaged_headers = _headers(stored.log_folder, files)
    if damaged_headers:
        damage.extend(damaged_headers)
        return LogFound(None, len(headers))
    try:
        read_durable(stored.log_folder, files)
    except CorruptionError as error:
        damage.append(error)
    try:
        recovered = read_log(
            stored.log_folder,
            files,
            apply,
            flushed=stored.flushed(),
            expected_log_id=stored.log_id,
            durable=stored.log_position,
        )
    except CorruptionError as error:
        damage.append(error)
        return LogFound(None, len(headers))
    except OSError as error:
        damage.append(CorruptionError.of(error, stored.log_folder))
        return LogFound(None, len(headers))
    damage.extend(gap.error() for gap in recovered.gaps)
    # A chain may also break without bad bytes: by a valid segment of another time, say.
    known = {(gap.path, gap.offset) for gap in recovered.gaps}
    damage.extend(each.error() for each in recovered.damaged.values() if (each.path, each.offset) not in known)
    return LogFound(recovered, len(headers))


def intact_records(folder: Path, files: Files) -> Iterator[Record]:
    """Yields every valid change in the log, in log order, also between damaged places.

    A segment with a damaged header is read by its name and the log's id in the other segments.
    """
    headers, _ = _headers(folder, files)
    log_ids = Counter(header.log_id for header in headers.values() if header is not None)
    if not log_ids:
        return
    ((log_id, _),) = log_ids.most_common(1)
    for number in sorted(headers):
        try:
            data = files.read(segment_path(folder, number))
        except OSError:
            continue  # It was reported.
        following = headers.get(number + 1)
        # Beyond its final length a segment has records of which its successor has copies.
        limit = len(data) if following is None else min(len(data), following.predecessor_bytes)
        for run in find_runs(data, SEGMENT_HEADER_BYTES, limit, segment_seed(log_id, number), number):
            for record in unpack_records(data[run.start : run.stop]):
                if record.kind < GENERATION:
                    yield record


def _headers(folder: Path, files: Files) -> tuple[dict[int, SegmentHeader | None], list[CorruptionError]]:
    """Returns the segments by number, with None for a damaged header, and the damage."""
    headers: dict[int, SegmentHeader | None] = {}
    damage: list[CorruptionError] = []
    for name in listed(files, folder, damage):
        number = segment_number(name)
        if number is None:
            continue
        path = folder / name
        headers[number] = None
        try:
            headers[number] = decode_segment_header(path, _head(files, path))
        except CorruptionError as error:
            damage.append(error)
        except OSError as error:
            damage.append(CorruptionError.of(error, path))
    return headers, damage


def _head(files: Files, path: Path) -> bytes:
    descriptor = files.open(path, os.O_RDONLY)
    try:
        return files.pread(descriptor, SEGMENT_HEADER_BYTES, 0)
    finally:
        files.close(descriptor)
