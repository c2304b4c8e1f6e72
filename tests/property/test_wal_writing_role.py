"""Threads append, note, pass through, sync and write their own records at random, until the log is closed or fails.

Each completion is called once and in log order, after a failure those of a prefix; nothing hangs; what was completed is
in the log.
"""

from __future__ import annotations

import errno
import random
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.errors import StoppingError, UnknownOutcomeError

from tests.crash.simulated_files import Call, Loss, SimulatedFiles
from tests.seeds import generator_of
from tests.unit.wal.log_case import LogCase, read_all, small_config
from tests.waiting import WAIT_S

THREADS = 8
STEPS = 120
REGIONS = range(1, 4)


@dataclass
class History:
    """What was registered with the log, in log order, and what it called."""

    registered: list[int] = field(default_factory=list)  # under `order`
    completed: list[int] = field(default_factory=list)
    durabilities: list[Durability] = field(default_factory=list)  # of the registered ones
    records: dict[int, tuple[int, int, int, bytes]] = field(default_factory=dict)  # of those that have one
    numbers: dict[int, int] = field(default_factory=dict)
    errors: list[BaseException] = field(default_factory=list)


class Life:
    """A log, and the threads that use it."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.disk = SimulatedFiles(folder / "disk")
        config = small_config(
            log_segment_bytes=chance.choice((1024, 8192)), log_idle_marker_ms=1, log_quick_sync_us=3_600_000_000
        )
        self.case = LogCase(self.disk.root / "log", self.disk, config).open()
        self.history = History()
        self._is_over = threading.Event()
        seeds = [chance.random() for _ in range(THREADS)]
        self.threads = [threading.Thread(target=self._run, args=(random.Random(seed),)) for seed in seeds]
        self.threads.append(threading.Thread(target=self._look, args=(random.Random(chance.random()),)))

    def run(self) -> None:
        for thread in self.threads:
            thread.start()

    def join(self) -> None:
        for thread in self.threads[:-1]:
            thread.join(WAIT_S)
            assert not thread.is_alive(), "a thread hangs"
        self._is_over.set()
        self.threads[-1].join(WAIT_S)

    def _run(self, chance: random.Random) -> None:
        try:
            for _ in range(STEPS):
                self._step(chance)
        except (StoppingError, UnknownOutcomeError):
            pass
        except BaseException as error:
            self.history.errors.append(error)

    def _look(self, chance: random.Random) -> None:
        """Lets the idle time pass, and checks the log's invariants."""
        try:
            while not self._is_over.wait(chance.uniform(0, 0.004)):
                self.case.clock.advance(chance.choice((0, 2)))
                self.case.log._check()
        except BaseException as error:
            self.history.errors.append(error)

    def _step(self, chance: random.Random) -> None:
        log, action = self.case.log, chance.random()
        if action < 0.5:
            with log.claim_writing():
                for _ in range(chance.choice((0, 1, 1, 1, 3))):
                    self._append(chance, chance.choice((Durability.OS, Durability.OS, *Durability)))
        elif action < 0.8:
            self._append(chance, chance.choice(list(Durability)))
        elif action < 0.85:
            with log.order:
                log.reserve(chance.choice(REGIONS), 1, 1)
        elif action < 0.9:
            with log.order:
                log.note_catalog(chance.randint(1, 9))
        elif action < 0.95:
            with log.order:
                log.pass_through(partial(self.history.completed.append, len(self.history.registered)))
                self._register(Durability.SKIP)
        else:
            log.sync()

    def _append(self, chance: random.Random, durability: Durability) -> None:
        history, region_id = self.history, chance.choice(REGIONS)
        with self.case.log.order:
            number = history.numbers.get(region_id, 0) + 1
            position = len(history.registered)
            record = (region_id, number, 1, b"%d" % position + bytes(chance.choice((5, 30, 300))))
            self.case.log.append(*record, durability, partial(history.completed.append, position))
            history.numbers[region_id] = number
            history.records[self._register(durability)] = record

    def _register(self, durability: Durability) -> int:
        """Registers the next completion, whose number is its place in the log's order. The caller holds `order`."""
        history = self.history
        history.registered.append(len(history.registered))
        history.durabilities.append(durability)
        return history.registered[-1]


@pytest.fixture(autouse=True)
def _quick_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("life_number", range(6))
def test_every_completion_is_called_once_and_in_order_until_the_log_is_closed(tmp_path: Path, life_number: int) -> None:
    chance = generator_of(f"closed {life_number}")
    life = Life(tmp_path, chance)
    life.run()
    if life_number % 2:
        threading.Event().wait(chance.uniform(0, 0.1))
        life.case.log.close()  # The threads are refused from now on.
    life.join()
    life.case.log.close()
    history = life.history
    assert not history.errors
    assert history.completed == history.registered
    assert read_all(life.case.folder)[1] == list(history.records.values())
    assert not life.case.failures


@pytest.mark.parametrize("name", ["pwrite", "fdatasync", "rename", "completion", "allocation"])
def test_after_a_failure_the_completed_ones_are_a_prefix_and_are_in_the_log(tmp_path: Path, name: str) -> None:
    chance = generator_of(f"failed {name}")
    life = Life(tmp_path, chance)
    left = chance.randint(0, 40)

    def fail(call: Call) -> None:
        nonlocal left
        if call.name == name and call.path.suffix == ".wal":
            left -= 1
            if left < 0:
                raise OSError(errno.EIO, "broken", str(call.path))

    def broken() -> None:
        raise ValueError("a bug in a completion")

    life.disk.before_call = fail
    life.run()
    if name == "completion":
        with life.case.log.claim_writing(), life.case.log.order:
            life.case.log.pass_through(broken)
    elif name == "allocation":
        life.case.log._pending.fail(OSError(errno.EIO, "as the thread that preallocates reports it"))
    life.join()
    completed = list(life.history.completed)  # The log's thread may complete more, also after the image is taken.
    image = life.disk.power_failure(tmp_path / "image", Loss.NOTHING) / "log"
    life.case.log.close()
    history = life.history
    assert not history.errors
    assert history.completed == history.registered[: len(history.completed)]
    assert len(life.case.failures) <= 1
    written = {record[:2] for record in read_all(image)[1]}
    for number in completed:
        if number in history.records and history.durabilities[number] >= Durability.OS:
            assert history.records[number][:2] in written, f"completed and not written: {number}"
