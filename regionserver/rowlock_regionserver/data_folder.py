"""The data folder: whose it is, which format it has, and who holds it.

    format    one line, written once: what made this folder, the version of its layout, and its random id
    lock      held with flock by the process that serves the folder; the pid inside is for people only
    address   where an embedded server listens (embedded.py)

Everything else belongs to catalog/region_server.py.

1. A folder with anything in it but no `format` is not ours and is left as it is.
2. Whoever changes anything holds the lock, which ends with the process, however it ends.
3. `format` appears by a rename, after the lock is held: a crash while making a folder leaves one that is empty or ours.
4. Another version is refused before anything is changed, the lock file included.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
from pathlib import Path
from types import TracebackType

from rowlock_regionserver.errors import DataFolderError
from rowlock_regionserver.files import Files, write_all

FORMAT_VERSION = 1

FORMAT = "format"
LOCK = "lock"
_FORMAT_TEMPORARY = "format.temporary"
# What a folder may hold and still be empty: our own first steps, and what file systems put into a fresh volume.
_NOTHING_YET = {LOCK, _FORMAT_TEMPORARY, "lost+found"}

_FORMAT_LINE = re.compile(rb"rowlock data folder, format (\d{1,9}), id ([0-9a-f]{32})\n")
_FORMAT_BYTES_MAX = 1024


class DataFolder:
    """A data folder that this process holds, from `open` until `close`."""

    def __init__(self, path: Path, folder_id: str, files: Files, lock: int) -> None:
        self.path = path
        self.folder_id = folder_id  # Random, made with the folder.
        self._files = files
        self._lock: int | None = lock

    @classmethod
    def open(cls, path: Path, files: Files, *, create: bool = True) -> DataFolder:
        """Takes the folder, and makes it if it is missing or empty and `create` is set.

        Raises DataFolderError, with nothing changed, when it is not ours, of another version, held by somebody else,
        or can't be written.
        """
        try:
            return cls._open(path, files, create=create)
        except OSError as error:
            raise _unusable(path, error) from error

    @classmethod
    def _open(cls, path: Path, files: Files, *, create: bool) -> DataFolder:
        try:
            names = files.list_folder(path)
        except FileNotFoundError:
            if not create:
                raise DataFolderError(f"there is no data folder {path}; check the path") from None
            files.make_folder(path)
            files.fsync_folder(path.parent)
            names = []
        if FORMAT in names:
            read_format(path, files)
        elif not set(names) <= _NOTHING_YET or not create:
            what = "is empty" if set(names) <= _NOTHING_YET else "holds other things"
            raise DataFolderError(
                f"{path} is not a rowlock data folder: it {what} and has no file {FORMAT!r}; "
                "name an empty or a new folder, or one that rowlock-server has made"
            )
        lock = _take_lock(path, files)
        try:
            # Read again: whoever held the lock a moment ago may have made it.
            if FORMAT in files.list_folder(path):
                folder_id = read_format(path, files)
            else:
                folder_id = _write_format(path, files)
        except BaseException:
            files.close(lock)
            raise
        return cls(path, folder_id, files, lock)

    def close(self) -> None:
        """Lets go of the folder."""
        lock, self._lock = self._lock, None
        if lock is not None:
            self._files.close(lock)

    def __enter__(self) -> DataFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_format(path: Path, files: Files) -> str:
    """The folder's id. Raises DataFolderError for another version, and for a file that says neither."""
    data = files.read(path / FORMAT)
    match = _FORMAT_LINE.fullmatch(data)
    if match is None:
        shown = data[:80] if len(data) <= _FORMAT_BYTES_MAX else data[:80] + b"..."
        raise DataFolderError(
            f"{path / FORMAT} is damaged or not ours: it reads {shown!r}; put back the line that was there "
            f"('rowlock data folder, format {FORMAT_VERSION}, id' and 32 hexadecimal digits), or name another folder"
        )
    version = int(match[1])
    if version != FORMAT_VERSION:
        raise DataFolderError(
            f"{path} has format {version}, but this rowlock-server reads and writes format {FORMAT_VERSION}; "
            "use the version of rowlock that made it"
        )
    return match[2].decode()


def _write_format(path: Path, files: Files) -> str:
    folder_id = secrets.token_hex(16)
    line = f"rowlock data folder, format {FORMAT_VERSION}, id {folder_id}\n".encode()
    write_file(path / FORMAT, path / _FORMAT_TEMPORARY, line, files)
    return folder_id


def write_file(path: Path, temporary: Path, data: bytes, files: Files) -> None:
    """A small file, there whole and durable or not at all; 0600."""
    descriptor = files.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        write_all(files, descriptor, data, 0)
        files.fsync(descriptor)
    finally:
        files.close(descriptor)
    files.rename(temporary, path)
    files.fsync_folder(path.parent)


def _take_lock(path: Path, files: Files) -> int:
    lock = files.open(path / LOCK, os.O_RDWR | os.O_CREAT)
    try:
        if not files.lock(lock):
            holder = files.pread(lock, 20, 0).strip().decode("ascii", "replace")
            who = f" (process {holder})" if holder.isdigit() else ""
            raise DataFolderError(
                f"{path} is in use by another rowlock-server{who}; stop it first, or name another folder"
            )
        with contextlib.suppress(OSError):  # The pid is for people; a full disk must not keep anybody from serving.
            files.truncate(lock, 0)
            files.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except BaseException:
        files.close(lock)
        raise
    return lock


def _unusable(path: Path, error: OSError) -> DataFolderError:
    match error.errno:
        case errno.EROFS | errno.EACCES | errno.EPERM:
            problem = "can't be written; make it writable for this user, or name another folder"
        case errno.ENOTDIR | errno.EEXIST:
            problem = "is not a folder; name one"
        case errno.ENOENT:
            problem = f"can't be made, because {path.parent} is missing; make that first"
        case errno.ENOSPC | errno.EDQUOT:
            problem = "can't be used, because its disk is full; free some space"
        case _:
            problem = "can't be used"
    return DataFolderError(f"{path} {problem} ({error})")
