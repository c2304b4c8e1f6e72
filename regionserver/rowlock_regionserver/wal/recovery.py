"""Recovery: delivers the log's records, cuts its torn tail, and names what is lost.

Only the last segment can have a torn tail: a segment exists only when its predecessor is durable up to its final
length. In the last segment let P be the greatest position that was durable, by the evidence of valid records, of the
file `durable`, of manifests and catalog, and of the length of the segment's file. A bad place before P is damage:
reading continues with the next valid record. The first bad place at or after P is the torn tail: appends that were not
synced reach the disk in any order, so valid records after it prove nothing and are cut too.

Records between P and the cut may have been acknowledged, and may be only in the page cache. They are delivered, and
`Log.open` copies them: it makes a segment whose header states P as the final length of this one and which begins with
the copies, syncs it, and renames it to its name. That rename is the only step that counts. Before it, a crash leaves
the log as it was, and recovery repeats its steps; after it, the originals are beyond their segment's final length and
are not read. So no record is delivered twice, and none is lost, whenever a crash happens.
"""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.wal.durable import DurableFile, DurableNote, read_durable
from rowlock_regionserver.wal.log_reader import LogReader
from rowlock_regionserver.wal.log_replay import Apply
from rowlock_regionserver.wal.record import NOWHERE, Position
from rowlock_regionserver.wal.recovered import Recovered
from rowlock_regionserver.wal.segment import LOG_ID_BYTES, segment_number, segment_path


class ReadLog(Protocol):
    """The signature of `recover` and `read_log`."""

    def __call__(
        self,
        folder: Path,
        files: Files,
        apply: Apply,
        *,
        flushed: Mapping[int, int] | None = None,
        expected_log_id: bytes | None = None,
        durable: Position = NOWHERE,
    ) -> Recovered: ...


def recover(
    folder: Path,
    files: Files,
    apply: Apply,
    *,
    flushed: Mapping[int, int] | None = None,
    expected_log_id: bytes | None = None,
    durable: Position = NOWHERE,
) -> Recovered:
    """Reads the log in `folder`, delivers each change to `apply` in log order, and cuts a torn tail.

    `apply(region_id, write_number, kind, payload)` also gets changes that are already in store files; it must skip them
    by their write number; an exception of `apply` ends the recovery. Makes the folder when it is missing.

    `flushed` is, by region, the write number up to which everything is in store files or in the manifest: a loss up to
    there breaks no chain. `expected_log_id` is the id that this log had before, and `durable` a position up to which it
    was durable, if that is known.

    Raises CorruptionError when a segment or the whole log is missing, a header is damaged, or a segment is of another
    log; DataFolderError when a segment is of another format version. Other damage is in the result.
    """
    try:
        files.list_folder(folder)
    except FileNotFoundError:
        files.make_folder(folder)
        files.fsync_folder(folder.parent)
    recovered = _read_log(folder, files, apply, flushed or {}, expected_log_id, durable)
    if recovered.is_tail_intact:
        _cut_tail(folder, files, recovered)
    return recovered


def read_log(
    folder: Path,
    files: Files,
    apply: Apply,
    *,
    flushed: Mapping[int, int] | None = None,
    expected_log_id: bytes | None = None,
    durable: Position = NOWHERE,
) -> Recovered:
    """Reads the log like `recover`, but changes nothing on the disk: to verify or salvage a stopped server's log."""
    return _read_log(folder, files, apply, flushed or {}, expected_log_id, durable)


def _read_log(
    folder: Path,
    files: Files,
    apply: Apply,
    flushed: Mapping[int, int],
    expected_log_id: bytes | None,
    durable: Position,
) -> Recovered:
    note = _note(folder, files)
    numbers = sorted(number for name in files.list_folder(folder) if (number := segment_number(name)) is not None)
    if not numbers:
        log_id = expected_log_id or (note.log_id if note is not None else None)
        if log_id is not None:
            raise CorruptionError.missing(folder, f"the segments of log {log_id.hex()}", "none: they are missing")
        return Recovered(secrets.token_bytes(LOG_ID_BYTES))
    for before, number in itertools.pairwise(numbers):
        if number != before + 1:
            raise CorruptionError.missing(segment_path(folder, before + 1), f"log segment {before + 1}", "no file")
    return LogReader(folder, files, apply, flushed, expected_log_id, note, durable).read(numbers)


def _note(folder: Path, files: Files) -> DurableNote | None:
    """Reads the file `durable`; None when it is missing, or damaged and so proves nothing."""
    try:
        return read_durable(folder, files)
    except CorruptionError:
        return None


def _cut_tail(folder: Path, files: Files, recovered: Recovered) -> None:
    """Cuts the last segment at the end of its records, which frees space for the next one on a full disk.

    A segment that is shorter than it was made is damage, unless a durable note says that a recovery cut it.
    """
    path = segment_path(folder, recovered.last_segment)
    if recovered.end_bytes >= files.size(path):
        return
    if recovered.last_version > 1 and not _note_cut(folder, files, recovered):
        return
    descriptor = files.open(path, os.O_RDWR)
    try:
        files.truncate(descriptor, recovered.end_bytes)
        files.fsync(descriptor)
    finally:
        files.close(descriptor)


def _note_cut(folder: Path, files: Files, recovered: Recovered) -> bool:
    """Writes a durable note of the cut. Returns False if there is no disk space for it."""
    durable = DurableFile(folder, files, recovered.log_id)
    try:
        is_noted = durable.write(Position(recovered.last_segment, recovered.proven_bytes), recovered.end_bytes)
        durable.sync()
        return is_noted
    finally:
        durable.close()
