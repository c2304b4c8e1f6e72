"""Each write of a life is shortened once, including LMDB's own: the life completes, and two restarts find all of it.

The life is that of every_system_call.py. The system may accept only a part of any write, like a disk that is nearly
full. A write through files.Files is continued. LMDB gives up, so its flush changes nothing and is requested again. The
server never ends because of it.
"""

from __future__ import annotations

import mmap
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.errors import DiskFullError
from rowlock_regionserver.files import Files

from tests.crash.account import Account, Settings
from tests.crash.children import spread
from tests.crash.driver import Driver, small_config
from tests.crash.every_system_call import calls_of_a_life, is_lmdb
from tests.crash.folders import folder
from tests.crash.life import Judge, small_life
from tests.crash.restarts import problem_after_restarts
from tests.crash.steps import Step
from tests.crash.system_calls import WRITES
from tests.crash.tracer import Action, SystemCall, traced

PROMISE = "each write is shortened once, LMDB's too: the server continues, and nothing acknowledged is lost"


@dataclass(frozen=True, slots=True)
class Shortened:
    """The write that writes only half, by its number from 1 among LMDB's or among the others."""

    is_lmdb: bool
    number: int
    seed: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome. `call` is None when the life had fewer writes in this run."""

    call: SystemCall | None
    tries: int
    problem: str | None


def run(settings: Settings) -> Account:
    """Runs the campaign: every write, or a sample of LMDB's and one of the others."""
    account = Account("short_writes", PROMISE)
    writes = [call for call in calls_of_a_life(settings.seed) if call.name in WRITES]
    account.counts["writes in the life"] = len(writes)
    ones: list[Shortened] = []
    for of_lmdb in (True, False):
        numbers: Sequence[int] = range(1, sum(is_lmdb(call) is of_lmdb for call in writes) + 1)
        if settings.is_short:
            numbers = random.Random(settings.seed).sample(numbers, 8)
        ones += [Shortened(of_lmdb, number, settings.seed) for number in numbers]
    met: Counter[str] = Counter()
    for one, outcome in spread(shortened, ones):
        if outcome.call is not None:
            met["shortened"] += 1
            met["  of them LMDB's"] += is_lmdb(outcome.call)
            met["flushes asked for again"] += outcome.tries
        if outcome.problem is not None:
            account.problems.append(f"{one}: {outcome.call}: {outcome.problem}")
    account.counts.update(met)
    # A sample may draw writes that a life does not reach, depending on its threads, and none that a flush needs.
    shortened_min = (0.5 if settings.is_short else 0.8) * len(ones)
    if met["shortened"] < shortened_min or not (settings.is_short or met["flushes asked for again"]):
        account.problems.append("too few writes were shortened")
    return account


def shortened(one: Shortened) -> Outcome:
    """Runs a whole life with the short write, and two restarts."""
    steps = small_life(one.seed)
    progress, tries = mmap.mmap(-1, len(steps)), mmap.mmap(-1, 1)
    met: list[SystemCall] = []

    seen = 0

    def decide(call: SystemCall) -> Action:
        nonlocal seen
        if call.name not in WRITES or is_lmdb(call) is not one.is_lmdb:
            return Action.GO_ON
        seen += 1
        if seen != one.number:
            return Action.GO_ON
        met.append(call)
        return Action.SHORTEN

    with folder() as root:
        status = traced(_life(root / "data", steps, progress, tries)).run(decide)
        call = met[0] if met else None
        if status != 0:
            return Outcome(call, tries[0], f"the life ended with status {status:#x}")
        judge = Judge(steps, bytes(progress), Durability.OS)
        problem = problem_after_restarts(root / "data", judge, stops=one.number % 2 == 0, files=Files)
        return Outcome(call, tries[0], problem)


def _life(root: Path, steps: list[Step], progress: mmap.mmap, tries: mmap.mmap) -> Callable[[], None]:
    """Runs a whole life that retries steps that the disk refused; `tries` counts the retries."""

    def live() -> None:
        driver = Driver(root, Files(), small_config())
        for number, step in enumerate(steps):
            try:
                driver.live_one(number, step, memoryview(progress))
            except DiskFullError:
                tries[0] += 1
                driver.live_one(number, step, memoryview(progress))
        driver.server.stop()
        assert not driver.fatal, f"the server ended: {driver.fatal}"

    root.mkdir(mode=0o700)
    return live
