"""New files that are there whole and durable, or not at all.

    write     the bytes, under a temporary name
    sync      the file; a failed sync is never tried again
    rename    the file to its own name
    sync      its folder: the name is durable

What a failure means is decided here:

1. Before the rename nothing has changed, and the file is removed. A full disk (NO_SPACE) raises DiskFullError; other
   failures raise what `Files` does: TooManyOpenFilesError if no descriptor is left, else OSError.
2. After the rename, if the folder's sync fails, a power failure may undo the rename or not.
   - If readers find the file by its name alone, that name is a commit: `replace_file` raises UnknownOutcomeError.
   - If a log record or a manifest has to name the file first (`new_file`, `durably_named`), none does yet: the file is
     removed and 1 holds. Nobody reads such a file before it is named, so `new_file` needs no temporary name.

Not made here, because they differ: segments of the log, which are named before they are full (wal/segment.py); the file
`durable`, which is written in place (wal/durable.py); what is set aside, which shares its folder's sync with its note
(host/set_aside.py).
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
from rowlock_regionserver.files import NO_SPACE, Files, write_all

# Of a file that has not got its own name yet. A start removes or ignores what a crash left under such a name.
TEMPORARY_SUFFIX = ".temporary"


class NewFile:
    """A file that is being written, from its beginning to its end."""

    def __init__(self, files: Files, descriptor: int) -> None:
        self._files = files
        self._descriptor = descriptor
        self.byte_count = 0
        self.checksum = 0  # CRC32C of all bytes so far

    def append(self, data: bytes | pa.Buffer) -> None:
        """Writes all of it behind what is there."""
        self.checksum = google_crc32c.extend(self.checksum, data)
        view = memoryview(data)
        write_all(self._files, self._descriptor, view, self.byte_count)
        self.byte_count += view.nbytes


def write_synced(files: Files, path: Path, data: bytes) -> None:
    """Writes and syncs a new file; its name is durable once its folder is synced. Replaces a file that is there.

    Raises OSError; what was written stays then.
    """
    descriptor = files.create(path)
    try:
        write_all(files, descriptor, data, 0)
        files.fsync(descriptor)
    finally:
        files.close(descriptor)


def replace_file(files: Files, path: Path, data: bytes) -> None:
    """Makes a small file, or replaces it; it is durable when this returns. Blocks on the disk.

    DiskFullError, TooManyOpenFilesError or another OSError: nothing was changed. UnknownOutcomeError: after a power
    failure either the new file or what was there before may be found.
    """
    temporary = _temporary(path)
    with _removed_on_failure(files, temporary, path):
        write_synced(files, temporary, data)
        files.rename(temporary, path)
    try:
        files.fsync_folder(path.parent)
    except OSError as error:
        raise UnknownOutcomeError(f"{path} is written, but its folder could not be synced: {error}") from error


@contextlib.contextmanager
def durably_named(files: Files, path: Path) -> Iterator[Path]:
    """For a file that others write: gives the temporary path, under which the block leaves a whole and synced file.

    The file has its own name, durably, when the context ends. DiskFullError or another OSError, or whatever the block
    raises: nothing was left behind, and another try is safe.
    """
    temporary = _temporary(path)
    with _removed_on_failure(files, temporary, path):
        yield temporary
        files.rename(temporary, path)
    with _removed_on_failure(files, path, path):
        files.fsync_folder(path.parent)


@contextlib.contextmanager
def new_file(
    files: Files, path: Path, syncing: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
) -> Iterator[NewFile]:
    """A file that nobody looks for until something names it: written by the block, durable when the context ends.

    FileExistsError when there is one of this name, which stays. `syncing` is entered around each wait for the disk.
    DiskFullError, TooManyOpenFilesError or another OSError, or whatever the block raises: nothing was left behind.
    """
    with _full_disk_as_error(path):
        descriptor = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with _removed_on_failure(files, path, path):
        try:
            yield NewFile(files, descriptor)
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
    """If the block fails, removes what is `written` of the file `path`."""
    with _full_disk_as_error(path):
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
                f"the disk did not take all of {path} ({error.strerror}); nothing was changed. "
                "Free some space if it is full"
            ) from error
        raise
