"""The door to the file system: every call that makes, changes, syncs or removes a file goes through here.

Tests replace it to fail, crash or forget at each call. What LMDB writes goes past it, so a store file is written
by LMDB without syncing, closed, and then synced and renamed through this door.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path

_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)


def _open_folder(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


class Files:
    """The real file system. Methods raise OSError as the system calls do; none retries, none follows a link."""

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        """A file descriptor, closed on exec. OSError when a symbolic link has that name."""
        return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, mode)

    def create(self, path: Path) -> int:
        """A new, empty file, 0600, for reading and writing. What a crash left under the name is removed."""
        self.remove_if_there(path)
        return self.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def pwrite(self, descriptor: int, data: bytes | bytearray | memoryview, offset: int) -> int:
        """Bytes written, which may be fewer than given."""
        return os.pwrite(descriptor, data, offset)

    def pread(self, descriptor: int, count: int, offset: int) -> bytes:
        return os.pread(descriptor, count, offset)

    def pread_into(self, descriptor: int, buffer: memoryview, offset: int) -> int:
        """Reads into writable memory; bytes read, which may be fewer than it has room for, and 0 at the end."""
        return os.preadv(descriptor, [buffer], offset)

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
        descriptor = _open_folder(path)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

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
        descriptor = _open_folder(path)
        try:
            return sorted(os.listdir(descriptor))
        finally:
            os.close(descriptor)

    def size(self, path: Path) -> int:
        return os.lstat(path).st_size

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
