"""A bounded pool of the file descriptors of store files, which are opened when a read needs them.

A server may have more store files than a process may have descriptors, and client connections need some too. So a store
file has a Handle, which borrows a descriptor for each read. Beyond the bound the least recently used descriptors that
no read uses are closed.

1. A handle refers to one file: the one that existed when it was first opened. Each later open compares device, inode
   and length, so a read never mixes two files, even if the name was given to another file meanwhile.
2. A file is removed from the disk only when no reader can use it any more, because it is opened again by name. The code
   that replaces a file marks its handle, and the file is removed after its last reference is dropped.
3. The last reference may be dropped in any thread, under any lock. So dropping it only queues the handle, and
   `close_released` closes and removes. A thread frees the space of large files, in pieces.

Without a free descriptor reads raise TooManyOpenFilesError, which says that a retry may succeed.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import FileIdentity, Files

# Enough for tests and inspections, which read one file after the other.
_FEW = 16
# At most this many removed files wait to be freed in pieces; the space of further ones is freed at once.
_UNLINKED_MAX = 16


@dataclass(frozen=True, slots=True)
class OpenFilesStatistics:
    """Open descriptors now, and how many files were opened and removed since the start."""

    open_count: int
    borrowed_count: int  # in use by reads
    opened_count: int
    removed_count: int  # files removed after their last reference was dropped


@dataclass(slots=True)
class _Open:
    """An open descriptor, and the number of reads that use it now."""

    descriptor: int
    borrowed_count: int


class Handle:
    """One store file. As a context manager it lends a descriptor until exit. Thread-safe.

    Entering may open the file, which blocks on the disk. Raises CorruptionError when the file is missing or was
    replaced by another one, and TooManyOpenFilesError when no descriptor is free.
    """

    __slots__ = ("_number", "_open_files", "identity", "path", "remove_folder", "remove_on_release")

    def __init__(self, path: Path, open_files: OpenFiles, number: int) -> None:
        self.path = path
        self.identity: FileIdentity | None = None  # set by the first open
        self.remove_on_release = False
        self.remove_folder = False
        self._open_files = open_files
        self._number = number

    def __enter__(self) -> int:
        return self._open_files.borrow(self._number, self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open_files.give_back(self._number)

    def borrow_if_open(self) -> int | None:
        """Returns a descriptor if the file is open now, else None; `give_back` returns it. Never blocks on a disk."""
        return self._open_files.borrow_if_open(self._number)

    def give_back(self) -> None:
        """Returns the descriptor of `borrow_if_open`."""
        self._open_files.give_back(self._number)

    def remove_when_unused(self, *, folder_too: bool = False) -> None:
        """Marks the file for removal after the last reference to its store file, and with `folder_too` its folder.

        The folder is removed only if it is empty then.
        """
        self.remove_folder = folder_too
        self.remove_on_release = True

    def release(self) -> None:
        """Queues the handle for closing, after its last read. Takes no lock, so a finalizer may call it.

        OpenFiles.close_released closes and removes the file.
        """
        self._open_files.release(self._number, self)


class OpenFiles:
    """The descriptors of all store files of a server. Thread-safe."""

    def __init__(self, files: Files, count_max: int = _FEW) -> None:
        """Creates a pool of at most `count_max` idle descriptors; those in use by reads are not bounded."""
        assert count_max >= 1, f"at most {count_max} open files"
        self.files = files
        self.count_max = count_max
        self._numbers = itertools.count(1)
        # Handles without references, added by finalizers without the lock.
        self._released: deque[tuple[int, Handle]] = deque()
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._open: OrderedDict[int, _Open] = OrderedDict()  # by handle; the least recently used first
        self._opened_count = 0
        self._removed_count = 0
        self._unlinked: deque[int] = deque()  # descriptors of removed files whose space is not freed yet
        self._is_freeing = False

    def handle(self, path: Path) -> Handle:
        """Returns a handle of the file at `path`, without opening it."""
        return Handle(path, self, next(self._numbers))

    def borrow(self, number: int, handle: Handle) -> int:
        """Returns a descriptor that stays open until `give_back`; see Handle."""
        found = self.borrow_if_open(number)
        if found is not None:
            return found
        self.close_released()
        descriptor = self._opened(handle)
        with self._lock:
            self._opened_count += 1
            opened = self._open.setdefault(number, _Open(descriptor, 0))  # Another thread may have opened it first.
            opened.borrowed_count += 1
            surplus = self._pop_idle(self.count_max)
        for each in surplus if opened.descriptor == descriptor else (*surplus, descriptor):
            self.files.close(each)
        return opened.descriptor

    def borrow_if_open(self, number: int) -> int | None:
        """Returns a descriptor that stays open until `give_back`, or None if the file is not open."""
        with self._lock:
            opened = self._open.get(number)
            if opened is None:
                return None
            self._open.move_to_end(number)
            opened.borrowed_count += 1
            return opened.descriptor

    def give_back(self, number: int) -> None:
        """Ends one read's use of the descriptor."""
        with self._lock:
            opened = self._open[number]
            assert opened.borrowed_count > 0, f"descriptor {opened.descriptor} is returned but not borrowed"
            opened.borrowed_count -= 1
            surplus = self._pop_idle(self.count_max) if len(self._open) > self.count_max else []
        for descriptor in surplus:
            self.files.close(descriptor)

    def close_idle(self) -> bool:
        """Closes all descriptors that no read uses, to free some for other needs; returns whether there were any."""
        with self._lock:
            idle = self._pop_idle(0)
        for descriptor in idle:
            self.files.close(descriptor)
        return bool(idle)

    def release(self, number: int, handle: Handle) -> None:
        """See Handle.release."""
        self._released.append((number, handle))

    def close_released(self) -> None:
        """Closes the descriptors of released handles, and removes the files that are marked. Blocks on the disk.

        A file that can't be removed stays until the next start, which removes it because no manifest names it.
        """
        while self._released:
            with contextlib.suppress(IndexError):  # Another thread took the last handle.
                number, handle = self._released.popleft()
                with self._lock:
                    opened = self._open.pop(number, None)
                if opened is not None:
                    self.files.close(opened.descriptor)
                if handle.remove_on_release:
                    self._remove(handle)

    def statistics(self) -> OpenFilesStatistics:
        with self._lock:
            borrowed_count = sum(opened.borrowed_count > 0 for opened in self._open.values())
            return OpenFilesStatistics(len(self._open), borrowed_count, self._opened_count, self._removed_count)

    def _opened(self, handle: Handle) -> int:
        """Opens the handle's file; raises CorruptionError if the name refers to another file or to none."""
        try:
            descriptor = self.files.open(handle.path, os.O_RDONLY)
        except FileNotFoundError:
            if handle.identity is None:
                raise
            raise CorruptionError(handle.path, 0, "the store file that the region serves", "no file") from None
        try:
            found = self.files.identity(descriptor)
            if handle.identity is None:
                handle.identity = found
            elif found != handle.identity:
                raise CorruptionError(handle.path, 0, f"the file that was opened first, {handle.identity}", f"{found}")
        except BaseException:
            self.files.close(descriptor)
            raise
        return descriptor

    def _pop_idle(self, count_max: int) -> list[int]:
        """Removes idle descriptors from the pool until `count_max` are open, and returns them; needs the lock."""
        count = len(self._open) - count_max
        if count <= 0:
            return []
        idle = (number for number, opened in self._open.items() if not opened.borrowed_count)
        return [self._open.pop(number).descriptor for number in list(itertools.islice(idle, count))]

    def _remove(self, handle: Handle) -> None:
        with contextlib.suppress(OSError):
            with contextlib.suppress(FileNotFoundError):
                self._unlink(handle.path)
            with self._lock:
                self._removed_count += 1
            if handle.remove_folder:
                self.files.remove_folder(handle.path.parent)  # Fails as long as other files are in it.

    def _unlink(self, path: Path) -> None:
        """Removes a file. A thread frees a large one in pieces (Files.free_unlinked), which may take seconds.

        If too many wait, its space is freed at once, by the caller.
        """
        descriptor = self.files.unlink(path)
        if descriptor is None:
            return
        with self._lock:
            is_queued = len(self._unlinked) < _UNLINKED_MAX
            is_first = is_queued and not self._is_freeing
            if is_queued:
                self._unlinked.append(descriptor)
                self._is_freeing = True
        if is_first:
            try:
                threading.Thread(
                    target=self._free, args=[self.files.free_unlinked], name="file-remover", daemon=True
                ).start()
            except RuntimeError:  # The system has no thread for it, or the process ends.
                self._free(self.files.close)
        elif not is_queued:
            self.files.close(descriptor)

    def _free(self, free: Callable[[int], None]) -> None:
        """Frees removed files by this function until there are none."""
        while True:
            with self._lock:
                if not self._unlinked:
                    self._is_freeing = False
                    return
                descriptor = self._unlinked.popleft()
            with contextlib.suppress(OSError):  # The next file is to be freed, too.
                free(descriptor)

    def _check(self) -> None:
        """Asserts that at most `count_max` descriptors are open beside those in use."""
        with self._lock:
            borrowed_count = sum(opened.borrowed_count > 0 for opened in self._open.values())
            assert len(self._open) <= self.count_max + borrowed_count, f"{len(self._open)} of {self.count_max}"
