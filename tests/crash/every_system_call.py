"""SIGKILL at each changing system call of a real process, including LMDB's own, then two restarts; nothing is lost.

The life is that of every_call.py, in a child on the real file system. The child is traced (tracer.py) and killed just
before its N-th call that writes, syncs, allocates, names or removes something, whichever library or thread makes it.
"""

from __future__ import annotations

import mmap
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.files import Files

from tests.crash.account import Account, Settings
from tests.crash.children import spread
from tests.crash.driver import Driver, small_config
from tests.crash.folders import folder
from tests.crash.life import Judge, small_life
from tests.crash.restarts import problem_after_restarts
from tests.crash.steps import Step
from tests.crash.tracer import Action, SystemCall, traced

PROMISE = "SIGKILL before each changing system call, LMDB's too, then two restarts: nothing acknowledged is lost"


@dataclass(frozen=True, slots=True)
class Kill:
    """The call before which the process dies, by its number among LMDB's calls or among the others."""

    of_lmdb: bool
    call: int
    seed: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one kill. `call` is None when the life ended before it."""

    call: SystemCall | None
    problem: str | None


def run(settings: Settings) -> Account:
    """Runs the campaign: every call, or a sample."""
    account = Account("every_system_call", PROMISE)
    seen = calls_of_a_life(settings.seed)
    kills: list[Kill] = []
    for of_lmdb in (True, False):
        numbers: Sequence[int] = range(1, sum(is_lmdb(call) is of_lmdb for call in seen) + 1)
        if settings.is_short:
            numbers = random.Random(settings.seed).sample(numbers, 8)
        kills += [Kill(of_lmdb, number, settings.seed) for number in numbers]
    account.counts["changing system calls in the life"] = len(seen)
    account.counts["  of them LMDB's"] = sum(is_lmdb(call) for call in seen)
    for kill, outcome in spread(killed, kills):
        account.counts["kills"] += outcome.call is not None
        account.counts["  in LMDB"] += outcome.call is not None and is_lmdb(outcome.call)
        account.counts["restarts"] += 2 * (outcome.call is not None)
        if outcome.problem is not None:
            account.problems.append(f"{kill}: {outcome.call}: {outcome.problem}")
    # A sample may draw calls that a life does not reach, depending on the scheduling of its threads.
    if account.counts["kills"] < (0.5 if settings.is_short else 0.8) * len(kills) or not account.counts["  in LMDB"]:
        account.problems.append("too few of the lives reached their kill")
    return account


def is_lmdb(call: SystemCall) -> bool:
    """LMDB alone writes into store files; all else that happens to them goes through the files door."""
    return ".store" in call.path and call.name not in ("fsync", "fdatasync")


def calls_of_a_life(seed: int) -> list[SystemCall]:
    """Returns the changing calls of an undisturbed life, in the order of this run."""
    seen: list[SystemCall] = []

    def watch(call: SystemCall) -> Action:
        seen.append(call)
        return Action.GO_ON

    with folder() as root:
        steps = small_life(seed)
        status = traced(life(root / "data", steps, mmap.mmap(-1, len(steps)))).run(watch)
        assert status == 0, f"the life ended with status {status:#x}"
    return seen


def life(root: Path, steps: list[Step], progress: mmap.mmap) -> Callable[[], None]:
    """Runs a whole life in a child; its progress is in memory that outlives it."""

    def live() -> None:
        driver = Driver(root, Files(), small_config())
        driver.live(steps, memoryview(progress))
        driver.server.stop()

    root.mkdir(mode=0o700)
    return live


def killed(kill: Kill) -> Outcome:
    """Runs a life up to the kill, and two restarts."""
    steps = small_life(kill.seed)
    progress = mmap.mmap(-1, len(steps))
    met: list[SystemCall] = []

    count = 0

    def decide(call: SystemCall) -> Action:
        nonlocal count
        if is_lmdb(call) is not kill.of_lmdb:
            return Action.GO_ON
        count += 1
        if count != kill.call:
            return Action.GO_ON
        met.append(call)
        return Action.KILL

    with folder() as root:
        traced(life(root / "data", steps, progress)).run(decide)
        if not met:
            return Outcome(None, None)
        judge = Judge(steps, bytes(progress), Durability.OS)
        return Outcome(met[0], problem_after_restarts(root / "data", judge, stops=kill.call % 2 == 0, files=Files))
