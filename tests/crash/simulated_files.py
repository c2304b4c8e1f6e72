"""A simulated disk over a real folder: what a power failure leaves of it, and a crash or failure at any call.

    disk = SimulatedFiles(tmp_path / "data")          # creates the folder; give `disk` to a server as its Files
    disk.crash_at(17)                                 # dies in the 17th changing call from now, as kill -9 would
    disk.fail_at(3, errno.EIO)                        # the third changing call from now fails once
    disk.before_call = lambda call: ...               # called before each changing call, may raise or block
    disk.power_failure(tmp_path / "after", Loss.ALL)  # a folder as it is found after the power came back

Live content is in the real folder, so that LMDB, which bypasses this class, can work there. For each file the
simulation stores the content that its last fsync or fdatasync made durable, and for each folder the names that its last
fsync_folder made durable, with the changes of names since then. A file that was synced but whose name was not is lost,
as POSIX allows; one with several names has the same content under those that are left. Changes of names of a folder
become durable in order, as on any journalling file system.

Files are identified by inode; a hidden hard link to each prevents reuse of its inode. A file that was created without
this class is first noticed when it is opened, renamed or its folder is synced through it, and counts as empty until it
is synced.
"""

from __future__ import annotations

import enum
import errno
import itertools
import os
import random
import stat
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rowlock_regionserver.files import Files

SECTOR_BYTES = 512


class SimulatedCrash(BaseException):
    """The process has died: nothing that it does after this reaches the disk."""


class Loss(enum.Enum):
    """What a power failure loses."""

    NOTHING = enum.auto()  # the process was killed, the machine went on
    ALL = enum.auto()  # everything that was not synced
    SOME = enum.auto()  # of what was not synced: random sectors, sizes and a random number of changes of names


class Moment(enum.Enum):
    """The moment of a call at which the process dies."""

    BEFORE = enum.auto()
    AFTER = enum.auto()
    MIDDLE = enum.auto()  # a write is done by half; other calls: BEFORE


@dataclass(frozen=True, slots=True)
class Call:
    """A changing call: its name, such as "fdatasync", and the path that it changes."""

    name: str
    path: Path


@dataclass(slots=True)
class _Folder:
    durable: dict[str, int] = field(default_factory=dict)  # name to inode
    changes: list[tuple[tuple[str, int | None], ...]] = field(default_factory=list)  # each is done whole or not

    def now(self) -> dict[str, int]:
        return self.after(len(self.changes))

    def after(self, count: int) -> dict[str, int]:
        """The names after the first `count` changes."""
        names = dict(self.durable)
        for change in self.changes[:count]:
            for name, inode in change:
                if inode is None:
                    names.pop(name, None)
                else:
                    names[name] = inode
        return names


class SimulatedFiles(Files):
    """The Files of a simulated disk. Thread-safe; changing calls are done one at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls: list[Call] = []  # all changing calls so far
        self.before_call: Callable[[Call], None] = lambda call: None
        self.is_dead = False
        self._lock = threading.RLock()
        self._links = root.parent / f".{root.name}-inodes"
        self._links.mkdir()
        self._paths: dict[int, Path] = {}  # of open descriptors
        self._durable: dict[int, bytes] = {}  # by inode
        self._folders: dict[int, _Folder] = {}  # by inode
        self._planned: dict[int, tuple[Moment | None, int]] = {}  # by call number: a crash, or an errno
        root.mkdir(mode=0o700)
        self._folders[root.stat().st_ino] = _Folder()

    @classmethod
    def of(cls, root: Path) -> SimulatedFiles:
        """Creates a disk with the contents of the folder, all of it durable."""
        content = root.with_name(f".{root.name}-content")
        root.rename(content)
        disk = cls(root)
        for path in sorted(content.rglob("*")):
            target = root / path.relative_to(content)
            if path.is_dir():
                disk.make_folder(target)
            else:
                path.rename(target)
                descriptor = disk.open(target, os.O_RDWR)
                disk.fsync(descriptor)
                disk.close(descriptor)
        for folder in [root, *(path for path in root.rglob("*") if path.is_dir())]:
            disk.fsync_folder(folder)
        disk.calls.clear()
        return disk

    # What goes wrong.

    def crash_at(self, call: int, moment: Moment = Moment.BEFORE) -> None:
        """Dies in the given changing call from now, counted from 1."""
        self._planned[len(self.calls) + call] = (moment, 0)

    def crash_at_rename(self, number: int, folder: str) -> None:
        """Dies before the given rename in folders of this name, counted from 1, until `before_call` is set again."""
        renames = itertools.count(1)

        def die(call: Call) -> None:
            if call.name == "rename" and call.path.parent.name == folder and next(renames) == number:
                self.is_dead = True
                raise SimulatedCrash(f"rename {number} in {folder}")

        self.before_call = die

    def fail_at(self, call: int, error_number: int) -> None:
        """The given changing call from now fails; a sync that fails also drops the pages that it should have synced."""
        self._planned[len(self.calls) + call] = (None, error_number)

    def fail_next(self, name: str, error_number: int) -> None:
        """Makes all calls of this name fail, until `before_call` is set again."""

        def fail(call: Call) -> None:
            if call.name == name:
                raise OSError(error_number, os.strerror(error_number), str(call.path))

        self.before_call = fail

    def revive(self) -> None:
        """Lets the next process start on what the last one left, without a power failure."""
        self.is_dead = False
        self._planned.clear()

    def close_all(self) -> None:
        """Closes what a process that has died left open, as the system would. Its threads must have ended."""
        for descriptor in list(self._paths):
            self.close(descriptor)

    def count(self, name: str) -> int:
        """Returns how often this call was made."""
        return sum(call.name == name for call in self.calls)

    # What is left.

    def power_failure(self, target: Path, loss: Loss, seed: int = 0) -> Path:
        """Creates `target` with the contents after a power failure. The disk itself does not change."""
        with self._lock:
            self._copy(self.root, self.root.stat().st_ino, target, loss, random.Random(seed), {})
        return target

    def _copy(
        self, live: Path, inode: int, target: Path, loss: Loss, chance: random.Random, copies: dict[int, Path]
    ) -> None:
        """Copies a folder. `copies`: the files that were copied before, by inode, perhaps under another name."""
        target.mkdir(mode=0o700)
        folder = self._folders.setdefault(inode, _Folder())
        self._see_folder(live)
        if loss is Loss.NOTHING:
            names = folder.now()
        else:
            names = folder.after(chance.randint(0, len(folder.changes)) if loss is Loss.SOME else 0)
        for name, child in sorted(names.items()):
            if child in self._folders:
                self._copy(self._path_of(live, child), child, target / name, loss, chance, copies)
            elif child in copies:
                os.link(copies[child], target / name)
            else:
                copies[child] = target / name
                content = self._content(child, loss, chance)
                (target / name).write_bytes(content)
                (target / name).chmod(0o600)

    def _content(self, inode: int, loss: Loss, chance: random.Random) -> bytes:
        durable = self._durable.get(inode, b"")
        if loss is Loss.ALL:
            return durable
        live = self._link(inode).read_bytes()
        if loss is Loss.NOTHING or live == durable:
            return live
        size = chance.choice((len(durable), len(live)))
        content = bytearray(durable[:size].ljust(size, b"\0"))
        keep = chance.choice((0.1, 0.5, 0.9))
        for start in range(0, size, SECTOR_BYTES):
            sector = live[start : min(start + SECTOR_BYTES, size)]
            if sector and chance.random() < keep:
                content[start : start + len(sector)] = sector
        return bytes(content)

    def _path_of(self, folder: Path, inode: int) -> Path:
        """Returns the current path of a folder; a path that does not exist if it was removed."""
        for name in os.listdir(folder) if folder.is_dir() else ():
            if os.stat(folder / name).st_ino == inode:
                return folder / name
        return folder / f"removed-{inode}"

    # What is known of files and folders.

    def _link(self, inode: int) -> Path:
        return self._links / str(inode)

    def _see(self, path: Path) -> int:
        """Returns the inode at this path; registers a file that was not known."""
        status = os.stat(path)
        inode = status.st_ino
        if stat.S_ISDIR(status.st_mode):
            self._folders.setdefault(inode, _Folder())
        elif inode not in self._durable:
            os.link(path, self._link(inode))
            self._durable[inode] = b""
        return inode

    def _folder_of(self, path: Path) -> _Folder:
        return self._folders[self._see(path.parent)]

    def _see_folder(self, path: Path) -> None:
        """Registers names that were created, changed or removed without this class."""
        folder = self._folders.setdefault(os.stat(path).st_ino, _Folder()) if path.is_dir() else None
        if folder is None:
            return
        known = folder.now()
        live = {name: self._see(path / name) for name in os.listdir(path)}
        for name in known.keys() - live.keys():
            folder.changes.append(((name, None),))
        for name, inode in live.items():
            if known.get(name) != inode:
                folder.changes.append(((name, inode),))

    def _changed_name(self, *entries: tuple[Path, int | None]) -> None:
        """Records one change of one or more names of a folder."""
        folder = self._folder_of(entries[0][0])
        folder.changes.append(tuple((path.name, inode) for path, inode in entries))

    # Each changing call.

    def _change(self, name: str, path: Path, act: Callable[[], None], half: Callable[[], None] | None = None) -> None:
        """Runs `act` as one changing call, unless a crash or failure is planned for it."""
        with self._lock:
            self._check_alive()
            call = Call(name, path)
            self.calls.append(call)
            moment, error_number = self._planned.pop(len(self.calls), (None, 0))
            if moment is Moment.MIDDLE and half is not None:
                half()
            if moment is Moment.AFTER:
                act()
            if moment is not None:
                self.is_dead = True
                raise SimulatedCrash(f"call {len(self.calls)}, {name} of {path.name}, {moment.name}")
            if error_number:
                if name in ("fdatasync", "fsync"):
                    self.drop_pages(path)
                raise OSError(error_number, os.strerror(error_number), str(path))
        self.before_call(call)
        with self._lock:
            self._check_alive()
            act()

    def drop_pages(self, path: Path) -> None:
        """Drops what was not synced from the page cache too, as clean pages."""
        inode = self._see(path)
        durable = self._durable[inode]
        with self._link(inode).open("r+b") as file:
            file.truncate(len(durable))
            file.write(durable)

    def _check_alive(self) -> None:
        if self.is_dead:
            raise SimulatedCrash("dead already")

    # The door itself.

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        opened: list[int] = []

        def act() -> None:
            is_new = not path.exists()
            opened.append(super(SimulatedFiles, self).open(path, flags, mode))
            inode = self._see(path)
            if is_new:
                self._changed_name((path, inode))
            self._paths[opened[0]] = path

        if flags & os.O_CREAT and not path.exists():
            self._change("create", path, act)
        else:
            with self._lock:
                self._check_alive()
                act()
        return opened[0]

    def close(self, descriptor: int) -> None:
        with self._lock:
            self._paths.pop(descriptor, None)
            super().close(descriptor)

    def pwrite(self, descriptor: int, data: bytes | bytearray | memoryview, offset: int) -> int:
        counts: list[int] = []
        whole = bytes(data)

        def act() -> None:
            counts.append(os.pwrite(descriptor, whole, offset))

        def half() -> None:
            os.pwrite(descriptor, whole[: len(whole) // 2], offset)

        self._change("pwrite", self._path(descriptor), act, half)
        return counts[0]

    def pread(self, descriptor: int, count: int, offset: int) -> bytes:
        self._check_alive()
        return super().pread(descriptor, count, offset)

    def fdatasync(self, descriptor: int) -> None:
        self._change("fdatasync", self._path(descriptor), lambda: self._sync(descriptor))

    def fsync(self, descriptor: int) -> None:
        self._change("fsync", self._path(descriptor), lambda: self._sync(descriptor))

    def _sync(self, descriptor: int) -> None:
        # Read under its hidden name: the descriptor may be for writing only.
        inode = os.fstat(descriptor).st_ino
        self._durable[inode] = self._link(inode).read_bytes()

    def fsync_folder(self, path: Path) -> None:
        def act() -> None:
            self._see_folder(path)
            folder = self._folders[path.stat().st_ino]
            folder.durable = folder.now()
            folder.changes.clear()

        self._change("fsync_folder", path, act)

    def allocate(self, descriptor: int, offset: int, length: int) -> None:
        self._change(
            "allocate",
            self._path(descriptor),
            lambda: super(SimulatedFiles, self).allocate(descriptor, offset, length),
        )

    def truncate(self, descriptor: int, length: int) -> None:
        self._change("truncate", self._path(descriptor), lambda: os.ftruncate(descriptor, length))

    def rename(self, source: Path, target: Path) -> None:
        def act() -> None:
            inode = self._see(source)
            self._take_in(source.parent, target.parent)
            os.replace(source, target)
            for descriptor, path in self._paths.items():
                if path.is_relative_to(source):
                    self._paths[descriptor] = target / path.relative_to(source)
            if source.parent == target.parent:
                self._changed_name((source, None), (target, inode))
            else:
                self._changed_name((target, inode))
                self._changed_name((source, None))

        self._change("rename", target, act)

    def link(self, source: Path, target: Path) -> None:
        def act() -> None:
            inode = self._see(source)
            self._take_in(target.parent)
            super(SimulatedFiles, self).link(source, target)
            self._changed_name((target, inode))

        self._change("link", target, act)

    def remove(self, path: Path) -> None:
        def act() -> None:
            self._take_in(path.parent)
            os.unlink(path)
            self._changed_name((path, None))

        if not path.exists():
            self._check_alive()
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        self._change("remove", path, act)

    def make_folder(self, path: Path) -> None:
        def act() -> None:
            os.mkdir(path, 0o700)
            inode = path.stat().st_ino
            self._folders[inode] = _Folder()
            self._durable.pop(inode, None)
            self._changed_name((path, inode))

        self._change("make_folder", path, act)

    def remove_folder(self, path: Path) -> None:
        def act() -> None:
            if os.listdir(path):
                raise OSError(errno.ENOTEMPTY, "folder is not empty", str(path))
            # Moved out of sight instead of removed, so that its inode is not used again.
            os.rename(path, self._links / f"folder-{os.stat(path).st_ino}")
            self._changed_name((path, None))

        self._change("remove_folder", path, act)

    def list_folder(self, path: Path) -> list[str]:
        self._check_alive()
        return super().list_folder(path)

    def size(self, path: Path) -> int:
        self._check_alive()
        return super().size(path)

    def read(self, path: Path) -> bytes:
        self._check_alive()
        return path.read_bytes()

    def _take_in(self, *folders: Path) -> None:
        for folder in dict.fromkeys(folders):
            self._see_folder(folder)

    def _path(self, descriptor: int) -> Path:
        with self._lock:
            return self._paths[descriptor]


class UnsyncedFiles(Files):
    """The real file system without syncs, many times faster, for tests in which the machine never fails."""

    def fdatasync(self, descriptor: int) -> None:
        pass

    def fsync(self, descriptor: int) -> None:
        pass

    def fsync_folder(self, path: Path) -> None:
        pass


def copy_folder(source: Path, target: Path, names: Iterable[str] | None = None) -> Path:
    """Copies a flat folder, or some of its files."""
    target.mkdir(mode=0o700)
    for name in sorted(os.listdir(source) if names is None else names):
        (target / name).write_bytes((source / name).read_bytes())
    return target
