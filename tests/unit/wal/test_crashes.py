"""A crash at each changing call of append, roll, clean, close and recovery, with and without what was not synced.

One thread appends and the log's own threads follow, so which call a number means differs a little from run to run;
the invariants hold for each. Every case is followed by two restarts, and the first of them is crashed at each of its
own calls as well.
"""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.errors import StoppingError, UnknownOutcomeError
from rowlock_regionserver.files import Files

from tests.crash.simulated_files import Loss, Moment, SimulatedCrash, SimulatedFiles, UnsyncedFiles
from tests.drawn_cases import drawn_calls
from tests.unit.wal.log_case import Change, LogCase, segment_names, small_config
from tests.waiting import wait_until

LOSSES = [(Loss.NOTHING, 0), (Loss.ALL, 0), (Loss.SOME, 1), (Loss.SOME, 2)]


class Cycle(LogCase):
    """A life of a log: appends of all durabilities that roll, flushes that free segments, a reservation, a close.

    Everything that was durable must be found again: `synced` changes, and the greatest bounds that were reserved
    before a completed change.
    """

    def __init__(self, folder: Path, files: Files) -> None:
        super().__init__(folder, files, small_config(log_segment_bytes=512))
        self.synced: list[Change] = []
        self.flushed: dict[int, int] = {}
        self.reserved = 0
        self.proven_reserved = 0

    def run(self, *, start: int, stop: int) -> None:
        """Ends early, without an error, when the disk dies under it."""
        with contextlib.suppress(SimulatedCrash, StoppingError, UnknownOutcomeError):
            self.open()
            self._write(start, stop)
        if hasattr(self, "log"):
            with contextlib.suppress(SimulatedCrash):
                self.log.close()

    def _write(self, start: int, stop: int) -> None:
        for number in range(start, stop):
            region_id = 1 + number % 3
            if number % 9 == 0:
                self.reserve(1, 1000 * (1 + number), 1)
                self.reserved = 1000 * (1 + number)
            durability = Durability.FSYNC if number % 4 == 0 else Durability.OS
            self.append(region_id, b"x" * (number * 13 % 90), durability)
            self.wait_for_all()
            if self.failures:
                return
            self.proven_reserved = self.reserved
            if durability is Durability.FSYNC:
                # Completions are in log order, so everything before it was synced as well.
                self.synced = list(self.appended)
            if number % 12 == 11:
                self._flush()

    def _flush(self) -> None:
        """Store files get everything; waits until all segments but the last are removed."""
        self.flushed = dict(self.numbers)
        for region_id, write_number in self.numbers.items():
            self.log.flushed(region_id, write_number)
        wait_until(lambda: self.log.statistics().segment_count == 1 or bool(self.failures))

    def wait_for_all(self) -> None:
        self.wait(lambda: self.completed == self.appended or bool(self.failures))

    def check(self, after: LogCase, loss: Loss) -> None:
        """Checks that a restart found a prefix of the appended changes, with all that must not be lost."""
        assert after.recovered.gaps == ()
        assert after.recovered.damaged == {}
        kept = self.not_flushed(after.delivered)
        assert kept == self.not_flushed(self.appended)[: len(kept)]
        required = self.completed if loss is Loss.NOTHING else self.synced
        assert len(kept) >= len(self.not_flushed(required))
        if self.proven_reserved:
            assert after.recovered.regions[1].numbers_until >= self.proven_reserved

    def not_flushed(self, changes: list[Change]) -> list[Change]:
        return [change for change in changes if change[1] > self.flushed.get(change[0], 0)]


def restarted(folder: Path) -> LogCase:
    """Returns what a restart finds, after an orderly close."""
    case = LogCase(folder, UnsyncedFiles(), small_config(log_segment_bytes=512)).open()
    case.log.close()
    return case


def crashed_cycle(folder: Path, call: int, moment: Moment) -> tuple[Cycle, SimulatedFiles]:
    disk = SimulatedFiles(folder)
    cycle = Cycle(disk.root / "log", disk)
    disk.crash_at(call, moment)
    cycle.run(start=0, stop=40)
    disk.close_all()
    return cycle, disk


@pytest.mark.parametrize("moment", list(Moment))
def test_a_crash_at_each_call_of_a_life_loses_nothing_that_was_acknowledged(tmp_path: Path, moment: Moment) -> None:
    for call in drawn_calls(1000, 5 if moment is Moment.BEFORE else 10, f"crashes {moment.name} a call of a log"):
        cycle, disk = crashed_cycle(tmp_path / f"disk-{call}", call, moment)
        for loss, seed in LOSSES:
            image = disk.power_failure(tmp_path / f"image-{call}-{loss.name}-{seed}", loss, seed)
            first = restarted(image / "log")
            cycle.check(first, loss)
            second = restarted(image / "log")
            assert second.delivered == first.delivered
        if not disk.is_dead:
            break
    assert call > 100
    assert cycle.completed == cycle.appended
    assert cycle.log.statistics().removed_segment_count > 3


@pytest.mark.parametrize("loss", list(Loss))
@pytest.mark.parametrize("moment", [Moment.BEFORE, Moment.AFTER])
def test_a_crash_at_each_call_of_a_recovery_is_harmless(tmp_path: Path, loss: Loss, moment: Moment) -> None:
    """The first life is killed with records written and not proven, and its last one torn."""
    crashes = 0
    for call in itertools.count(1):
        disk = SimulatedFiles(tmp_path / f"disk-{call}")
        cycle = Cycle(disk.root / "log", disk)
        cycle.open()
        for number in range(12):
            cycle.append(1 + number % 3, b"%d" % number * 5, Durability.OS)
        cycle.log.sync()
        cycle.synced = list(cycle.appended)
        cycle.append(1, b"torn" * 20, Durability.OS)
        cycle.wait_for_all()
        calls_before = len(disk.calls)
        disk.crash_at(1)
        with contextlib.suppress(SimulatedCrash):
            cycle.log.close()
        assert len(disk.calls) == calls_before + 1
        disk.close_all()
        disk.revive()
        tear(cycle.folder, disk)

        recovering = LogCase(cycle.folder, disk, small_config(log_segment_bytes=512), numbers=dict(cycle.numbers))
        disk.crash_at(call, moment)
        with contextlib.suppress(SimulatedCrash):
            recovering.open()
            recovering.log.close()
        disk.close_all()
        image = disk.power_failure(tmp_path / f"image-{call}", loss, call)
        first, second = restarted(image / "log"), restarted(image / "log")
        assert first.delivered == second.delivered == cycle.synced
        assert first.recovered.gaps == ()
        if not disk.is_dead:
            break
        crashes += 1
    assert crashes >= 9


def tear(folder: Path, disk: SimulatedFiles) -> None:
    """Damages the last record like a write of which only some sectors reached the disk."""
    path = folder / segment_names(folder)[-1]
    data = path.read_bytes()
    place = data.rindex(b"torn")
    with path.open("r+b") as file:
        file.seek(place)
        file.write(bytes(4))


def test_a_log_that_is_killed_again_and_again_while_it_recovers_and_writes(tmp_path: Path) -> None:
    disk = SimulatedFiles(tmp_path / "disk")
    folder = disk.root / "log"
    written: list[Change] = []
    for life in range(40):
        case = Cycle(folder, disk)
        case.numbers = {change[0]: change[1] for change in written}
        disk.revive()
        disk.crash_at(1 + life * 7 % 43, list(Moment)[life % 3])
        case.run(start=0, stop=12)
        disk.close_all()
        after = LogCase(disk.power_failure(tmp_path / f"image-{life}", Loss.NOTHING) / "log", UnsyncedFiles()).open()
        after.log.close()
        flushed = case.flushed
        kept = [change for change in after.delivered if change[1] > flushed.get(change[0], 0)]
        expected = [change for change in written + case.appended if change[1] > flushed.get(change[0], 0)]
        assert kept == expected[: len(kept)], f"life {life}"
        done = [change for change in written + case.completed if change[1] > flushed.get(change[0], 0)]
        assert len(kept) >= len(done), f"life {life}"
        assert after.recovered.damaged == {}
        written = after.delivered
