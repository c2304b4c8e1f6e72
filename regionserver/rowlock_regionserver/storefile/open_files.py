"""Descriptors of store files: opened when a read needs one, and only so many of them kept open.

A server may have more store files than a process may have descriptors, and its clients need some too. So a store file
has a Handle, which borrows a descriptor for each read. The least recently used ones that nobody reads are closed.

1. A handle stands for one file: the one that was there when it was first opened. Each later open compares device,
   inode and length, so a read never mixes two files, whatever happened to the name meanwhile.
2. A file is removed from the disk when nobody can read it any more, and not before: its name is needed to open it
   again. Whoever replaces a file marks its handle; the last reference to the store file removes it.
3. The last reference may go in any thread, under any lock. So that only notes what is to be done, and `tidy` does it.

Without a free descriptor reads raise TooManyOpenFilesError, which says that another try may succeed.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections import OrderedDict, deque
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import FileIdentity, Files

# What tests and inspections need: they read one file after the other.
_FEW = 16


@dataclass(frozen=True, slots=True)
class OpenFilesStatistics:
    """Descriptors that are open now, and what became of the others."""

    open_count: int
    borrowed_count: int  # being read from
    opened_count: int
    removed_count: int  # files that were removed with their last reference


@dataclass(slots=True)
class _Open:
    """An open descriptor, and how many reads use it now."""

    descriptor: int
    borrowed_count: int


class Handle:
    """One store file. As a context it gives a descriptor for as long as it is entered. Any number of threads may.

    Entering it may open the file: it blocks on the disk, and raises CorruptionError when the file is not there any more
    or is another one, and TooManyOpenFilesError.
    """

    __slots__ = ("_number", "_open_files", "folder_goes_too", "identity", "is_to_be_removed", "path")

    def __init__(self, path: Path, open_files: OpenFiles, number: int) -> None:
        self.path = path
        self.identity: FileIdentity | None = None  # set by the first open
        self.is_to_be_removed = False
        self.folder_goes_too = False
        self._open_files = open_files
        self._number = number

    def __enter__(self) -> int:
        return self._open_files.borrow(self._number, self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open_files.give_back(self._number)

    def borrow_if_open(self) -> int | None:
        """A descriptor to be given back by `give_back`, if the file is open now. Never blocks on a disk."""
        return self._open_files.borrow_if_open(self._number)

    def give_back(self) -> None:
        """Ends what `borrow_if_open` began."""
        self._open_files.give_back(self._number)

    def remove_when_unused(self, *, folder_too: bool = False) -> None:
        """The file goes from the disk when the last reference to its store file has gone; so does an empty folder."""
        self.folder_goes_too = folder_too
        self.is_to_be_removed = True

    def unused(self) -> None:
        """Nobody reads the file any more. Takes no lock, so a finalizer may call it; see OpenFiles.tidy."""
        self._open_files.unused(self._number, self)


class OpenFiles:
    """The descriptors of all store files of a server. Thread-safe."""

    def __init__(self, files: Files, count_max: int = _FEW) -> None:
        """Keeps at most `count_max` open, and as many more as are read from at one time."""
        assert count_max >= 1, f"at most {count_max} open files"
        self.files = files
        self.count_max = count_max
        self._numbers = itertools.count(1)
        # Store files that are gone. Filled without the lock, by finalizers.
        self._unused: deque[tuple[int, Handle]] = deque()
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._open: OrderedDict[int, _Open] = OrderedDict()  # by handle; the least recently used first
        self._opened_count = 0
        self._removed_count = 0

    def handle(self, path: Path) -> Handle:
        """A handle of the file at `path`, which is not opened yet."""
        return Handle(path, self, next(self._numbers))

    def borrow(self, number: int, handle: Handle) -> int:
        """A descriptor that stays open until `give_back`; see Handle."""
        found = self.borrow_if_open(number)
        if found is not None:
            return found
        descriptor = self._opened(handle)
        with self._lock:
            self._opened_count += 1
            opened = self._open.setdefault(number, _Open(descriptor, 0))  # Another thread may have been faster.
            opened.borrowed_count += 1
            surplus = self._taken(self.count_max)
        for each in surplus if opened.descriptor == descriptor else (*surplus, descriptor):
            self.files.close(each)
        self.tidy()
        return opened.descriptor

    def borrow_if_open(self, number: int) -> int | None:
        """The same if the file is open; else None."""
        with self._lock:
            opened = self._open.get(number)
            if opened is None:
                return None
            self._open.move_to_end(number)
            opened.borrowed_count += 1
            return opened.descriptor

    def give_back(self, number: int) -> None:
        """One read less."""
        with self._lock:
            opened = self._open[number]
            assert opened.borrowed_count > 0, f"descriptor {opened.descriptor} is given back and nobody has it"
            opened.borrowed_count -= 1
            surplus = self._taken(self.count_max) if len(self._open) > self.count_max else []
        for descriptor in surplus:
            self.files.close(descriptor)

    def close_idle(self) -> bool:
        """Closes all that nobody reads from; whether there were any. For whoever needs a descriptor and gets none."""
        with self._lock:
            idle = self._taken(0)
        for descriptor in idle:
            self.files.close(descriptor)
        return bool(idle)

    def unused(self, number: int, handle: Handle) -> None:
        """See Handle.unused."""
        self._unused.append((number, handle))

    def tidy(self) -> None:
        """Closes the descriptors of store files that are gone, and removes those that were to be removed. Blocks.

        A file that can't be removed stays, and the next start removes it: no manifest names it.
        """
        while self._unused:
            with contextlib.suppress(IndexError):  # Another thread took the last one.
                number, handle = self._unused.popleft()
                with self._lock:
                    opened = self._open.pop(number, None)
                if opened is not None:
                    self.files.close(opened.descriptor)
                if handle.is_to_be_removed:
                    self._remove(handle)

    def statistics(self) -> OpenFilesStatistics:
        with self._lock:
            borrowed_count = sum(opened.borrowed_count > 0 for opened in self._open.values())
            return OpenFilesStatistics(len(self._open), borrowed_count, self._opened_count, self._removed_count)

    def _opened(self, handle: Handle) -> int:
        """A new descriptor of the handle's file, which it must be."""
        try:
            descriptor = self.files.open(handle.path, os.O_RDONLY)
        except FileNotFoundError:
            if handle.identity is None:
                raise
            raise CorruptionError(handle.path, 0, "the store file that is served", "no file") from None
        try:
            found = self.files.identity(descriptor)
            if handle.identity is None:
                handle.identity = found
            elif found != handle.identity:
                raise CorruptionError(handle.path, 0, f"the file that was opened, {handle.identity}", f"{found}")
        except BaseException:
            self.files.close(descriptor)
            raise
        return descriptor

    def _taken(self, count_max: int) -> list[int]:
        """Descriptors that nobody reads from, taken out so that `count_max` are left; the caller has the lock."""
        count = len(self._open) - count_max
        if count <= 0:
            return []
        idle = (number for number, opened in self._open.items() if not opened.borrowed_count)
        return [self._open.pop(number).descriptor for number in list(itertools.islice(idle, count))]

    def _remove(self, handle: Handle) -> None:
        with contextlib.suppress(OSError):
            self.files.remove_if_there(handle.path)
            with self._lock:
                self._removed_count += 1
            if handle.folder_goes_too:
                self.files.remove_folder(handle.path.parent)  # Fails as long as other files are in it.

    def _check(self) -> None:
        """Asserts that no more than allowed are open when nobody reads."""
        with self._lock:
            borrowed_count = sum(opened.borrowed_count > 0 for opened in self._open.values())
            assert len(self._open) <= self.count_max + borrowed_count, f"{len(self._open)} of {self.count_max}"
