"""The data folder: whose it is, which format it has, and who holds it.

    format    one line, written once: what made this folder, the version of its layout, and its random id
    lock      held with flock by the process that serves the folder; the pid inside is for people only
    address   where an embedded server listens, and the socket on which it does (embedded.py)

Everything else belongs to host/region_server.py.

1. A folder with anything in it but no `format` is not ours and is left as it is.
2. A process that changes anything holds two locks, which end with it, however it ends: the folder's own, which nobody
   can unlink, and that of the file `lock`, by which servers before 0.2 know each other.
3. `format` appears by a rename, after the lock is held: a crash while making a folder leaves one that is empty or ours.
4. Another version is refused before anything is changed, the lock file included.
5. A folder that somebody else could have put something into is refused, see ownership.py.
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
from rowlock_regionserver.errors import DataFolderError, DiskFullError, FolderInUseError, UnknownOutcomeError
from rowlock_regionserver.files import NO_SPACE, Files
from rowlock_regionserver.ownership import check_contents, check_own, close_to_others

FORMAT_VERSION = 1

FORMAT = "format"
LOCK = "lock"
# What a folder may hold and still be empty: our own first steps, and what file systems put into a fresh volume.
_NOTHING_YET = {LOCK, FORMAT + TEMPORARY_SUFFIX, "lost+found"}

# What file systems say that have no locks for folders: NFS locks only what is open for writing.
_FOLDERS_HAVE_NO_LOCKS = {errno.EBADF, errno.EINVAL, errno.EISDIR, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}

_FORMAT_LINE = re.compile(rb"rowlock data folder, format (\d{1,9}), id ([0-9a-f]{32})\n")
_FORMAT_BYTES_MAX = 1024


class DataFolder:
    """A data folder that this process holds, from `open` until `close`."""

    def __init__(self, path: Path, folder_id: str, files: Files, locks: list[int]) -> None:
        self.path = path  # Absolute, and through no link.
        self.folder_id = folder_id  # Random, made with the folder.
        self._files = files
        self._locks = locks

    @classmethod
    def open(cls, path: Path, files: Files, *, create: bool = True, is_shared: bool = False) -> DataFolder:
        """Takes the folder, and makes it if it is missing or empty and `create` is set.

        is_shared: others may own it or write to it. Raises FolderInUseError when somebody else holds it, and
        DataFolderError, with nothing changed, when it is not ours, of another version, or can't be written.
        """
        try:
            return cls._open(Path(os.path.realpath(path)), files, create=create, is_shared=is_shared)
        except (OSError, DiskFullError, UnknownOutcomeError) as error:
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
        elif not set(names) <= _NOTHING_YET or not create:
            what = "is empty" if set(names) <= _NOTHING_YET else "holds other things"
            raise DataFolderError(
                f"{path} is not a rowlock data folder: it {what} and has no file {FORMAT!r}; "
                "name an empty or a new folder, or one that rowlock-server has made"
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
            # Read again: a process that held the locks a moment ago may have made it.
            names = files.list_folder(path)
            folder_id = read_format(path, files) if FORMAT in names else _write_format(path, files)
            undo.pop_all()
        return cls(path, folder_id, files, [lock, folder])

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
    replace_file(files, path / FORMAT, line)
    return folder_id


def take_folder_lock(path: Path, files: Files) -> int:
    """Locks the folder itself; the descriptor that holds it. FolderInUseError when another process does."""
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
        # The pid is for people; a full disk must not keep anybody from serving. A second name may be another's file.
        if os.fstat(lock).st_nlink == 1:
            with contextlib.suppress(OSError):
                files.truncate(lock, 0)
                files.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except BaseException:
        files.close(lock)
        raise
    return lock


def _in_use(path: Path, files: Files) -> FolderInUseError:
    holder = ""
    with contextlib.suppress(OSError):
        holder = files.read(path / LOCK)[:20].strip().decode("ascii", "replace")
    process = f" (process {holder})" if holder.isdigit() else ""
    return FolderInUseError(
        f"{path} is in use by another rowlock-server{process}; stop it first, or name another folder"
    )


def _unusable(path: Path, error: OSError | DiskFullError | UnknownOutcomeError) -> DataFolderError:
    number = error.errno if isinstance(error, OSError) else None
    match number:
        case errno.EROFS | errno.EACCES | errno.EPERM:
            problem = "can't be written; make it writable for this user, or name another folder"
        case errno.ENOTDIR | errno.EEXIST:
            problem = "is not a folder; name one"
        case errno.ELOOP:
            problem = "has a symbolic link in the place of a file; remove it"
        case errno.ENOENT:
            problem = f"can't be made, because {path.parent} is missing; make that first"
        case _ if number in NO_SPACE or isinstance(error, DiskFullError):
            problem = "can't be used, because its disk is full; free some space"
        case _:
            problem = "can't be used"
    return DataFolderError(f"{path} {problem} ({error})")
