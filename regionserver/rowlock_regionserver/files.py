"""The door to the file system: every call that makes, changes, syncs or removes a file goes through here.

Tests replace it to fail, crash or forget at each call. What LMDB writes goes past it, so a store file is written
by LMDB without syncing, closed, and then synced and renamed through this door.

Want of descriptors is no failure of the disk: what needs one tries again when some were closed, and raises
TooManyOpenFilesError when that does not help, before anything was changed.
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

from rowlock_regionserver.errors import TooManyOpenFilesError

T = TypeVar("T")

_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
# What the system says of a full disk or quota, and of a want of descriptors.
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
# A change of a folder that was made must be synced, so a descriptor for it is waited for.
_FOLDER_WAIT_SECONDS = 10.0
_FOLDER_PAUSE_SECONDS = 0.01
_RETRY_AFTER_MS = 200


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """Which file it is, whatever its name. Store files never change, so the length belongs to it."""

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
    """The real file system. Methods raise OSError as the system calls do, but for want of descriptors.

    None retries, and none follows a symbolic link.
    """

    # Closes descriptors that nobody reads from, and says whether there were any. Set by the owner of such descriptors.
    close_idle: Callable[[], bool] = staticmethod(lambda: False)

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        """A file descriptor, closed on exec. OSError when a symbolic link has that name.

        TooManyOpenFilesError when there is none to be had.
        """
        return self.with_descriptor(path, lambda: os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, mode))

    def create(self, path: Path) -> int:
        """A new, empty file, 0600, for reading and writing. What a crash left under the name is removed."""
        self.remove_if_there(path)
        return self.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)

    def with_descriptor(self, path: Path, call: Callable[[], T]) -> T:
        """call(), which needs a descriptor for `path`; once more when there was none and idle ones could be closed.

        TooManyOpenFilesError when there is none even so.
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
                f"no file descriptor is left for {path} ({os.strerror(error.errno)}); nothing was changed, try again, "
                "or give the server a higher limit of open files (ulimit -n)",
                retry_after_ms=_RETRY_AFTER_MS,
            ) from None

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def pwrite(self, descriptor: int, data: bytes | bytearray | memoryview, offset: int) -> int:
        """Bytes written, which may be fewer than given."""
        return os.pwrite(descriptor, data, offset)

    def pread(self, descriptor: int, count: int, offset: int) -> bytes:
        return os.pread(descriptor, count, offset)

    def pread_into(self, descriptor: int, buffers: Sequence[memoryview], offset: int) -> int:
        """Reads into writable memory, one buffer after the other, at most a thousand of them.

        Gives the bytes read, which may be fewer than they have room for, and 0 at the end.
        """
        return os.preadv(descriptor, buffers, offset)

    def pread_into_at_once(self, descriptor: int, buffer: memoryview, offset: int) -> int | None:
        """The same from the system's memory alone; None when it would have to wait for a disk, or may have to.

        Linux can tell (RWF_NOWAIT), other systems can't. An error is left to who reads again and may wait.
        """
        if not _NOWAIT:
            return None
        try:
            return os.preadv(descriptor, [buffer], offset, _NOWAIT)
        except OSError:
            return None

    def fdatasync(self, descriptor: int) -> None:
        """Data, and what is needed to find it, are on stable storage. A failure is final: never call it again."""
        os.fdatasync(descriptor)

    def fsync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def fsync_folder(self, path: Path) -> None:
        """New, renamed and removed names in the folder are on stable storage."""
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
        """Reserves space, so that a later write can't meet a full disk. The file grows; new bytes read as zero."""
        os.posix_fallocate(descriptor, offset, length)

    def truncate(self, descriptor: int, length: int) -> None:
        os.ftruncate(descriptor, length)

    def rename(self, source: Path, target: Path) -> None:
        """Replaces the target atomically."""
        os.replace(source, target)

    def remove(self, path: Path) -> None:
        os.unlink(path)

    def remove_if_there(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.remove(path)

    def make_folder(self, path: Path) -> None:
        """Makes one folder, 0700. FileExistsError when it is there."""
        os.mkdir(path, 0o700)

    def remove_folder(self, path: Path) -> None:
        """Removes an empty folder."""
        os.rmdir(path)

    def list_folder(self, path: Path) -> list[str]:
        """Names in the folder, sorted."""
        return sorted(self.with_descriptor(path, lambda: _names_in(path)))

    def size(self, path: Path) -> int:
        return os.lstat(path).st_size

    def identity(self, descriptor: int) -> FileIdentity:
        """Of the file that is open."""
        status = os.fstat(descriptor)
        return FileIdentity(status.st_dev, status.st_ino, status.st_size)

    def read(self, path: Path) -> bytes:
        """The whole file. An error names the path, also one of the disk."""
        descriptor = self.open(path, os.O_RDONLY)
        try:
            chunks = []
            while chunk := os.read(descriptor, 1 << 24):
                chunks.append(chunk)
            return b"".join(chunks)
        except OSError as error:
            error.filename = str(path)
            raise
        finally:
            self.close(descriptor)

    def free_bytes(self, path: Path) -> int:
        """What an unprivileged process may still write on the file system of this path."""
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def lock(self, descriptor: int) -> bool:
        """Takes an exclusive flock that ends with the descriptor; False when somebody else has it."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def write_all(files: Files, descriptor: int, data: bytes | bytearray | memoryview, offset: int) -> None:
    """Writes all of `data`, going on after short writes."""
    with memoryview(data) as view:
        written = files.pwrite(descriptor, view, offset)
        while written < view.nbytes:
            count = files.pwrite(descriptor, view[written:], offset + written)
            if count <= 0:
                raise OSError(errno.EIO, f"a write of {view.nbytes - written} bytes wrote {count}")
            written += count
