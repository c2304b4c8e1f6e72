"""Background work needs permits, and pauses, while requests are active."""

from __future__ import annotations

import errno
import itertools
import os
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.clock import Clock, ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import DeadlineError, DiskFullError, InvalidRequestError
from rowlock_regionserver.files import Files
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.operations import Put, RowMutation, WriteOptions
from rowlock_regionserver.process import YIELD_SECONDS, yield_now
from rowlock_regionserver.region.background_pacing import (
    BATCH,
    COMPACTION,
    COMPACTION_BEHIND,
    FLUSH,
    SPILL,
    BackgroundPacing,
    Pace,
)
from rowlock_regionserver.region.memory import MemoryGauge
from rowlock_regionserver.region.mutate import brief_wait

from tests.waiting import WAIT_S, wait_until

from .conftest import Engine, bulk_batch
from .lone_region import LoneRegion
from .row_batches import cells_of_rows, row_batch


class Case:
    """Background work on a manual clock, and how long it slept."""

    def __init__(self, pause_percent: int = 100) -> None:
        self.clock = ManualClock()
        self.slept: list[float] = []
        self.memory = MemoryGauge(Ledger(Config()).memstores, Config(), self.clock, lambda: None)
        self.pacing = BackgroundPacing(pause_percent, self.memory, self.clock, 1, self.sleep)
        self.idle_share = 1.0  # of the event loop while the work sleeps; while it works there is none
        self.idle = 0.0
        self.pacing.idle_seconds = lambda: self.idle

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.idle += self.idle_share * seconds

    def work(self, seconds: float) -> None:
        self.clock.advance(round(1000 * seconds))


@pytest.fixture
def case() -> Case:
    return Case()


def test_it_pauses_for_as_long_as_it_worked_while_requests_are_active(case: Case) -> None:
    case.pacing.note_request()
    with case.pacing.permit(BATCH) as permit:
        case.work(0.002)
        permit.yield_now()
        case.work(0.005)
    assert case.slept == pytest.approx([0.002, YIELD_SECONDS, 0.005])


@pytest.mark.parametrize(("pace", "pause"), [(BATCH, 0.002), (COMPACTION, 0.006)])
def test_it_pauses_until_the_event_loop_was_idle_for_as_long(case: Case, pace: Pace, pause: float) -> None:
    case.pacing.note_request()
    case.idle_share = 0.5
    with case.pacing.permit(pace) as permit:
        case.work(0.002)
        permit.yield_now()
        case.work(0.002)
        case.idle += pause / 2  # while it worked, which counts
    slept = "".join("y" if seconds == YIELD_SECONDS else "." for seconds in case.slept)
    before, after = case.slept[: slept.index("y")], case.slept[slept.index("y") + 1 :]
    assert sum(before) == pytest.approx(2 * pause, abs=0.0005)
    assert after == pytest.approx([pause])


def test_idle_time_counts_for_one_pause_only(case: Case) -> None:
    case.pacing.note_request()
    case.idle_share = 0.5
    with case.pacing.permit(BATCH) as permit:
        case.idle += 0.01  # while it worked
        case.work(0.002)
        permit.pause()
        case.work(0.002)
    assert case.slept[0] == pytest.approx(0.002)
    assert sum(case.slept[1:]) == pytest.approx(0.004, abs=0.0005)


@pytest.mark.parametrize(
    ("pace", "longest"), [(BATCH, 0.008), (FLUSH, 0.012), (COMPACTION, 0.04), (COMPACTION_BEHIND, 0.006)]
)
def test_beside_an_event_loop_that_is_never_idle_it_works_for_a_part_of_the_time(
    case: Case, pace: Pace, longest: float
) -> None:
    case.pacing.note_request()
    case.idle = 30.0  # before that
    case.idle_share = 0.0
    with case.pacing.permit(pace):
        case.work(0.002)
    assert sum(case.slept) == pytest.approx(longest)


def test_beside_an_event_loop_that_is_never_idle_no_pause_is_longer_than_half_a_second(case: Case) -> None:
    case.idle_share = 0.0
    with case.pacing.permit(COMPACTION):
        case.work(2)
        case.pacing.note_request()
    assert sum(case.slept) == pytest.approx(0.5)


def test_a_flush_ends_its_pause_when_memory_becomes_scarce(case: Case) -> None:
    def fill(seconds: float) -> None:
        case.sleep(seconds)
        case.memory.add(Config().memstore_bytes_max * 3 // 4)

    case.pacing.note_request()
    case.idle_share = 0.0
    case.pacing.sleep = fill
    with case.pacing.permit(FLUSH):
        case.work(0.002)
    assert case.slept == pytest.approx([0.006])


def test_a_pause_is_shorter_when_other_work_begins_to_wait_for_the_permit(case: Case) -> None:
    def wait() -> None:
        with case.pacing.permit(BATCH):
            pass

    def begin_to_wait(seconds: float) -> None:
        case.sleep(seconds)
        if len(case.slept) == 1:
            other.start()
            wait_until(lambda: case.pacing.permits.statistics().waiting == 1)

    other = threading.Thread(target=wait)
    case.pacing.note_request()
    case.idle_share = 0.0
    case.pacing.sleep = begin_to_wait
    with case.pacing.permit(COMPACTION):
        case.work(0.002)
        yield_now()
        assert sum(case.slept) == pytest.approx(0.008 + YIELD_SECONDS)
    other.join()


def test_the_event_loop_is_idle_while_it_waits_for_a_sync(case: Case) -> None:
    case.pacing.note_request()
    case.idle_share = 0.0
    with case.pacing.permit(BATCH):
        case.pacing.note_sync_wait(0.002)
        case.work(0.002)
    assert case.slept == pytest.approx([0.002])


def test_beside_a_busy_event_loop_no_pause_is_longer_than_the_deadline(case: Case) -> None:
    case.pacing.note_request()
    case.idle_share = 0.0
    with case.pacing.permit(BATCH, deadline=case.clock.monotonic() + 0.008):
        case.work(0.003)
    assert sum(case.slept) == pytest.approx(0.005)


def test_it_only_yields_without_recent_requests(case: Case) -> None:
    case.pacing.note_request()
    case.work(1)
    with case.pacing.permit(BATCH) as permit:
        case.work(0.002)
        permit.yield_now()
        case.work(0.005)
    assert case.slept == [YIELD_SECONDS]


def test_work_that_frees_memory_only_yields_when_memory_is_scarce(case: Case) -> None:
    case.pacing.note_request()
    case.memory.add(Config().memstore_bytes_max * 3 // 4)
    with case.pacing.permit(FLUSH) as permit:
        case.work(0.002)
        permit.yield_now()
    assert case.slept == [YIELD_SECONDS]
    with case.pacing.permit(BATCH):
        case.work(0.003)
    assert case.slept == pytest.approx([YIELD_SECONDS, 0.003])


def test_a_flush_or_compaction_pauses_three_times_as_long_and_within_its_pieces(case: Case) -> None:
    case.pacing.note_request()
    with case.pacing.permit(COMPACTION) as permit:
        case.work(0.002)
        yield_now()
        case.work(0.001)
        permit.yield_now()
        case.work(0.004)
    assert case.slept == pytest.approx([0.006, YIELD_SECONDS, 0.003, YIELD_SECONDS, 0.012])
    yield_now()  # The work is over: it pauses no longer.
    with case.pacing.permit(BATCH):
        case.work(0.001)
        yield_now()
    assert case.slept[5:] == pytest.approx([0.001])


def test_a_spill_pauses_as_long_as_it_worked_and_within_its_pieces(case: Case) -> None:
    case.pacing.note_request()
    with case.pacing.permit(SPILL) as permit:
        case.work(0.002)
        yield_now()
        case.work(0.001)
        permit.yield_now()
    assert case.slept[:4] == pytest.approx([0.002, YIELD_SECONDS, 0.001, YIELD_SECONDS])


def test_within_its_pieces_it_only_yields_without_recent_requests_or_when_memory_is_scarce(case: Case) -> None:
    with case.pacing.permit(COMPACTION):
        case.work(0.002)
        yield_now()
    case.pacing.note_request()
    case.memory.add(Config().memstore_bytes_max * 3 // 4)
    with case.pacing.permit(FLUSH):
        case.work(0.002)
        yield_now()
    assert case.slept == [YIELD_SECONDS] * 2


def test_it_pauses_no_longer_than_it_worked_while_other_work_waits_for_the_permit(case: Case) -> None:
    def wait() -> None:
        with case.pacing.permit(BATCH):
            pass

    other = threading.Thread(target=wait)
    case.pacing.note_request()
    with case.pacing.permit(COMPACTION):
        other.start()
        wait_until(lambda: case.pacing.permits.statistics().waiting == 1)
        case.work(0.002)
        yield_now()
        assert case.slept == pytest.approx([0.002, YIELD_SECONDS])
        assert case.pacing.permits.statistics().waiting == 1, "the permit was released"
    other.join()


def test_a_bulk_batch_pauses_after_pieces_of_a_millisecond_and_keeps_its_permit(case: Case) -> None:
    def nobody_works(seconds: float) -> None:
        assert case.pacing.permits.statistics().free == 0
        case.sleep(seconds)

    case.pacing.sleep = nobody_works
    case.pacing.note_request()
    with case.pacing.permit(BATCH) as permit:
        permit.pause()
        case.work(0.002)
        permit.pause()
        permit.pause()
        case.work(0.003)
    assert case.slept == pytest.approx([0.002, 0.003])


def test_a_bulk_batch_does_not_pause_between_its_pieces_without_recent_requests(case: Case) -> None:
    with case.pacing.permit(BATCH) as permit:
        case.work(0.002)
        permit.pause()
        case.work(0.002)
    assert case.slept == []


def test_no_pause_is_longer_than_the_deadline(case: Case) -> None:
    case.pacing.note_request()
    with case.pacing.permit(BATCH, deadline=case.clock.monotonic() + 0.005) as permit:
        case.work(0.003)
        permit.pause()
        case.work(0.004)
        permit.pause()
    assert case.slept == pytest.approx([0.002, 0, 0])


def test_no_pause_is_long_and_none_is_made_when_it_is_configured_so() -> None:
    for percent, slept in ((100, [0.1]), (0, [])):
        case = Case(percent)
        with case.pacing.permit(BATCH):
            case.work(30)
            case.pacing.note_request()
        assert case.slept == slept


def test_waiting_for_a_disk_counts_as_a_pause(case: Case) -> None:
    case.pacing.note_request()
    with case.pacing.permit(BATCH) as permit:
        case.work(0.008)
        with permit.released():
            case.work(0.003)
        case.work(0.001)
    assert case.slept == pytest.approx([0.006])


def test_the_permit_is_free_during_a_wait_for_a_disk_which_is_no_pause_if_other_work_took_it(case: Case) -> None:
    case.pacing.note_request()
    with case.pacing.permit(BATCH) as permit:
        case.work(0.008)
        with permit.released():
            with case.pacing.permit(BATCH, deadline=case.clock.monotonic() + 0.01):
                case.work(0.003)
            assert case.slept == pytest.approx([0.003])
        assert case.pacing.permits.statistics().free == 0
        case.work(0.001)
    assert case.slept == pytest.approx([0.003, 0.009])
    assert case.pacing.permits.statistics().free == 1


def test_a_disk_error_does_not_wait_for_a_permit(case: Case) -> None:
    def fail() -> None:
        case.pacing.permits.acquire()  # and never given back
        raise OSError(errno.EIO, "lost")

    case.pacing.note_request()
    with pytest.raises(OSError, match="lost"), case.pacing.permit(BATCH) as permit, permit.released():
        fail()


def test_waiting_for_a_permit_ends_at_the_deadline(case: Case) -> None:
    case.pacing.note_request()
    with case.pacing.permit(BATCH), pytest.raises(DeadlineError, match=r"timed out after 0 s waiting for a permit"):
        case.pacing.permit(BATCH, deadline=case.clock.monotonic()).__enter__()
    with case.pacing.permit(BATCH, deadline=case.clock.monotonic()):
        pass


def test_waiting_for_a_permit_after_a_disk_ends_at_the_deadline(case: Case) -> None:
    def wait_for_the_disk() -> None:
        case.pacing.permits.acquire()  # by another one, which keeps it for long
        given_back.start()

    given_back = threading.Timer(1, case.pacing.permits.release)
    case.pacing.note_request()
    with (
        pytest.raises(DeadlineError),
        case.pacing.permit(BATCH, deadline=case.clock.monotonic()) as permit,
        permit.released(),
    ):
        wait_for_the_disk()
    given_back.join()
    # It had none to give back.
    assert case.pacing.permits.statistics().free == 1


def test_no_background_work_runs_during_a_pause(case: Case) -> None:
    def nobody_works(seconds: float) -> None:
        assert case.pacing.permits.statistics().free == 0
        case.sleep(seconds)

    case.pacing.sleep = nobody_works
    case.pacing.note_request()
    with case.pacing.permit(BATCH):
        case.work(0.002)
    assert case.slept == pytest.approx([0.002])


def test_one_waits_for_the_other_while_requests_are_active(case: Case) -> None:
    begun = threading.Event()
    permits = case.pacing.permits

    def other() -> None:
        with case.pacing.permit(BATCH):
            begun.set()

    case.pacing.note_request()
    thread = threading.Thread(target=other)
    with case.pacing.permit(BATCH):
        thread.start()
        while not permits.statistics().waiting:
            threading.Event().wait(0.001)
        assert not begun.is_set()
    assert begun.wait(WAIT_S)
    thread.join()


def test_no_work_waits_without_requests(case: Case) -> None:
    with case.pacing.permit(BATCH), case.pacing.permit(BATCH):
        case.pacing.note_request()
    assert case.pacing.permits.statistics().free == 1


class FullForStoreFiles(Files):
    is_full = True

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        if self.is_full and ".store" in path.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return super().open(path, flags, mode)


class BulkFilesOnAHungDisk(Files):
    """The syncs of threads named `hung` block until they are released."""

    def __init__(self) -> None:
        self.is_hanging = threading.Event()
        self.may_go_on = threading.Event()

    def fsync(self, descriptor: int) -> None:
        if threading.current_thread().name == "hung":
            self.is_hanging.set()
            assert self.may_go_on.wait(WAIT_S)
        super().fsync(descriptor)


def test_a_flush_waits_for_no_batch_that_waits_for_a_disk_or_a_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    monkeypatch.setattr(BackgroundPacing, "has_active_requests", lambda pacing: True)
    files = BulkFilesOnAHungDisk()
    lone = LoneRegion(tmp_path, Config(bulk_file_bytes_min=0), Clock(), files, Durability.OS)
    gate = lone.parts.gate
    pacing = lone.parts.shared.pacing
    lone.change(b"r", Put(b"f", b"q", b"v"))
    batch = threading.Thread(target=lone.bulk, args=(bulk_batch((b"s", b"f", b"q", None, b"v")),), name="hung")
    batch.start()
    assert files.is_hanging.wait(WAIT_S)
    lone.flush()
    gate.enter(lone.clock.monotonic() + WAIT_S)
    files.may_go_on.set()
    while not gate.statistics().exclusive_waiting:
        threading.Event().wait(0.001)
    pacing.permits.acquire(lone.clock.monotonic() + WAIT_S)
    pacing.permits.release()
    gate.leave()
    batch.join()
    assert len(lone.scan()) == 2
    lone.stop()


class TickingClock(ManualClock):
    """Two milliseconds pass until each look at it."""

    def monotonic(self) -> float:
        self.advance(2)
        return super().monotonic()


@pytest.mark.parametrize("is_active", [True, False])
@pytest.mark.parametrize("kind", ["rows", "cells"])
def test_a_bulk_batch_pauses_between_its_pieces_but_never_in_the_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, is_active: bool
) -> None:
    monkeypatch.setattr(BackgroundPacing, "has_active_requests", lambda pacing: is_active)
    lone = LoneRegion(tmp_path, Config(bulk_file_bytes_min=0), TickingClock(), Files(), Durability.OS)
    gate = lone.parts.gate
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        assert gate.try_enter(), "it pauses in the gate"
        gate.leave()
        slept.append(seconds)

    lone.parts.shared.pacing.sleep = sleep
    lone.parts.shared.pacing.idle_seconds = partial(next, itertools.count(step=1000.0))  # so no pause is longer
    rows = [(b"%d" % number, None, [b"v"] * 5) for number in reversed(range(9))]
    names = [(b"f", b"%d" % number) for number in range(5)]
    lone.bulk(row_batch(names, rows) if kind == "rows" else bulk_batch(*cells_of_rows(names, rows)))
    assert (len(slept) > 4) == is_active
    assert bool(slept) == is_active
    assert len(lone.scan()) == 45
    lone.stop()


def test_a_flush_or_a_batch_that_fails_releases_its_permit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    monkeypatch.setattr(BackgroundPacing, "has_active_requests", lambda pacing: True)
    files = FullForStoreFiles()
    engine = Engine(tmp_path, Config(bulk_file_bytes_min=0), Clock(), files, Durability.OS)
    engine.change(b"r", Put(b"f", b"q", b"v"))
    with pytest.raises(DiskFullError) as told:  # Kept, as somebody may keep an error: its frames hold what they hold.
        engine.server.flush("t")
    with pytest.raises(InvalidRequestError):
        engine.bulk(bulk_batch((b"", b"f", b"q", None, b"v")))
    files.is_full = False
    engine.bulk(bulk_batch((b"s", b"f", b"q", None, b"v")))
    engine.server.flush("t")
    assert len(engine.scan()) == 2
    assert told.value
    engine.server.stop()


def test_the_event_loop_is_idle_while_a_single_put_waits_for_its_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brief_wait, "WAIT_SECONDS", WAIT_S)
    engine = Engine(tmp_path, Config(log_quick_sync_us=3_600_000_000), Clock(), Files(), Durability.FSYNC)
    engine.change(b"r", Put(b"f", b"q", b"0"))
    pacing = engine.server.pacing
    pacing.idle_seconds = lambda: 7.0
    assert pacing.idle() == 7
    options = WriteOptions(time.monotonic() + WAIT_S, is_alone=True)
    mutation = RowMutation(b"r", (Put(b"f", b"q", b"1"),))
    assert engine.region.mutate([mutation], options, lambda _: None, may_wait=False)
    assert pacing.idle() > 7
    engine.server.stop()
