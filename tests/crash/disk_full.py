"""The disk gets full at each call that takes space: writes are refused until space is freed, and reads continue.

There are three ways to a full disk, each in the middle of a life:

- `files door`: on a simulated disk every call that takes new space fails from the N-th on. Preallocated log space can
  still be written.
- `LMDB`: the N-th and later writes of LMDB itself fail; the child is traced (tracer.py).
- `small disk`: a real file system that is full (small_disk.py).

A refused step must raise DiskFullError, no other error, and change nothing. While the disk is full everything can be
read. After space is freed, a retry of the same step must succeed. A write that the log had taken when the disk got full
waits for space, and must succeed too. At the end, and after a kill and two restarts,
everything is there.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.errors import DiskFullError
from rowlock_regionserver.files import Files
from rowlock_regionserver.wal import preallocated

from tests.crash import small_disk
from tests.crash.account import Account, Settings
from tests.crash.children import ChildFailedError, in_child, spread
from tests.crash.driver import Driver, small_config
from tests.crash.every_system_call import calls_of_a_life, is_lmdb
from tests.crash.folders import folder
from tests.crash.life import DONE, SENT, Judge, small_life
from tests.crash.restarts import problem_after_restarts
from tests.crash.simulated_files import SimulatedFiles
from tests.crash.steps import Restart, Step
from tests.crash.tracer import Action, SystemCall, traced

PROMISE = (
    "the disk is full at each call that takes space: writes are refused, reads and later writes work; nothing is lost"
)
# How many times a step is refused before space is freed.
REFUSALS = 2
# How long a step may take before space is freed for it, if the log waits for that.
WAITING_SECONDS = 2.0
WAIT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Full:
    """The call at which the disk is full, counted from 1 among those of its way."""

    way: str  # "files door" or "LMDB"
    call: int
    seed: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome: the number of refused steps (0 if the call was not reached), and what was wrong."""

    refusals: int
    problem: str | None


class FullDisk(SimulatedFiles):
    """A disk that has no space from a given call on, until space is freed."""

    def __init__(self, root: Path, full_at: int) -> None:
        super().__init__(root)
        self.full_at = full_at
        self.taking_calls = 0

    @property
    def is_full(self) -> bool:
        return 0 < self.full_at <= self.taking_calls

    def make_space(self) -> None:
        self.full_at = 0

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        if flags & os.O_CREAT and not path.exists():
            self._take(path)
        return super().open(path, flags, mode)

    def pwrite(self, descriptor: int, data: bytes | bytearray | memoryview, offset: int) -> int:
        status = os.fstat(descriptor)
        if offset + len(data) > status.st_blocks * 512:
            self._take(self._path(descriptor))
        return super().pwrite(descriptor, data, offset)

    def allocate(self, descriptor: int, offset: int, length: int) -> None:
        self._take(self._path(descriptor))
        super().allocate(descriptor, offset, length)

    def make_folder(self, path: Path) -> None:
        if not path.exists():
            self._take(path)
        super().make_folder(path)

    def free_bytes(self, path: Path) -> int:
        return 0 if self.is_full else super().free_bytes(path)

    def _take(self, path: Path) -> None:
        self.taking_calls += 1
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


class Life:
    """A life in which a refused step is retried until there is space."""

    def __init__(self, root: Path, files: Files, steps: list[Step], progress: bytearray | memoryview) -> None:
        self.refusals = 0
        self._root = root
        self._files = files
        self._steps = steps
        self._progress = progress
        self._driver: Driver | None = None
        self._make_space: Callable[[], None] = lambda: None

    def live(self, make_space: Callable[[], None]) -> str | None:
        """Runs the life; returns what is wrong, or None. Calls `make_space` after a few refusals of a step."""
        preallocated.RETRY_SECONDS = 0.01  # A retry only once a second would slow down the campaign.
        self._make_space = make_space
        for number, step in enumerate(self._steps):
            self._progress[number] = SENT
            refused = 0
            deadline = time.monotonic() + WAIT_SECONDS
            while not self._did(number, step):
                refused += 1
                problem = self._problem_while_full()
                if problem is not None:
                    return f"step {number}, {step}, while full: {problem}"
                if refused == REFUSALS:
                    make_space()
                if time.monotonic() > deadline:
                    return f"step {number}, {step}, is refused though there is space again"
            self.refusals += refused
            self._progress[number] = DONE
        assert self._driver is not None
        return self._problem_of(self._driver)

    def _did(self, number: int, step: Step) -> bool:
        """Does the step; returns False when it was refused because the disk is full."""
        try:
            driver = self._opened()
            if not isinstance(step, Restart):
                with self._space_for_the_log(driver):
                    driver.do(number, step)
                return True
            driver.server.stop()
            self._driver = None
            self._opened()
        except DiskFullError:
            return False
        except OSError as error:
            if error.errno != errno.ENOSPC or self._driver is not None:
                raise
            return False  # The server could not start, which counts as a refusal.
        return True

    @contextlib.contextmanager
    def _space_for_the_log(self, driver: Driver) -> Iterator[None]:
        """Returns a context in which space is freed if a step takes long and the log waits for space."""
        is_over = threading.Event()

        def watch() -> None:
            while not is_over.wait(WAITING_SECONDS):
                if driver.server._log.waits_for_space:
                    self._make_space()

        watching = threading.Thread(target=watch, daemon=True)
        watching.start()
        try:
            yield
        finally:
            is_over.set()
            watching.join()

    def _opened(self) -> Driver:
        if self._driver is None:
            self._driver = Driver(self._root, self._files, small_config())
        return self._driver

    def _problem_while_full(self) -> str | None:
        return None if self._driver is None else self._problem_of(self._driver)

    def _problem_of(self, driver: Driver) -> str | None:
        """Reads everything; no part of a refused step may be there."""
        if driver.fatal:
            return f"the server ended: {driver.fatal[0]!r}"
        return Judge(self._steps, self._progress, Durability.ASYNC).problem(driver.read_all())


def run(settings: Settings) -> Account:
    """Runs the campaign: every call that takes space, or a sample, and one small disk that is really full."""
    account = Account("disk_full", PROMISE)
    call_count = in_child(lambda: _count_calls(settings.seed))
    lmdb_count = sum(map(is_lmdb, calls_of_a_life(settings.seed)))
    jobs = [Full("files door", call, settings.seed) for call in range(1, call_count + 1)]
    jobs += [Full("LMDB", call, settings.seed) for call in range(1, lmdb_count + 1)]
    if settings.is_short:
        jobs = random.Random(settings.seed).sample(jobs, 14)
    for job, outcome in spread(filled, jobs):
        account.counts[f"full disks met by way of {job.way}"] += bool(outcome.refusals)
        account.counts["steps refused"] += outcome.refusals
        if outcome.problem is not None:
            account.problems.append(f"{job}: {outcome.problem}")
    # A sample may draw calls that a life does not reach, depending on the scheduling of its threads.
    if account.counts["steps refused"] < (0.25 if settings.is_short else 0.5) * len(jobs):
        account.problems.append("too few of the lives reached the full disk")
    _fill_small_disk(account)
    return account


def _fill_small_disk(account: Account) -> None:
    with folder() as root:
        try:
            refusals = in_child(lambda: small_disk.fill(root / "small"))
        except ChildFailedError as error:
            account.problems.append(f"small disk: {error}")
            return
    if refusals is None:
        account.notes.append("small disk: mounting is not permitted here")
    else:
        account.counts["writes refused on a small disk that was really full"] = refusals


def filled(full: Full) -> Outcome:
    """Runs a life that meets a full disk, and two restarts."""
    way = _through_files_door if full.way == "files door" else _through_lmdb
    steps = small_life(full.seed)
    progress = mmap.mmap(-1, len(steps))
    with folder() as root:
        try:
            refusals, problem = way(root / "data", full, steps, progress)
        except ChildFailedError as error:
            return Outcome(0, str(error))
        if problem is None:
            judge = Judge(steps, bytes(progress), Durability.ASYNC)
            problem = problem_after_restarts(root / "data", judge, stops=full.call % 2 == 0)
    return Outcome(refusals, problem)


def _through_files_door(root: Path, full: Full, steps: list[Step], progress: mmap.mmap) -> tuple[int, str | None]:
    def live() -> tuple[int, str | None]:
        disk = FullDisk(root, full.call)
        life = Life(root, disk, steps, memoryview(progress))
        return _told(life, disk.make_space)

    return in_child(live)


def _through_lmdb(root: Path, full: Full, steps: list[Step], progress: mmap.mmap) -> tuple[int, str | None]:
    """Memory shared by the child and its tracer: whether there is space again, the refusals, and the problem."""
    shared = mmap.mmap(-1, 4096)

    def work() -> None:
        root.mkdir(mode=0o700)
        life = Life(root, Files(), steps, memoryview(progress))
        refusals, problem = _told(life, lambda: shared.__setitem__(0, 1))
        shared[8:16] = refusals.to_bytes(8, "little")
        shared[16:] = (problem or "").encode()[: 4096 - 16].ljust(4096 - 16, b"\0")
        shared[1] = 1

    lmdb_calls = 0

    def decide(call: SystemCall) -> Action | int:
        nonlocal lmdb_calls
        lmdb_calls += is_lmdb(call)
        is_full = is_lmdb(call) and lmdb_calls >= full.call and not shared[0]
        return errno.ENOSPC if is_full else Action.GO_ON

    status = traced(work).run(decide)
    if not shared[1]:
        return 0, f"the child ended with status {status:#x}"
    return int.from_bytes(shared[8:16], "little"), shared[16:].rstrip(b"\0").decode() or None


def _told(life: Life, make_space: Callable[[], None]) -> tuple[int, str | None]:
    try:
        problem = life.live(make_space)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    return life.refusals, problem


def _count_calls(seed: int) -> int:
    with folder() as root:
        disk = FullDisk(root / "data", 0)
        steps = small_life(seed)
        problem = Life(disk.root, disk, steps, bytearray(len(steps))).live(lambda: None)
        assert problem is None, problem
        return disk.taking_calls
