"""The data folder: its owner, its format and its lock.

    format    one line, written once: the program that made this folder, the version of its layout, and its random id
    lock      held with flock by the process that serves the folder; the pid inside is for people only. A second line
              is the address of a server that is not embedded, for clients that look for an embedded one
    address   the address of an embedded server; `socket` is the socket on which it listens (embedded.py)

Everything else belongs to host/region_server.py.

1. A folder that is not empty and has no `format` is not a rowlock folder, and is not changed.
2. A process that changes anything holds two locks, which end with the process: the folder's own, which can't be
   unlinked, and that of the file `lock`, by which servers before 0.2 exclude each other.
3. `format` appears by a rename, when the lock is held: after a crash while a folder is made, it is empty or a rowlock
   folder.
4. Another version is refused before anything is changed, the lock file included.
5. A folder into which another user could have put a file is refused, see ownership.py.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
from pathlib import Path
from types import TracebackType

from rowlock_regionserver.durable_files import TEMPORARY_SUFFIX, replace_file
from rowlock_regionserver.errors import (
    DataFolderError,
    DiskFullError,
    FolderInUseError,
    OutOfMemoryError,
    UnknownOutcomeError,
)
from rowlock_regionserver.files import Files
from rowlock_regionserver.ownership import check_contents, check_own, close_to_others
from rowlock_regionserver.process_limits import limit_advice
from rowlock_regionserver.system_errors import NO_SPACE

FORMAT_VERSION = 1

FORMAT = "format"
LOCK = "lock"
# The names that an empty folder may have: from our own first steps, and from the file system of a fresh volume.
_NAMES_IN_EMPTY = {LOCK, FORMAT + TEMPORARY_SUFFIX, "lost+found"}

# The errors of file systems without locks for folders: NFS locks only files that are open for writing.
_FOLDERS_HAVE_NO_LOCKS = {errno.EBADF, errno.EINVAL, errno.EISDIR, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}

_FORMAT_LINE = re.compile(rb"rowlock data folder, format (\d{1,9}), id ([0-9a-f]{32})\n")
_FORMAT_BYTES_MAX = 1024


class DataFolder:
    """A data folder that this process has locked, from `open` until `close`."""

    def __init__(self, path: Path, folder_id: str, files: Files, locks: list[int]) -> None:
        self.path = path  # Absolute, without symbolic links.
        self.folder_id = folder_id  # Random, made with the folder.
        self._files = files
        self._locks = locks

    @classmethod
    def open(cls, path: Path, files: Files, *, create: bool = True, is_shared: bool = False) -> DataFolder:
        """Locks the folder, and makes it if it is missing or empty and `create` is set.

        `is_shared`: other users may own it or write to it. Raises FolderInUseError when another process has locked it,
        and DataFolderError, with nothing changed, when it is not a rowlock folder, of another version, or not writable.
        """
        try:
            return cls._open(Path(os.path.realpath(path)), files, create=create, is_shared=is_shared)
        except (OSError, DiskFullError, OutOfMemoryError, UnknownOutcomeError) as error:
            raise _unusable(path, error) from error

    @classmethod
    def _open(cls, path: Path, files: Files, *, create: bool, is_shared: bool) -> DataFolder:
        try:
            names = files.list_folder(path)
        except FileNotFoundError:
            if not create:
                raise DataFolderError(f"there is no data folder {path}; check the path") from None
            with contextlib.suppress(FileExistsError):  # Another process was faster.
                files.make_folder(path)
            files.fsync_folder(path.parent)
            names = files.list_folder(path)
        if FORMAT in names:
            read_format(path, files)
        elif not set(names) <= _NAMES_IN_EMPTY or not create:
            content = "is empty" if set(names) <= _NAMES_IN_EMPTY else "has other files"
            raise DataFolderError(
                f"{path} is not a rowlock data folder: it {content} and has no file {FORMAT!r}; "
                "name an empty or a new folder, or one that rowlock-server made"
            )
        with contextlib.ExitStack() as undo:
            folder = take_folder_lock(path, files)
            undo.callback(files.close, folder)
            if FORMAT not in names:
                close_to_others(folder)
            if not is_shared:
                check_own(path, os.fstat(folder))
            check_contents(path, is_shared=is_shared)
            lock = _take_lock_file(path, files)
            undo.callback(files.close, lock)
            # Read again: a process that had the locks before may have made it.
            names = files.list_folder(path)
            folder_id = read_format(path, files) if FORMAT in names else _write_format(path, files)
            undo.pop_all()
        return cls(path, folder_id, files, [lock, folder])

    def note_address(self, address: str) -> None:
        """Writes into the lock file at which address this process serves the folder; blocks on the disk."""
        _write_holder(self._locks[0], self._files, f"{os.getpid()}\n{address}\n")

    def close(self) -> None:
        """Releases the folder. Idempotent."""
        while self._locks:
            self._files.close(self._locks.pop())

    def __enter__(self) -> DataFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_format(path: Path, files: Files) -> str:
    """Returns the folder's id. Raises DataFolderError for another version or an invalid file."""
    data = files.read(path / FORMAT)
    match = _FORMAT_LINE.fullmatch(data)
    if match is None:
        shown = data[:80] if len(data) <= _FORMAT_BYTES_MAX else data[:80] + b"..."
        raise DataFolderError(
            f"{path / FORMAT} is damaged or of another program: it contains {shown!r}; restore its line "
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
    replace_file(files, path / FORMAT, line)
    return folder_id


def take_folder_lock(path: Path, files: Files) -> int:
    """Locks the folder itself, and returns the descriptor that holds the lock. Raises FolderInUseError."""
    folder = files.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not _lock(folder, files):
            raise _in_use(path, files)
    except BaseException:
        files.close(folder)
        raise
    return folder


def _lock(folder: int, files: Files) -> bool:
    try:
        return files.lock(folder)
    except OSError as error:
        if error.errno in _FOLDERS_HAVE_NO_LOCKS:
            return True
        raise


def _take_lock_file(path: Path, files: Files) -> int:
    lock = files.open(path / LOCK, os.O_RDWR | os.O_CREAT)
    try:
        if not files.lock(lock):
            raise _in_use(path, files)
        _write_holder(lock, files, f"{os.getpid()}\n")
    except BaseException:
        files.close(lock)
        raise
    return lock


def _write_holder(lock: int, files: Files, text: str) -> None:
    # Nothing depends on it, so a full disk is not an error. A second name may be another user's file.
    if os.fstat(lock).st_nlink == 1:
        with contextlib.suppress(OSError):
            files.truncate(lock, 0)
            files.pwrite(lock, os.fsencode(text), 0)


def _in_use(path: Path, files: Files) -> FolderInUseError:
    holder = ""
    with contextlib.suppress(OSError):
        holder = files.read(path / LOCK)[:20].partition(b"\n")[0].decode("ascii", "replace")
    process = f" (process {holder})" if holder.isdigit() else ""
    return FolderInUseError(
        f"{path} is in use by another rowlock-server{process}; stop it first, or name another folder"
    )


def _unusable(path: Path, error: OSError | DiskFullError | OutOfMemoryError | UnknownOutcomeError) -> DataFolderError:
    number = error.errno if isinstance(error, OSError) else None
    match number:
        case errno.EROFS | errno.EACCES | errno.EPERM:
            problem = "can't be written; make it writable for this user, or name another folder"
        case errno.ENOTDIR | errno.EEXIST:
            problem = "is not a folder; name a folder"
        case errno.ELOOP:
            problem = "has a symbolic link in the place of a file; remove it"
        case errno.ENOENT if path.parts[:1] == ("~",):
            problem = "can't be made: ~ does not stand for the home folder here; write the path in full"
        case errno.ENOENT if not path.parent.exists():
            problem = f"can't be made because {path.parent} is missing; make that folder first"
        case _ if number in NO_SPACE or isinstance(error, DiskFullError):
            problem = "can't be used because its disk is full; free some space"
        case _ if advice := limit_advice(error):
            problem = f"can't be used: {advice}"
        case _:
            problem = "can't be used"
    return DataFolderError(f"{path} {problem} ({error})")
