"""Atomic durable files: a new file is there completely and durably, or not at all.

    write     the bytes, under a temporary name
    sync      the file, a large new_file already as it grows; a failed sync is never repeated
    rename    the file to its own name
    sync      its folder: the name is durable

Failures:

1. Before the rename nothing has changed, and the file is removed. A full disk (NO_SPACE) raises DiskFullError, and a
   lack of memory OutOfMemoryError, unless a sync reports it; for other failures the error of `Files` is raised:
   TooManyOpenFilesError if no descriptor is left, else OSError.
2. After the rename, if the folder's sync fails, a power failure may undo the rename or not.
   - If readers find the file by its name alone, that name is a commit: `replace_file` raises UnknownOutcomeError.
   - If a log record, a manifest or the catalog has to name the file or its folder first (`new_file`, `durably_named`),
     none does yet: the file is removed and 1 holds. No reader opens such a file before that, so `new_file` needs no
     temporary name.

Not made here, because they differ: segments of the log, which are named before they are full (wal/segment.py); the file
`durable`, which is written in place (wal/durable.py); files that are set aside, which share their folder's sync with
their note (host/set_aside.py).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import google_crc32c
import pyarrow as pa

from rowlock_regionserver.errors import DiskFullError, UnknownOutcomeError
from rowlock_regionserver.files import SYNCED_BYTES, Files, write_all
from rowlock_regionserver.process_limits import lack_of_memory_refused, memory_error_refused
from rowlock_regionserver.system_errors import NO_SPACE

# The suffix of a file before its rename. A start removes or ignores such files, which a crash left.
TEMPORARY_SUFFIX = ".temporary"


class NewFile:
    """A file that is written from its beginning to its end, and synced as it grows."""

    def __init__(self, files: Files, path: Path, descriptor: int) -> None:
        self._files = files
        self._path = path
        self._descriptor = descriptor
        self._unsynced_bytes = 0
        self.byte_count = 0
        self.checksum = 0  # CRC32C of all bytes so far

    def append(self, data: bytes | pa.Buffer) -> None:
        """Appends all of `data`; waits for the disk if it is large.

        Raises OutOfMemoryError and OSError; then the file is of no use.
        """
        self.checksum = google_crc32c.extend(self.checksum, data)
        view = memoryview(data)
        for start in range(0, view.nbytes, SYNCED_BYTES):
            if self._unsynced_bytes >= SYNCED_BYTES:
                self._files.fdatasync(self._descriptor)
                self._unsynced_bytes = 0
            piece = view[start : start + SYNCED_BYTES]
            with lack_of_memory_refused(self._path):
                write_all(self._files, self._descriptor, piece, self.byte_count)
            self.byte_count += piece.nbytes
            self._unsynced_bytes += piece.nbytes


def write_synced(files: Files, path: Path, data: bytes) -> None:
    """Writes and syncs a new file; its name is durable when its folder is synced. Replaces an existing file.

    Raises OutOfMemoryError and OSError; then the bytes that were written stay.
    """
    with lack_of_memory_refused(path):
        descriptor = files.create(path)
    try:
        with lack_of_memory_refused(path):
            write_all(files, descriptor, data, 0)
        files.fsync(descriptor)
    finally:
        files.close(descriptor)


def replace_file(files: Files, path: Path, data: bytes) -> None:
    """Makes or replaces a small file; it is durable when this returns. Blocks on the disk.

    Raises DiskFullError, TooManyOpenFilesError, OutOfMemoryError or another OSError when nothing was changed. Raises
    UnknownOutcomeError when a power failure may leave either the new file or the old state.
    """
    temporary = _temporary(path)
    with _removed_on_failure(files, temporary, path):
        write_synced(files, temporary, data)
        with lack_of_memory_refused(path):
            files.rename(temporary, path)
    try:
        files.fsync_folder(path.parent)
    except (OSError, MemoryError) as error:
        raise UnknownOutcomeError(f"{path} is written, but its folder could not be synced: {error}") from error


@contextlib.contextmanager
def durably_named(files: Files, path: Path) -> Iterator[Path]:
    """Yields a temporary path at which the block writes and syncs a file; renames that file when the block ends.

    The name is durable when the context ends. Raises DiskFullError, OutOfMemoryError or another OSError, or the error
    of the block: then no file is left, and a retry is safe.
    """
    temporary = _temporary(path)
    with _removed_on_failure(files, temporary, path):
        yield temporary
        with lack_of_memory_refused(path):
            files.rename(temporary, path)
    with _removed_on_failure(files, path, path):
        files.fsync_folder(path.parent)


@contextlib.contextmanager
def new_file(
    files: Files, path: Path, syncing: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
) -> Iterator[NewFile]:
    """Yields a new file to write, which no reader opens before something names it; durable when the context ends.

    Raises FileExistsError when there is a file of this name, which stays. Raises DiskFullError, TooManyOpenFilesError,
    OutOfMemoryError or another OSError, or the error of the block: then no file is left. `syncing` is entered around
    each sync at the end.
    """
    with _full_disk_as_error(path), lack_of_memory_refused(path):
        descriptor = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with _removed_on_failure(files, path, path):
        try:
            yield NewFile(files, path, descriptor)
            with syncing():
                files.fsync(descriptor)
        finally:
            files.close(descriptor)
        with syncing():
            files.fsync_folder(path.parent)


def _temporary(path: Path) -> Path:
    return path.with_name(path.name + TEMPORARY_SUFFIX)


@contextlib.contextmanager
def _removed_on_failure(files: Files, written: Path, path: Path) -> Iterator[None]:
    """If the block raises, removes the file `written`, which is to become `path`."""
    with _full_disk_as_error(path), memory_error_refused(path):
        try:
            yield
        except BaseException:
            with contextlib.suppress(OSError):
                files.remove_if_there(written)
            raise


@contextlib.contextmanager
def _full_disk_as_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE:
            raise DiskFullError(
                f"{path} could not be written completely ({error.strerror}); nothing was changed, free some disk space"
            ) from error
        # Calls with a descriptor don't know the file.
        error.filename = error.filename or str(path)
        raise
