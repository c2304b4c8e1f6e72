"""A crash at each file-system call of a store's life, then two restarts; nothing acknowledged is lost.

The life (life.py) runs on a simulated disk (simulated_files.py) which dies before call N, or in the middle of it if
it is a write. A crash after call N leaves what one before call N + 1 leaves, so it is not tried. What is left is
checked four times: as after a kill, with everything that was written; with the loss of everything that was not
synced; and twice with a random part of it lost. Writes acknowledged at `os` or above must survive the kill, those at
`fsync` all of the losses. In one of the four, recovery itself is crashed at a random call too, and the power fails
again.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import RegionServerError

from tests.crash.account import Account, Settings
from tests.crash.children import ChildFailedError, in_child, spread
from tests.crash.driver import Driver, ServerDiedError, small_config, tight_config
from tests.crash.folders import folder
from tests.crash.life import Judge, small_life
from tests.crash.restarts import problem_after_restarts
from tests.crash.simulated_files import Loss, Moment, SimulatedCrash, SimulatedFiles
from tests.crash.steps import Step

PROMISE = "a crash at each file-system call, then two restarts: nothing acknowledged is lost"
# A recovery makes some twenty changing calls.
RECOVERY_CALLS = 24


@dataclass(frozen=True, slots=True)
class Crash:
    """The call and the moment at which a life ends.

    `folder`: the call is the rename of that number in folders of this name, and the moment is before it.
    """

    call: int
    moment: Moment
    seed: int
    life: Callable[[int], list[Step]] = small_life
    folder: str = ""


@dataclass(slots=True)
class Outcome:
    """The outcome of one crash."""

    crashed_in: str = ""  # the call's name; empty: the life was over before
    images: int = 0
    recovery_crashes: int = 0
    problems: list[str] = field(default_factory=list)


def run(settings: Settings) -> Account:
    """Runs the campaign: every call and moment, or a sample."""
    return crash_at_each_call(settings, Account("every_call", PROMISE), small_life, 10)


def crash_at_each_call(
    settings: Settings, account: Account, life: Callable[[int], list[Step]], sample_count: int
) -> Account:
    """Crashes a life at each of its calls, or at a sample of them, and looks at what is left."""
    calls = in_child(lambda: calls_of(settings.seed, life))
    crashes = [
        Crash(number, moment, settings.seed, life)
        for number, name in enumerate(calls, 1)
        for moment in ((Moment.BEFORE, Moment.MIDDLE) if name == "pwrite" else (Moment.BEFORE,))
    ]
    if settings.is_short:
        crashes = random.Random(settings.seed).sample(crashes, sample_count)
    account.counts["file-system calls in the life"] = len(calls)
    crashed_in: Counter[str] = Counter()
    for crash, outcome in spread(crashed, crashes):
        account.counts["crashes"] += bool(outcome.crashed_in)
        account.counts["crashes during the recovery after one"] += outcome.recovery_crashes
        crashed_in[outcome.crashed_in] += bool(outcome.crashed_in)
        account.counts["restarts"] += 2 * outcome.images
        account.problems += [f"{crash}: {problem}" for problem in outcome.problems]
    account.notes.append("crashes by call: " + ", ".join(f"{name} {n}" for name, n in crashed_in.most_common() if n))
    # A sample may draw calls that a life does not reach, depending on the scheduling of its threads.
    if account.counts["crashes"] < (0.5 if settings.is_short else 0.8) * len(crashes):
        account.problems.append("too few of the lives reached their crash")
    return account


def calls_of(seed: int, life: Callable[[int], list[Step]]) -> list[str]:
    """Returns the names of the changing calls of an undisturbed life; they vary with the scheduling of threads."""
    with folder() as root:
        disk = SimulatedFiles(root / "data")
        steps = life(seed)
        _live(disk, small_config(), steps, bytearray(len(steps)))
        return [call.name for call in disk.calls]


def crashed(crash: Crash) -> Outcome:
    """Runs a life until the crash, then checks what each kind of loss leaves."""
    outcome = Outcome()
    try:
        _crash_and_look(crash, outcome)
    except ChildFailedError as error:
        outcome.problems.append(str(error))
    return outcome


def _crash_and_look(crash: Crash, outcome: Outcome) -> None:
    steps = crash.life(crash.seed)
    chance = random.Random(f"{crash}")
    losses = [(Loss.NOTHING, 0), (Loss.ALL, 0), *((Loss.SOME, chance.randrange(1 << 30)) for _ in range(2))]
    with folder() as root:
        outcome.crashed_in, progress = in_child(lambda: _until_crash(root, crash, steps, losses))
        if not outcome.crashed_in:
            return
        crashed_twice = chance.choice(losses)
        for place, loss in enumerate(losses):
            image = root / f"image-{place}"
            if loss is crashed_twice:
                recovery = Recovery(image, 1 + chance.randrange(RECOVERY_CALLS), chance.randrange(1 << 30))
                outcome.recovery_crashes += in_child(recovery.crash)
                image = recovery.left
            judge = Judge(steps, progress, Durability.OS if loss[0] is Loss.NOTHING else Durability.FSYNC)
            problem = problem_after_restarts(image, judge, stops=chance.random() < 0.5)
            outcome.images += 1
            if problem is not None:
                again = ", crashed again in recovery" if loss is crashed_twice else ""
                outcome.problems.append(f"{outcome.crashed_in}, {loss[0].name} lost{again}: {problem}")


def _until_crash(root: Path, crash: Crash, steps: list[Step], losses: list[tuple[Loss, int]]) -> tuple[str, bytes]:
    """Returns the call of the crash, and the state of each step; leaves an image for each loss in `root`."""
    disk = SimulatedFiles(root / "data")
    progress = bytearray(len(steps))
    if crash.folder:
        disk.crash_at_rename(crash.call, crash.folder)
    else:
        disk.crash_at(crash.call, crash.moment)
    _live(disk, small_config(), steps, progress)
    for place, (loss, seed) in enumerate(losses):
        disk.power_failure(root / f"image-{place}", loss, seed)
    return disk.calls[-1].name if disk.is_dead else "", bytes(progress)


@dataclass(frozen=True, slots=True)
class Recovery:
    """Runs a recovery with little memory on a disk that dies at the given call; then the power fails."""

    image: Path
    call: int
    seed: int

    @property
    def left(self) -> Path:
        """Returns what the power failure leaves."""
        return self.image.with_name(f"{self.image.name}-again")

    def crash(self) -> bool:
        """Returns whether the crash was reached; the recovery includes an orderly stop."""
        disk = SimulatedFiles.of(self.image)
        disk.crash_at(self.call)
        _live(disk, tight_config(), [], bytearray())
        disk.power_failure(self.left, random.Random(self.seed).choice(list(Loss)), self.seed)
        return disk.is_dead


def _live(disk: SimulatedFiles, config: Config, steps: list[Step], progress: bytearray) -> None:
    """Runs a life from opening the folder to the orderly stop, or until the disk dies."""
    _let_threads_die_quietly()
    try:
        driver = Driver(disk.root, disk, config)
        driver.live(steps, progress)
        driver.server.stop()
    except (SimulatedCrash, ServerDiedError, RegionServerError):
        if not disk.is_dead:
            raise


def _let_threads_die_quietly() -> None:
    """Silences the same crash in the server's threads."""
    usual = threading.excepthook

    def hook(died: threading.ExceptHookArgs) -> None:
        if not issubclass(died.exc_type, SimulatedCrash):
            usual(died)

    threading.excepthook = hook
