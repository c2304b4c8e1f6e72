"""Which regions are flushed, in which order, and how many at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import KIB, MIB, Config
from rowlock_regionserver.errors import DiskFullError, LimitExceededError, RegionTooBusyError
from rowlock_regionserver.host.flushing import FlushThreads
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.region.memory import MemoryGauge

from tests.threads import is_at, wait_until_it_ends_or
from tests.waiting import WAIT_S

CONFIG = Config(memstore_bytes_max=1024 * KIB, memstore_flush_bytes=512 * KIB, flush_threads=3)


@dataclass(eq=False)
class FakeRegion:
    region_id: int
    memstore_bytes: int
    segment_count: int = 0


class FakeLog:
    """Counts how often it is asked: once each time that the threads look which regions are due."""

    def __init__(self, changed: threading.Condition) -> None:
        self.pinning: list[int] = []
        self.look_count = 0
        self._changed = changed

    def regions_that_pin(self) -> list[int]:
        with self._changed:
            self.look_count += 1
            self._changed.notify_all()
        return self.pinning


class Case:
    """Regions whose flushes end when the test says so."""

    def __init__(self, config: Config, *sizes: int) -> None:
        self.clock = ManualClock()
        self.ledger = Ledger(config)
        self.memory = MemoryGauge(self.ledger.memstores, config, self.clock, lambda: self.threads.wake())
        self.changed = threading.Condition()
        self.log = FakeLog(self.changed)
        self.regions = [FakeRegion(number, 0) for number in range(len(sizes))]
        self.begun: list[int] = []
        self.failures: list[BaseException] = []
        self.full: set[int] = set()
        self.may_end = threading.Event()
        log: Any = self.log
        regions: Any = lambda: self.regions  # noqa: E731
        flush: Any = self._flush
        self.threads = FlushThreads(
            regions, lambda: None, flush, self.memory, self.ledger, log, config, self.clock, self.failures.append
        )
        for region, size in zip(self.regions, sizes, strict=True):
            self.grow(region, size)

    def grow(self, region: FakeRegion, byte_count: int) -> None:
        region.memstore_bytes += byte_count
        self.memory.add(byte_count)

    def _flush(self, region: FakeRegion) -> None:
        with self.changed:
            self.begun.append(region.region_id)
            self.changed.notify_all()
        if region.region_id in self.full:
            raise DiskFullError("full")
        assert self.may_end.wait(WAIT_S)
        byte_count, region.memstore_bytes, region.segment_count = region.memstore_bytes, 0, 0
        self.log.pinning = [number for number in self.log.pinning if number != region.region_id]
        self.memory.flushed(byte_count)
        with self.changed:
            self.changed.notify_all()

    def until(self, holds: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(holds, WAIT_S)

    def look_again(self) -> None:
        """The threads have looked once more, from beginning to end, or have begun another flush."""
        begun_count = len(self.begun)
        for _ in range(2):
            seen = self.log.look_count
            self.threads.wake()
            self.until(lambda seen=seen: self.log.look_count > seen or len(self.begun) > begun_count)  # type: ignore[misc]

    def tried_again(self, *regions: int) -> bool:
        """Whether one of the regions was flushed more than once."""
        return any(self.begun.count(region) > 1 for region in regions)


def flushed(cases: list[Case], case: Case) -> list[int]:
    """The regions that were flushed until none was due, in the order of their first flush."""
    cases.append(case)
    case.may_end.set()
    case.threads.thread.start()
    begun_count = -1
    while len(case.begun) > begun_count or case.ledger.flushes.bytes_held:
        begun_count = len(case.begun)
        case.look_again()
    return list(dict.fromkeys(case.begun))


@pytest.fixture
def cases() -> Iterator[list[Case]]:
    """Makes cases, and ends their threads after the test."""
    started: list[Case] = []
    yield started
    for case in started:
        case.may_end.set()
        case.threads.stop()
        assert case.failures == []


ONE_BY_ONE = replace(CONFIG, flush_threads=1)


def test_without_pressure_only_those_over_a_bound_of_their_own_are_due_the_largest_first(cases: list[Case]) -> None:
    sizes = (100 * KIB, 600 * KIB, 300 * KIB, 700 * KIB, 10, 0)
    config = replace(ONE_BY_ONE, memstore_bytes_max=8 * MIB)
    assert flushed(cases, Case(config, *sizes)) == [3, 1]
    case = Case(config, *sizes)
    case.regions[4].segment_count = CONFIG.immutable_segments_max
    case.log.pinning = [0]
    assert flushed(cases, case) == [3, 1, 0, 4]


def test_a_requested_flush_is_begun_once_and_others_are_not(cases: list[Case]) -> None:
    case = Case(ONE_BY_ONE, 100, 100, 100)
    case.threads.request(1)
    assert flushed(cases, case) == [1]
    assert not case.tried_again(1)


def test_under_pressure_so_many_of_the_largest_are_due_as_bring_the_memstores_to_a_quarter(cases: list[Case]) -> None:
    case = Case(ONE_BY_ONE, *[2 * KIB] * 250, 30 * KIB)
    assert flushed(cases, case)[0] == 250
    assert 256 * KIB - 2 * KIB < case.memory.bytes_held <= 256 * KIB


def test_memory_of_running_flushes_counts_as_freed(cases: list[Case]) -> None:
    case = Case(CONFIG, *[2 * KIB] * 150, 550 * KIB)
    cases.append(case)
    case.threads.thread.start()
    case.until(lambda: case.begun == [150])
    work_bytes = case.ledger.flushes.bytes_held
    case.regions[150].memstore_bytes = 0
    case.look_again()
    assert case.begun == [150], "what is due by itself is enough"
    assert case.ledger.flushes.bytes_held == work_bytes, "another flush was begun"


def test_several_flushes_run_at_once_and_the_next_begins_when_one_is_done(cases: list[Case]) -> None:
    case = Case(CONFIG, *[100 * KIB] * 6)
    cases.append(case)
    case.threads.thread.start()
    case.until(lambda: len(case.begun) == CONFIG.flush_threads)
    case.may_end.set()
    case.until(lambda: case.memory.bytes_held <= 300 * KIB)
    assert len(case.begun) == len(set(case.begun))


def test_flushes_wait_for_memory_for_their_work_but_one_always_runs(cases: list[Case]) -> None:
    case = Case(replace(CONFIG, flush_work_bytes_max=1), *[100 * KIB] * 6)
    cases.append(case)
    case.threads.thread.start()
    scheduler = case.threads.thread
    wait_until_it_ends_or(scheduler, lambda: is_at(scheduler, "self._wake.wait("))
    assert case.ledger.flushes.bytes_held > 1, "no flush was begun"
    case.until(lambda: len(case.begun) == 1)
    case.threads.wake()
    case.may_end.set()
    case.until(lambda: case.memory.bytes_held <= 256 * KIB)
    case.threads.stop()
    assert case.ledger.flushes.bytes_held == 0


def test_a_region_that_the_disk_refused_holds_up_no_other_and_comes_again_later(cases: list[Case]) -> None:
    case = Case(CONFIG, *[100 * KIB] * 6)
    cases.append(case)
    case.full = {0, 1}
    case.may_end.set()
    case.threads.thread.start()
    case.until(lambda: case.memory.bytes_held == 400 * KIB or case.tried_again(0, 1))
    case.grow(case.regions[5], 200 * KIB)
    case.until(lambda: case.memory.bytes_held <= 256 * KIB or case.tried_again(0, 1))
    assert not case.tried_again(0, 1), "they are not tried again and again in the meantime"
    assert {0, 1} <= set(case.begun)
    case.full.clear()
    case.grow(case.regions[0], 600 * KIB)
    case.clock.advance(2000)
    case.threads.wake()
    case.until(lambda: case.regions[0].memstore_bytes == 0)


def test_writes_beyond_the_bound_are_refused_with_a_retry_delay() -> None:
    case = Case(replace(CONFIG, retry_after_ms=200), 1000 * KIB)
    with pytest.raises(RegionTooBusyError) as refused:
        case.memory.check(100 * KIB)
    assert refused.value.retry_after_ms == 200, "nothing was flushed yet, so its pace is not known"
    case.clock.advance(1000)
    case.memory.flushed(0)
    case.clock.advance(1000)
    for _ in range(20):
        case.clock.advance(1000)
        case.memory.flushed(100 * KIB)
        case.memory.add(100 * KIB)
    with pytest.raises(RegionTooBusyError) as refused:
        case.memory.check(100 * KIB)
    assert refused.value.retry_after_ms == pytest.approx(760, abs=40)
    with pytest.raises(LimitExceededError):
        case.memory.check(1025 * KIB)
