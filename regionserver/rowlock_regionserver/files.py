"""File-system access: every call that makes, changes, syncs or removes a file goes through here.

Tests replace it to fail, crash or lose data at each call. LMDB writes past it: LMDB writes a store file and never
syncs it; this module syncs it meanwhile, and renames it afterwards.

A lack of descriptors is not a failure of the disk: a call that needs one is repeated when idle descriptors were closed,
and raises TooManyOpenFilesError when that does not help, before anything was changed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rowlock_regionserver.errors import DataFolderError, TooManyOpenFilesError
from rowlock_regionserver.system_errors import NO_DESCRIPTOR

T = TypeVar("T")

_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
# For a hard link that the file system does not make, or not there.
_NO_HARD_LINK = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EXDEV, errno.EMLINK})
# After a change of a folder the sync is mandatory, so `fsync_folder` waits for a descriptor.
_FOLDER_WAIT_SECONDS = 10.0
_FOLDER_PAUSE_SECONDS = 0.01
_RETRY_AFTER_MS = 200
# A large file is synced each time this much of it was written. Otherwise the sync at its end makes the syncs of all
# other files wait: 50 ms for 30 MiB on ext4, instead of 5. RocksDB's bytes_per_sync.
SYNCED_BYTES = 1 << 20
# The space of a removed file is freed in pieces of this size.
_FREED_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """The identity of a file under any name. Store files never change, so the length is part of it."""

    device: int
    inode: int
    byte_count: int


def _open_folder(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _names_in(path: Path) -> list[str]:
    descriptor = _open_folder(path)
    try:
        return os.listdir(descriptor)
    finally:
        os.close(descriptor)


class Files:
    """The real file system. Methods raise OSError like the system calls, and TooManyOpenFilesError.

    No method retries, except for a descriptor, and none follows a symbolic link.
    """

    # Closes idle descriptors, and returns whether there were any. Set by their owner.
    close_idle: Callable[[], bool] = staticmethod(lambda: False)

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        """Opens a file; the descriptor is closed on exec. Raises OSError when the path is a symbolic link.

        Raises TooManyOpenFilesError when no descriptor is left.
        """
        return self.with_descriptor(path, lambda: os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, mode))

    def create(self, path: Path) -> int:
        """Makes a new, empty file, 0600, for reading and writing. Removes an existing one, which a crash left."""
        self.remove_if_there(path)
        return self.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)

    def with_descriptor(self, path: Path, call: Callable[[], T]) -> T:
        """Returns call(), which needs a descriptor for `path`. If there is none, closes idle ones and calls it again.

        Raises TooManyOpenFilesError when there is still none.
        """
        try:
            return call()
        except OSError as error:
            if error.errno not in NO_DESCRIPTOR:
                raise
        try:
            self.close_idle()
            return call()
        except OSError as error:
            if error.errno not in NO_DESCRIPTOR:
                raise
            raise TooManyOpenFilesError(
                f"no file descriptor is left for {path} ({os.strerror(error.errno)}); nothing was changed, retry, "
                "or give the server a higher limit of open files (ulimit -n)",
                retry_after_ms=_RETRY_AFTER_MS,
            ) from None

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def pwrite(self, descriptor: int, data: bytes | bytearray | memoryview, offset: int) -> int:
        """Returns the number of bytes written, which may be fewer than given."""
        return os.pwrite(descriptor, data, offset)

    def pread(self, descriptor: int, count: int, offset: int) -> bytes:
        return os.pread(descriptor, count, offset)

    def pread_into(self, descriptor: int, buffers: Sequence[memoryview], offset: int) -> int:
        """Reads into writable memory, one buffer after the other, at most a thousand of them.

        Returns the number of bytes read, which may be fewer than the buffers take; 0 at the end.
        """
        return os.preadv(descriptor, buffers, offset)

    def pread_into_at_once(self, descriptor: int, buffer: memoryview, offset: int) -> int | None:
        """Reads into the buffer from the page cache only; None when the read would block, or might.

        Only Linux can tell (RWF_NOWAIT). Returns None after an error too: the blocking read will raise it.
        """
        if not _NOWAIT:
            return None
        try:
            return os.preadv(descriptor, [buffer], offset, _NOWAIT)
        except OSError:
            return None

    def fdatasync(self, descriptor: int) -> None:
        """Syncs the data, and the metadata that is needed to read it. A failure is final: never call it again."""
        os.fdatasync(descriptor)

    def fsync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def fsync_folder(self, path: Path) -> None:
        """Syncs new, renamed and removed names in the folder. Waits for a descriptor, 10 s at most."""
        descriptor = self._open_folder(path)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _open_folder(self, path: Path) -> int:
        deadline = time.monotonic() + _FOLDER_WAIT_SECONDS
        while True:
            try:
                return self.with_descriptor(path, lambda: _open_folder(path))
            except TooManyOpenFilesError:
                if time.monotonic() >= deadline:
                    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path)) from None
                time.sleep(_FOLDER_PAUSE_SECONDS)

    def allocate(self, descriptor: int, offset: int, length: int) -> None:
        """Reserves space, so that a later write does not fail on a full disk. The file grows by zeros."""
        os.posix_fallocate(descriptor, offset, length)

    def truncate(self, descriptor: int, length: int) -> None:
        os.ftruncate(descriptor, length)

    def rename(self, source: Path, target: Path) -> None:
        """Replaces the target atomically."""
        os.replace(source, target)

    def link(self, source: Path, target: Path) -> None:
        """Gives a file a second name, in any folder of its file system; durable when the target's folder is synced.

        The file stays until its last name is removed. Raises FileExistsError when there is a file at the target, and
        DataFolderError when the file system makes no such link.
        """
        try:
            os.link(source, target, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_HARD_LINK:
                raise
            raise DataFolderError(
                f"{target} can't be made as a hard link to {source} ({error.strerror}); nothing was changed: splits "
                "and merges of regions, and named snapshots, need a data folder on one file system with hard links, "
                "such as ext4 or XFS, so copy the folder of the stopped server to one"
            ) from error

    def remove(self, path: Path) -> None:
        os.unlink(path)

    def remove_unread(self, path: Path) -> None:
        """Removes a file that nobody reads any more, and frees its space in pieces (`free_unlinked`).

        Blocks until that is done. Raises as `unlink`.
        """
        descriptor = self.unlink(path)
        if descriptor is not None:
            self.free_unlinked(descriptor)

    def unlink(self, path: Path) -> int | None:
        """Removes a file that nobody reads any more.

        Returns a descriptor for `free_unlinked` if the file is large and could be opened, else None. Raises
        FileNotFoundError or another OSError.
        """
        descriptor = None
        if self.size(path) > _FREED_BYTES:
            with contextlib.suppress(TooManyOpenFilesError, PermissionError):
                descriptor = self.open(path, os.O_WRONLY)
        try:
            self.remove(path)
        except BaseException:
            if descriptor is not None:
                self.close(descriptor)
            raise
        return descriptor

    def free_unlinked(self, descriptor: int) -> None:
        """Frees the space of a file in pieces, if it has no name any more, and closes it.

        Freeing all of it at once makes the syncs of other files wait: 50 ms for 64 MiB on ext4 with `discard`, instead
        of 5. Each piece is synced, because otherwise a later sync frees them all. A file that has another name is only
        closed. Ignores errors: closing frees the rest.
        """
        try:
            status = os.fstat(descriptor)
            if not status.st_nlink:
                for byte_count in range(status.st_size - _FREED_BYTES, 0, -_FREED_BYTES):
                    os.ftruncate(descriptor, byte_count)
                    os.fsync(descriptor)
        except OSError:
            pass  # It is removed, and closing it frees the rest.
        finally:
            self.close(descriptor)

    def remove_if_there(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.remove(path)

    def make_folder(self, path: Path) -> None:
        """Makes one folder, 0700. Raises FileExistsError when it is there."""
        os.mkdir(path, 0o700)

    def remove_folder(self, path: Path) -> None:
        """Removes an empty folder."""
        os.rmdir(path)

    def list_folder(self, path: Path) -> list[str]:
        """The names in the folder, sorted."""
        return sorted(self.with_descriptor(path, lambda: _names_in(path)))

    def size(self, path: Path) -> int:
        return os.lstat(path).st_size

    def identity(self, descriptor: int) -> FileIdentity:
        """The identity of the open file."""
        status = os.fstat(descriptor)
        return FileIdentity(status.st_dev, status.st_ino, status.st_size)

    def read(self, path: Path) -> bytes:
        """Reads the whole file. Every error names the path, also one of the disk."""
        descriptor = self.open(path, os.O_RDONLY)
        try:
            chunks = []
            # The system allocates what is asked for, which takes longer than to read a small file.
            byte_count = min(os.fstat(descriptor).st_size + 1, 1 << 24)
            while chunk := os.read(descriptor, byte_count):
                chunks.append(chunk)
            return b"".join(chunks)
        except OSError as error:
            error.filename = str(path)
            raise
        finally:
            self.close(descriptor)

    def free_bytes(self, path: Path) -> int:
        """The free bytes for an unprivileged process on the file system of this path."""
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def lock(self, descriptor: int) -> bool:
        """Takes an exclusive flock that ends with the descriptor. Returns False when another process has it."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def write_all(files: Files, descriptor: int, data: bytes | bytearray | memoryview, offset: int) -> None:
    """Writes all of `data`, continuing after short writes."""
    with memoryview(data) as view:
        written = files.pwrite(descriptor, view, offset)
        while written < view.nbytes:
            count = files.pwrite(descriptor, view[written:], offset + written)
            if count <= 0:
                raise OSError(errno.EIO, f"a write of {view.nbytes - written} bytes wrote {count}")
            written += count
