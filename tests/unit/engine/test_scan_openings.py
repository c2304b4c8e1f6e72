"""Opening a scan: on the loop as far as nothing waits, and then by a worker, as if the loop had not begun."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.open_scan import OpenScan
from rowlock_regionserver.errors import InvalidRequestError, RegionTooBusyError
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.operations import ScanPlan
from rowlock_regionserver.scan.batches import ScanAnswer
from rowlock_regionserver.sources import Reading, WouldWaitError

from tests.unit.engine.fakes import FakeAnswers, answer

SECONDS = 1.0
MANY_BYTES = 1000


class CachedRegion:
    """A region of five rows, of which the third is not in memory."""

    def __init__(self) -> None:
        self.read_points = iter(range(11, 100))
        self.open_scans = 0
        self.in_memory = 2
        self.readings: list[Reading] = []
        self.failure: Exception | None = None
        self.after_row: Callable[[], None] = lambda: None

    @contextmanager
    def scan(
        self, plan: ScanPlan, *, is_slice_over: Callable[[], bool], reading: Callable[[], Reading]
    ) -> Iterator[tuple[int, FakeAnswers]]:
        self.open_scans += 1
        try:
            yield next(self.read_points), FakeAnswers(self._answers(reading))
        finally:
            self.open_scans -= 1

    def _answers(self, reading: Callable[[], Reading]) -> Iterator[ScanAnswer]:
        for number in range(5):
            self.readings.append(reading())
            if number >= self.in_memory and reading() is Reading.AT_ONCE:
                raise WouldWaitError
            if self.failure is not None and number == 3:
                raise self.failure
            yield answer(number)
            self.after_row()


@pytest.fixture
def region() -> CachedRegion:
    return CachedRegion()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def memory() -> Ledger:
    return Ledger(Config(scan_bytes_held_max=5000, scan_window_bytes=1000))


@pytest.fixture
def scan(region: CachedRegion, clock: ManualClock, memory: Ledger) -> OpenScan:
    def encoded(found: ScanAnswer, read_point: int) -> bytes:
        return b"%d %s" % (read_point, found.table.column("row")[0].as_py())

    return OpenScan(region, ScanPlan(), encoded, memory.scans, Config(scan_window_bytes=1000), clock)


def test_what_is_in_memory_is_answered_at_once(region: CachedRegion, scan: OpenScan, memory: Ledger) -> None:
    region.in_memory = 5
    assert scan.find_first(MANY_BYTES, SECONDS, may_wait=False)
    assert scan.first == [b"11 row%d" % number for number in range(5)]
    assert (scan.is_over, scan.is_freed, region.open_scans) == (True, True, 0)
    assert memory.bytes_held == 0


def test_what_was_read_before_a_wait_is_read_again_and_not_repeated(region: CachedRegion, scan: OpenScan) -> None:
    assert not scan.find_first(MANY_BYTES, SECONDS, may_wait=False)
    assert (scan.first, region.open_scans) == ([], 0)
    assert scan.find_first(MANY_BYTES, SECONDS, may_wait=True)
    assert scan.first == [b"12 row%d" % number for number in range(5)]
    assert set(region.readings[3:]) == {Reading.CACHED}
    assert (scan.is_over, region.open_scans) == (True, 0)


def test_a_worker_goes_on_where_the_slice_of_the_loop_ended(
    region: CachedRegion, scan: OpenScan, clock: ManualClock
) -> None:
    region.in_memory = 5
    region.after_row = lambda: clock.advance(600)
    assert not scan.find_first(MANY_BYTES, SECONDS, may_wait=False)
    assert 0 < len(scan.first) < 5
    region.after_row = lambda: None
    assert scan.find_first(MANY_BYTES, SECONDS, may_wait=True)
    assert scan.first == [b"11 row%d" % number for number in range(5)]


def test_a_scan_with_more_rows_goes_on_with_the_next_one(region: CachedRegion, scan: OpenScan) -> None:
    assert scan.find_first(10, SECONDS, may_wait=False)
    assert scan.first == [b"11 row0", b"11 row1"]
    assert (scan.is_over, region.open_scans) == (False, 1)
    assert scan.step(10) == [b"11 row2", b"11 row3", b"11 row4"]
    assert region.readings[2:] == [Reading.BULK] * 3
    assert scan.step() == []
    assert region.open_scans == 0


def test_rows_before_a_failure_are_answered_and_the_next_step_raises_it(region: CachedRegion, scan: OpenScan) -> None:
    region.failure = InvalidRequestError("a value of another type")
    assert scan.find_first(MANY_BYTES, SECONDS, may_wait=True)
    assert scan.first == [b"11 row0", b"11 row1", b"11 row2"]
    assert not scan.is_over
    with pytest.raises(InvalidRequestError):
        scan.step()
    assert region.open_scans == 0


def test_a_scan_for_which_there_is_no_memory_is_refused(region: CachedRegion, scan: OpenScan, memory: Ledger) -> None:
    memory.scans.add(4500)
    with pytest.raises(RegionTooBusyError):
        scan.find_first(MANY_BYTES, SECONDS, may_wait=False)
    assert scan.is_freed
    assert region.open_scans == 0
