"""Numbers and stamps of a region whose cells may lie ahead of its stamps, with calls that meet."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.commit.mvcc import Mvcc
from rowlock_regionserver.commit.numbering import Numbering
from rowlock_regionserver.commit.stamps import LEFT_OUT_EVERY_MS, Stamps
from rowlock_regionserver.config import Config
from rowlock_regionserver.found_cells import FoundCell

REGION_ID = 7
ROW = b"old"
HOUR_MS = 3600 * 1000


class FakeLog:
    """Takes reservations, if it has memory."""

    def __init__(self) -> None:
        self.order = threading.Lock()
        self.numbers_until = self.stamps_until = 0
        self.has_memory = True

    def reserve(self, region_id: int, numbers_until: int, stamps_until: int) -> None:
        assert region_id == REGION_ID
        assert self.order.locked()
        if not self.has_memory:
            raise MemoryError
        self.numbers_until, self.stamps_until = numbers_until, stamps_until

    def check_space(self, byte_count: int) -> None:
        """There is always space."""


@pytest.fixture
def clock() -> ManualClock:
    """In a millisecond that gives stamps, as the next few do."""
    return ManualClock(1000 * LEFT_OUT_EVERY_MS + 1)


@pytest.fixture
def log() -> FakeLog:
    return FakeLog()


@pytest.fixture
def numbering(clock: ManualClock, log: FakeLog) -> Numbering:
    """Of a region that may have cells up to 20 hours ahead of the clock."""
    config = Config()
    stamps = Stamps(clock, config.stamp_leap_ms, cells_until=clock.now_ms() + 20 * HOUR_MS)
    as_log: Any = log  # All that it is asked for.
    return Numbering(REGION_ID, Mvcc(0, clock), stamps, as_log, config, clock)


def next_stamp(numbering: Numbering) -> int:
    stamp = numbering.next_stamp()
    assert stamp is not None
    return stamp


def cell(timestamp: int) -> FoundCell:
    return (b"q", -timestamp, -1, 0, b"v")


def test_no_number_is_allocated_after_a_reservation_that_found_no_memory(numbering: Numbering, log: FakeLog) -> None:
    """The next call took the block for reserved, and a restart would allocate its numbers and stamps again."""
    log.has_memory = False
    for _ in range(2):
        with log.order, pytest.raises(MemoryError):
            numbering.begin()
    log.has_memory = True
    stamp = next_stamp(numbering)
    with log.order:
        assert numbering.begin() == 1 < log.numbers_until
    assert stamp < log.stamps_until
    log.has_memory, reserved = False, log.stamps_until
    with pytest.raises(MemoryError):
        numbering.release_unused()
    log.has_memory = True
    numbering.release_unused()
    assert log.stamps_until < reserved


@pytest.mark.parametrize("by", ["a bulk batch", "a call after the clock has come up"])
def test_a_call_whose_stamp_lies_behind_old_cells_reads_its_rows_whatever_others_do_meanwhile(
    numbering: Numbering, clock: ManualClock, by: str
) -> None:
    """A request of many rows has its stamp for a while. A put behind an old cell would never be seen."""
    stamp = next_stamp(numbering)
    assert numbering.reads_rows(stamp)
    if by == "a bulk batch":
        numbering.pass_over_cells()
    else:
        clock.advance(20 * HOUR_MS + 1)
    later = next_stamp(numbering)
    assert numbering.reads_rows(stamp)
    assert not numbering.reads_rows(later)


def test_a_bulk_batch_shares_no_timestamp_with_writes_during_its_wait(numbering: Numbering, clock: ManualClock) -> None:
    given = [clock.now_ms() + 20 * HOUR_MS]
    in_flight = next_stamp(numbering)
    clock.advance(1)
    numbering.next_stamp()  # The batch is arranged by it.
    for stamp in (in_flight, next_stamp(numbering)):
        given.append(numbering.stamp_later_than(ROW, map(cell, given), stamp))
    clock.advance(1)
    given.append(numbering.stamp_later_than(ROW, map(cell, given), next_stamp(numbering)))
    assert given == sorted(set(given))
    clock.advance(1)
    numbering.pass_over_cells()
    assert next_stamp(numbering) > given[-1]


def test_a_slow_call_shares_its_timestamp_with_no_other_call(numbering: Numbering, clock: ManualClock) -> None:
    """It shares that of its own millisecond, and is made in the next one, in which another call is there already."""
    old = cell(clock.now_ms() + 20 * HOUR_MS)
    slow = next_stamp(numbering)
    first = numbering.stamp_later_than(ROW, [old], next_stamp(numbering))
    clock.advance(1)
    next_stamp(numbering)
    assert numbering.stamp_later_than(ROW, [old, cell(first)], slow) == first
    assert numbering.stamp_later_than(ROW, [old, cell(first)], next_stamp(numbering)) > first
