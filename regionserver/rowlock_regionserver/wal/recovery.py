"""Recovery: what the log holds is delivered, its torn tail is cut, and what it lost is named.

Only the last segment can have a torn tail: a segment exists only once its predecessor is durable up to its final
length. In the last segment let P be the greatest position that was durable, as valid records say, the file beside the
log, manifests and catalog, and the length of the segment's own file. A bad place before P is damage: reading goes on
with the next valid record. The first bad place at or after P is the torn tail: appends that were not synced reach the
disk in any order, so valid records behind it prove nothing and go with it.

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
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.wal.durable import DurableFile, DurableNote, read_durable
from rowlock_regionserver.wal.log_reader import LogReader
from rowlock_regionserver.wal.record import NOWHERE, Position
from rowlock_regionserver.wal.recovered import Recovered
from rowlock_regionserver.wal.replay import Apply
from rowlock_regionserver.wal.segment import LOG_ID_BYTES, segment_number, segment_path


class ReadLog(Protocol):
    """`recover`, or `read_log`."""

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

    `apply(region_id, write_number, kind, payload)` also gets changes that are in store files already, which it has
    to pass over by their write number; what it raises ends the recovery. Makes the folder when it is missing.

    `flushed` is, by region, the write number up to which everything is in store files: what is lost of that breaks
    no chain. `expected_log_id` is the id that this log had before, and `durable` how far it was durable at some time,
    if that is known.

    Raises CorruptionError when a segment or the whole log is missing, its header is damaged, or it is of another log;
    DataFolderError when it is of another format version. Other damage is named in what is returned.
    """
    try:
        files.list_folder(folder)
    except FileNotFoundError:
        files.make_folder(folder)
        files.fsync_folder(folder.parent)
    recovered = _read_log(folder, files, apply, flushed or {}, expected_log_id, durable)
    if recovered.is_tail_whole:
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
    """The same as `recover`, but changes nothing on the disk: to verify or salvage a stopped server's log."""
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
    """What the file beside the log says. It proves what it says; one that is damaged proves nothing."""
    try:
        return read_durable(folder, files)
    except CorruptionError:
        return None


def _cut_tail(folder: Path, files: Files, recovered: Recovered) -> None:
    """Cuts the last segment at the end of its records, which makes room for the next one on a full disk.

    A segment that is shorter than it was made is damage, unless a note that is durable says who made it so.
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
    """False: there is no space for the note."""
    durable = DurableFile(folder, files, recovered.log_id)
    try:
        is_noted = durable.write(Position(recovered.last_segment, recovered.proven_bytes), recovered.end_bytes)
        durable.sync()
        return is_noted
    finally:
        durable.close()
