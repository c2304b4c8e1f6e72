"""The file `durable` in the log's folder: how far the log is durable.

    offset  bytes  field
         0      8  magic             b"rlkdurab"
         8      4  format version
        12      4  checksum          CRC32C of the other 44 bytes
        16     16  log id
        32      4  segment           everything before `offset` of this segment, and all segments before it, were
        36      4  offset              durable when this was written
        40      4  cut bytes         a recovery cuts this segment to this length, or has; 0: none did
        44      4  zeros

It is written in place after each sync of the log, and is seldom synced itself: any version of it that survives a power
failure was true when written. It proves that a bad place at the log's end had been durable, which the log alone can't
prove.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files, write_all
from rowlock_regionserver.system_errors import NO_SPACE
from rowlock_regionserver.wal.record import Position, checksum_of, extend_checksum

NAME = "durable"
MAGIC = b"rlkdurab"
FORMAT_VERSION = 1

_HEAD = struct.Struct("<8sI")
_CHECKSUM = struct.Struct("<I")
_BODY = struct.Struct("<16sIII4x")
_BODY_START = _HEAD.size + _CHECKSUM.size
_FILE_BYTES = _BODY_START + _BODY.size
_HEAD_BYTES = _HEAD.pack(MAGIC, FORMAT_VERSION)
_HEAD_CHECKSUM = checksum_of(_HEAD_BYTES)


@dataclass(frozen=True, slots=True)
class DurableNote:
    """The content of the file."""

    log_id: bytes
    position: Position
    cut_bytes: int = 0

    def encode(self) -> bytes:
        body = _BODY.pack(self.log_id, *self.position, self.cut_bytes)
        return _HEAD_BYTES + _CHECKSUM.pack(extend_checksum(_HEAD_CHECKSUM, body)) + body


def read_durable(folder: Path, files: Files) -> DurableNote | None:
    """Reads the file in the log's folder; None if there is none. Raises CorruptionError when it is damaged."""
    path = folder / NAME
    try:
        data = files.read(path)
    except FileNotFoundError:
        return None
    if not any(data):
        return None  # It was just made.
    if len(data) != _FILE_BYTES:
        raise CorruptionError(path, 0, f"{_FILE_BYTES} bytes", f"{len(data)} bytes")
    (stated,) = _CHECKSUM.unpack_from(data, _HEAD.size)
    computed = extend_checksum(checksum_of(data[: _HEAD.size]), data[_BODY_START:])
    if data[: _HEAD.size] != _HEAD_BYTES or stated != computed:
        raise CorruptionError(path, _HEAD.size, f"checksum {computed:#010x} of format 1", f"{stated:#010x}")
    log_id, segment, offset, cut_bytes = _BODY.unpack_from(data, _BODY_START)
    return DurableNote(log_id, Position(segment, offset), cut_bytes)


class DurableFile:
    """The file, open to be written. For one thread at a time.

    Without disk space it keeps its content, or is missing; the log works without it. Other errors are raised.
    """

    def __init__(self, folder: Path, files: Files, log_id: bytes) -> None:
        """Makes the file if it is missing."""
        self._files = files
        self._folder = folder
        self._log_id = log_id
        self._descriptor: int | None = None
        self._is_new = NAME not in files.list_folder(folder)
        with _no_space_ignored():
            self._descriptor = files.open(folder / NAME, os.O_WRONLY | os.O_CREAT)
            if files.size(folder / NAME) > _FILE_BYTES:
                files.truncate(self._descriptor, _FILE_BYTES)

    def write(self, position: Position, cut_bytes: int = 0) -> bool:
        """Writes that everything before the position is durable. Does not sync. Returns False without disk space."""
        if self._descriptor is None:
            return False
        with _no_space_ignored():
            write_all(self._files, self._descriptor, DurableNote(self._log_id, position, cut_bytes).encode(), 0)
            return True
        return False

    def sync(self) -> None:
        """Syncs the file: its content survives a power failure."""
        if self._descriptor is None:
            return
        self._files.fdatasync(self._descriptor)
        if self._is_new:
            self._files.fsync_folder(self._folder)
            self._is_new = False

    def close(self) -> None:
        if self._descriptor is not None:
            self._files.close(self._descriptor)


@contextlib.contextmanager
def _no_space_ignored() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
