"""Each sync of a life fails once and its pages are dropped; the server must end, and lose nothing in a power cut.

A failed fsync or fdatasync marks the kernel's pages clean without having written them, so a second one would succeed
and prove nothing. The simulated disk does the same: the sync returns EIO, and the data that it should have made durable
is lost. After that the server must acknowledge nothing, and end. After a power cut, two restarts must find every write
that was acknowledged at `fsync`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.errors import RegionServerError

from tests.crash.account import Account, Settings
from tests.crash.children import ChildFailedError, in_child, spread
from tests.crash.driver import Driver, ServerDiedError, small_config
from tests.crash.folders import folder
from tests.crash.life import DONE, Judge, small_life
from tests.crash.restarts import problem_after_restarts
from tests.crash.simulated_files import Call, Loss, SimulatedFiles
from tests.crash.steps import Restart, Step

PROMISE = "each sync fails once (EIO, pages dropped), then a power cut: nothing acknowledged after it, nothing lost"
SYNCS = ("fdatasync", "fsync", "fsync_folder")
WAIT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Failure:
    """The sync of a life that fails, counted from 1."""

    sync: int
    seed: int


@dataclass(slots=True)
class Outcome:
    """The outcome; `what` is empty when the life ended before the sync."""

    what: str = ""
    problems: list[str] = field(default_factory=list)


def run(settings: Settings) -> Account:
    """Runs the campaign: every sync, or a sample."""
    account = Account("failed_sync", PROMISE)
    sync_count = in_child(lambda: _count_syncs(settings.seed))
    failures = [Failure(sync, settings.seed) for sync in range(1, sync_count + 1)]
    if settings.is_short:
        failures = random.Random(settings.seed).sample(failures, 14)
    account.counts["syncs in the life"] = sync_count
    failed_in: Counter[str] = Counter()
    for failure, outcome in spread(failed, failures):
        account.counts["failed syncs"] += bool(outcome.what)
        account.counts["restarts"] += 4 * bool(outcome.what)
        failed_in[outcome.what] += bool(outcome.what)
        account.problems += [f"{failure}, {outcome.what}: {problem}" for problem in outcome.problems]
    account.notes += [f"{count:>5}  {what}" for what, count in failed_in.most_common() if count]
    # A sample may draw calls that a life does not reach, depending on the scheduling of its threads.
    if account.counts["failed syncs"] < (0.5 if settings.is_short else 0.8) * len(failures):
        account.problems.append("too few of the lives reached their failure")
    return account


class Life:
    """A life on a disk of which one sync fails; afterwards every step is still tried."""

    def __init__(self, disk: SimulatedFiles, steps: list[Step], fails_at: int) -> None:
        self.progress = bytearray(len(steps))
        self.failed: Call | None = None
        self.problem: str | None = None
        self.sync_count = 0
        self._driver: Driver | None = None
        self._failed_after_restarts = 0
        self._disk = disk
        self._steps = steps
        self._fails_at = fails_at
        disk.before_call = self._before

    def _before(self, call: Call) -> None:
        if call.name not in SYNCS:
            return
        self.sync_count += 1
        if self.sync_count == self._fails_at:
            self.failed = call
            self._failed_after_restarts = 0 if self._driver is None else self._driver.restart_count
            if call.name != "fsync_folder":
                self._disk.drop_pages(call.path)
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(call.path))

    def live(self) -> None:
        """Up to the failure, and then on to see that nothing is acknowledged any more."""
        try:
            driver = self._driver = Driver(self._disk.root, self._disk, small_config())
        except (OSError, RegionServerError):
            if self.failed is None:
                raise
            return  # The server did not start.
        for number, step in enumerate(self._steps):
            had_failed = self.failed is not None
            if had_failed and (isinstance(step, Restart) or not self._still_answers(driver)):
                break
            try:
                driver.live_one(number, step, self.progress)
            except (OSError, RegionServerError, ServerDiedError):
                if self.failed is None:
                    raise
            if had_failed and self.progress[number] == DONE:
                self.problem = f"step {number}, {step}, was acknowledged after the failure"
                return
        if self.failed is not None and not self._is_ending(driver):
            self.problem = "the server went on"
        with contextlib.suppress(OSError, RegionServerError):
            driver.server.stop()

    def _still_answers(self, driver: Driver) -> bool:
        """Whether it is worth asking on: it was told to end, and has not; it must refuse everything."""
        return self._is_ending(driver) and driver.is_open and bool(driver.fatal)

    def _is_ending(self, driver: Driver) -> bool:
        """Whether the server was told to end, as its process then does at once, or has ended.

        One that fails while it opens does not start. One that fails at the very end of an orderly stop, when it removes
        what it does not need any more, ends anyway, and what the next one acknowledges has nothing to do with it.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        has_ended = not driver.is_open or driver.restart_count > self._failed_after_restarts
        while not driver.fatal and not has_ended and time.monotonic() < deadline:
            time.sleep(0.001)
        return bool(driver.fatal) or has_ended


def failed(failure: Failure) -> Outcome:
    """Runs a life with the failure, and two restarts after each of two power cuts."""
    steps = small_life(failure.seed)
    losses = [(Loss.ALL, 0), (Loss.SOME, failure.sync)]
    with folder() as root:
        try:
            outcome, progress = in_child(lambda: _until_failure(root, failure, steps, losses))
        except ChildFailedError as error:
            return Outcome("unknown", [str(error)])
        if outcome.what:
            judge = Judge(steps, progress, Durability.FSYNC)
            for place, (loss, _) in enumerate(losses):
                problem = problem_after_restarts(root / f"image-{place}", judge, stops=place == 0)
                if problem is not None:
                    outcome.problems.append(f"{loss.name} lost: {problem}")
    return outcome


def _until_failure(
    root: Path, failure: Failure, steps: list[Step], losses: list[tuple[Loss, int]]
) -> tuple[Outcome, bytes]:
    disk = SimulatedFiles(root / "data")
    life = Life(disk, steps, failure.sync)
    life.live()
    for place, (loss, seed) in enumerate(losses):
        disk.power_failure(root / f"image-{place}", loss, seed)
    outcome = Outcome()
    if life.failed is not None:
        outcome.what = f"{life.failed.name} of {_kind(life.failed, disk.root)}"
    if life.problem is not None:
        outcome.problems.append(life.problem)
    return outcome, bytes(life.progress)


def _kind(call: Call, root: Path) -> str:
    """Returns the kind of the synced file: its name without numbers."""
    parts = call.path.relative_to(root).parts
    if call.name == "fsync_folder":
        return "a region's folder" if len(parts) == 2 else f"the folder {'/'.join(parts) or 'itself'}"
    name = parts[-1]
    for word, kind in (
        ("spare", "the log's spare"),
        (".wal", "a log segment"),
        ("manifest", "a manifest"),
        ("catalog", "the catalog"),
        (".store", "a store file"),
        (".bulk", "a bulk file"),
    ):
        if word in name:
            return kind
    return name


def _count_syncs(seed: int) -> int:
    with folder() as root:
        life = Life(SimulatedFiles(root / "data"), small_life(seed), fails_at=0)
        life.live()
        assert life.problem is None
        return life.sync_count
