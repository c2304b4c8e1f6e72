"""Power cuts of a log with an unsynced tail: synced changes are found, the rest is a torn tail, and none is damage.

A log lives a few short lives on a simulated disk, each ended by a power cut at a random call: while it appends, rolls,
marks itself idle, removes old segments, is closed, or recovers. Of what was not synced the cut leaves random sectors,
sizes and names. Some records hold copies of the log, so that valid records occur where they do not belong.
"""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass, field
from pathlib import Path

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.errors import StoppingError, UnknownOutcomeError

from tests.crash.account import Account, Settings
from tests.crash.children import in_child, spread
from tests.crash.folders import folder
from tests.crash.simulated_files import Loss, Moment, SimulatedCrash, SimulatedFiles
from tests.unit.wal.log_case import Change, LogCase, read_all, small_config

PROMISE = "power cuts of a log with an unsynced tail: none is reported as damage, and nothing that was synced is lost"
CUTS = 1000
CUTS_SHORT = 300
LIVES = 3
REGIONS = 4


@dataclass(frozen=True, slots=True)
class Cut:
    """The random choices of some lives, each ended by a power cut."""

    seed: int


@dataclass(slots=True)
class Outcome:
    """The outcome of the cuts."""

    torn_count: int = 0
    cut_count: int = 0
    unproven_count: int = 0
    problems: list[str] = field(default_factory=list)


def run(settings: Settings) -> Account:
    """Runs the campaign, with a few power cuts to each log."""
    account = Account("power_cuts", PROMISE)
    count = CUTS_SHORT if settings.is_short else CUTS
    chance = random.Random(settings.seed)
    cuts = [Cut(chance.randrange(1 << 30)) for _ in range(count // (LIVES - 1))]  # Some come before there is a log.
    for one, outcome in spread(lambda one: in_child(lambda: cut(one)), cuts):
        account.counts["power cuts"] += outcome.cut_count
        account.counts["that tore the tail"] += outcome.torn_count
        account.counts["after which records were rewritten"] += outcome.unproven_count
        account.problems += [f"{one}: {problem}" for problem in outcome.problems]
    if account.counts["power cuts"] < count:
        account.problems.append(f"fewer than {count} power cuts")
    # About one in seven does, give or take a quarter of them.
    if account.counts["that tore the tail"] * 80 < account.counts["power cuts"]:
        account.problems.append("hardly any power cut tore a tail")
    return account


def cut(one: Cut) -> Outcome:
    """Runs some lives of one log, each ended by a power cut, and checks the log after each."""
    outcome = Outcome()
    chance = random.Random(one.seed)
    with folder() as root:
        disk = SimulatedFiles(root / "disk-0")
        synced: list[Change] = []
        for life in range(LIVES):
            try:
                synced = _life(disk, synced, chance)
                loss = chance.choice((Loss.SOME, Loss.SOME, Loss.ALL))
                image = disk.power_failure(root / f"image-{life}", loss, seed=life)
                synced = _found(image / "log", synced, outcome)
            except AssertionError as error:
                outcome.problems.append(f"life {life}: {error}")
                break
            disk = SimulatedFiles.of(image)
    return outcome


def _found(log: Path, synced: list[Change], outcome: Outcome) -> list[Change]:
    """Returns all that a reader and two restarts find after the cut, in order."""
    if not log.exists():
        assert not synced, "the log is gone"
        return []
    recovered, delivered = read_all(log)
    assert recovered.gaps == (), f"reported as damage: {recovered.gaps}"
    assert recovered.damaged == {}
    assert recovered.unknown_damage is None
    assert delivered[: len(synced)] == synced, f"{len(synced)} synced changes, found {delivered}"
    outcome.cut_count += 1
    outcome.torn_count += recovered.torn is not None
    outcome.unproven_count += bool(recovered.unproven)
    return delivered


def _life(disk: SimulatedFiles, before: list[Change], chance: random.Random) -> list[Change]:
    """Runs the log until a random call; returns the changes that must be found."""
    disk.crash_at(chance.randint(1, 100), chance.choice(list(Moment)))
    config = small_config(log_segment_bytes=chance.choice((4096, 16384)))
    numbers: dict[int, int] = {}
    for region_id, write_number, _, _ in before:
        numbers[region_id] = write_number
    case = LogCase(disk.root / "log", disk, config, numbers=numbers)
    with contextlib.suppress(SimulatedCrash, StoppingError, UnknownOutcomeError):
        case.open()
        for _ in range(chance.randint(1, 60)):
            _step(case, chance)
    if hasattr(case, "log"):
        with contextlib.suppress(SimulatedCrash):
            case.log.close()
    disk.close_all()
    # Completions come in log order, so with a synced change all before it were synced.
    last = max((index for index, change in enumerate(case.completed) if change[2] == _SYNCED), default=-1)
    return before + case.completed[: last + 1]


_SYNCED, _WRITTEN = 1, 2  # kinds of changes


def _step(case: LogCase, chance: random.Random) -> None:
    region_id = chance.randint(1, REGIONS)
    action = chance.random()
    if action < 0.94:
        payload = chance.randbytes(chance.choice((0, 40, 300, 700)))
        if chance.random() < 0.1:
            payload = _piece_of_log(case.folder, chance)
        is_synced = chance.random() < 0.08
        durability = Durability.FSYNC if is_synced else chance.choice((Durability.OS, Durability.ASYNC))
        change = case.append(region_id, payload, durability, _SYNCED if is_synced else _WRITTEN)
        case.wait(lambda: change in case.completed or bool(case.failures))
    elif action < 0.96:
        case.reserve(region_id, chance.randint(1, 1000), chance.randint(1, 1000))
    elif action < 0.98:
        with case.log.order:
            case.log.note_catalog(chance.randint(1, 1000))
    else:
        case.clock.advance(1000)


def _piece_of_log(log: Path, chance: random.Random) -> bytes:
    """Returns some hundred bytes of the newest segment, with whole sectors."""
    path = max(path for path in log.iterdir() if path.suffix == ".wal" and path.stem.isdigit())
    data = path.read_bytes()
    start = chance.randrange(0, len(data), 8)
    return data[start : start + chance.choice((300, 1100))]
