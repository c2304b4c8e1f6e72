"""Stamps: later in each millisecond, never far ahead of the clock, and soon back at it. The clock is manual."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.commit.stamps import LEFT_OUT_EVERY_MS, Stamps, stamps_after_restart
from rowlock_regionserver.config import Config
from rowlock_regionserver.files import Files
from rowlock_regionserver.operations import Increment, Put, RowMutation, WriteOptions
from rowlock_regionserver.wal.recovery import read_log

from tests.threads import wait_until_it_waits
from tests.waiting import WAIT_S

from .conftest import Engine, bulk_batch

BLOCK_MS = 1000
SHORT_BLOCK_MS = 100
HOUR_MS = 3600 * 1000


def stamp_of(stamps: Stamps, clock: ManualClock) -> int:
    """Returns a stamp, after as many waits as it needs."""
    while (stamp := stamps.next()) is None:
        clock.wait_for_next_ms()
    return stamp


def test_a_stamp_is_the_clocks_millisecond() -> None:
    clock = ManualClock()
    stamps = Stamps(clock, BLOCK_MS)
    for _ in range(100):
        assert {stamps.next() for _ in range(10)} == {clock.now_ms()}
        clock.advance(1)


@pytest.mark.parametrize("ahead_ms", [1, 999, 5 * HOUR_MS])
def test_calls_in_different_milliseconds_get_different_stamps_also_ahead_of_the_clock(ahead_ms: int) -> None:
    clock = ManualClock()
    stamps = Stamps(clock, BLOCK_MS, last=clock.now_ms() + ahead_ms)
    of_ms: dict[int, set[int]] = {}
    for _ in range(3000):
        stamp = stamp_of(stamps, clock)
        of_ms.setdefault(clock.now_ms(), set()).add(stamp)
        clock.advance(random.Random(ahead_ms).choice([0, 0, 1, 2]))
    given = [stamp for of_one in of_ms.values() for stamp in of_one]
    assert [len(of_one) for of_one in of_ms.values()] == [1] * len(of_ms)
    assert given == sorted(set(given))


def test_stamps_come_back_under_calls_in_every_millisecond() -> None:
    """With 10 calls in every millisecond, a lead of one block is used up within 16 blocks."""
    clock = ManualClock()
    stamps = Stamps(clock, BLOCK_MS, last=clock.now_ms() + BLOCK_MS - 1)
    started_ms, waits = clock.now_ms(), 0
    ahead: list[int] = []
    while not ahead or ahead[-1] > 0:
        for _ in range(10):
            stamp = stamps.next()
            if stamp is None:
                waits += 1
            else:
                ahead.append(stamp - clock.now_ms())
        clock.advance(1)
        assert clock.now_ms() < started_ms + 2 * LEFT_OUT_EVERY_MS * BLOCK_MS
    assert max(ahead) < BLOCK_MS
    assert clock.now_ms() - started_ms <= LEFT_OUT_EVERY_MS * (BLOCK_MS + 1)
    assert waits / (len(ahead) + waits) < 0.07


def test_stamps_pass_over_a_range_and_wait_at_the_end_of_a_block() -> None:
    clock = ManualClock(LEFT_OUT_EVERY_MS + 1)
    stamps = Stamps(clock, BLOCK_MS)
    stamps.pass_over(clock.now_ms())
    assert stamps.next() == clock.now_ms() + 1
    range_end = clock.now_ms() + BLOCK_MS - 1
    stamps.pass_over(range_end)
    assert stamps.next() is None, "it would be a whole block ahead"
    clock.advance(1)
    assert stamps.next() == range_end + 1


class SlowClock(ManualClock):
    """Holds up the first thread that looks at it, with what it saw."""

    def __init__(self, now_ms: int) -> None:
        super().__init__(now_ms)
        self.is_looked_at = threading.Event()
        self.may_go_on = threading.Event()

    def now_ms(self) -> int:
        now_ms = super().now_ms()
        if not self.is_looked_at.is_set():
            self.is_looked_at.set()
            assert self.may_go_on.wait(WAIT_S)
        return now_ms


def test_a_thread_that_is_slow_to_its_stamp_has_the_clock_of_then() -> None:
    """A look at the clock before the lock would be old behind it: stamps would pass the end of the block for good."""
    clock = SlowClock(LEFT_OUT_EVERY_MS + 1)
    stamps = Stamps(clock, BLOCK_MS)
    given: list[int | None] = []
    slow, other = (threading.Thread(target=lambda: given.append(stamps.next())) for _ in range(2))
    slow.start()
    assert clock.is_looked_at.wait(WAIT_S)
    clock.advance(1)
    other.start()
    wait_until_it_waits(other)  # For the slow one, unless it has overtaken it.
    clock.may_go_on.set()
    slow.join(WAIT_S)
    other.join(WAIT_S)
    assert given == [LEFT_OUT_EVERY_MS + 1, LEFT_OUT_EVERY_MS + 2]


def lives(clock: ManualClock, count: int) -> Iterator[Stamps]:
    """The stamps of a region that is killed repeatedly, and their reservation in the log."""
    reserved_until = 0
    for _ in range(count):
        stamps = stamps_after_restart(clock, BLOCK_MS, reserved_until, is_own=True, newest_cell=lambda: 0)
        yield stamps
        if stamps.newest >= reserved_until:
            reserved_until = stamps.bound()


@pytest.mark.parametrize("set_back_ms", [0, 3 * HOUR_MS])
def test_restarts_do_not_add_up(set_back_ms: int) -> None:
    clock = ManualClock()
    newest = 0
    for number, stamps in enumerate(lives(clock, 25)):
        stamp = stamp_of(stamps, clock)
        assert stamp > newest
        newest = stamp
        if not number:
            clock.set_now_ms(clock.now_ms() - set_back_ms)
    assert newest < clock.now_ms() + set_back_ms + (25 * BLOCK_MS / 10 if set_back_ms else BLOCK_MS)


def test_a_start_that_gives_no_stamp_moves_nothing() -> None:
    clock = ManualClock()
    first = next(lives(clock, 1))
    first.next()
    reserved_until = first.bound()
    for _ in range(25):
        stamps = stamps_after_restart(clock, BLOCK_MS, reserved_until, is_own=True, newest_cell=lambda: 0)
        assert stamps.newest + 1 == reserved_until


# ---- what an earlier version reserved


@pytest.mark.parametrize("cell_ahead_ms", [-5, 0, BLOCK_MS // 2])
def test_a_region_without_cells_that_are_far_ahead_is_back_at_the_clock(cell_ahead_ms: int) -> None:
    clock = ManualClock()
    newest_cell = clock.now_ms() + cell_ahead_ms
    stamps = stamps_after_restart(
        clock, BLOCK_MS, clock.now_ms() + 20 * HOUR_MS, is_own=False, newest_cell=lambda: newest_cell
    )
    assert not stamps.cells_until
    assert stamp_of(stamps, clock) in (max(clock.now_ms(), newest_cell + 1), newest_cell + 1)
    assert stamps.bound() == clock.now_ms() + BLOCK_MS


def test_a_region_with_cells_that_are_far_ahead_stamps_by_the_clock_and_reads_its_rows_until_then() -> None:
    clock = ManualClock()
    ahead = clock.now_ms() + 20 * HOUR_MS
    stamps = stamps_after_restart(clock, BLOCK_MS, ahead + 500, is_own=False, newest_cell=lambda: ahead)
    assert stamp_of(stamps, clock) == clock.now_ms() <= stamps.cells_until
    assert ahead <= stamps.newest < ahead + BLOCK_MS
    assert stamps.bound() > ahead, "a restart must know of it"
    clock.advance(20 * HOUR_MS + BLOCK_MS)
    assert stamp_of(stamps, clock) == clock.now_ms() > stamps.cells_until


# ---- the write path


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def moved(tmp_path: Path, clock: ManualClock) -> Iterator[Engine]:
    config = Config(log_segment_bytes=1 << 20, worker_threads=2, stamp_leap_ms=SHORT_BLOCK_MS)
    engine = Engine(tmp_path, config, clock, Files(), Durability.OS)
    yield engine
    engine.server.stop()
    assert not engine.fatal


def put_of(engine: Engine) -> int:
    return engine.change(b"r", Put(b"g", b"q", b"v")).timestamp


def incremented(engine: Engine) -> int:
    ((_, _, timestamp, _),) = engine.change(b"r", Increment(b"g", b"n", 1)).results
    return timestamp


def bulk_of(engine: Engine) -> int:
    engine.bulk(bulk_batch((b"r", b"g", b"q", None, b"v")))
    ((_, _, timestamp, _),) = [cell for cell in engine.cells(b"r") if cell[1] == b"q"]
    return timestamp


@pytest.mark.parametrize("change", [put_of, incremented, bulk_of])
def test_three_changes_after_a_restart_are_three_versions(
    moved: Engine, clock: ManualClock, change: Callable[[Engine], int]
) -> None:
    change(moved)
    moved.crash()
    stamps = []
    for _ in range(3):
        clock.advance(20)
        stamps.append(change(moved))
    assert stamps == sorted(set(stamps))
    assert stamps[-1] < clock.now_ms() + SHORT_BLOCK_MS
    (column,) = {cell[1] for cell in moved.cells(b"r")}
    assert [cell[2] for cell in moved.cells(b"r", versions=3) if cell[1] == column] == stamps[::-1]


def test_25_restarts_leave_the_stamps_within_a_block_and_a_hot_row_brings_them_back(
    moved: Engine, clock: ManualClock
) -> None:
    """10 increments of one row in each millisecond: none is lost, and the stamps reach the clock again."""
    before = count = 0
    for _ in range(25):
        stamp = incremented(moved)
        count += 1
        assert before < stamp < clock.now_ms() + SHORT_BLOCK_MS
        before = stamp
        moved.crash()
    started_ms = clock.now_ms()
    while before >= clock.now_ms():
        for _ in range(10):
            stamp = incremented(moved)
            count += 1
            assert before <= stamp < clock.now_ms() + SHORT_BLOCK_MS
            before = stamp
        clock.advance(1)
    assert clock.now_ms() - started_ms <= (LEFT_OUT_EVERY_MS + 1) * SHORT_BLOCK_MS
    assert moved.values(b"r") == {b"g:n": count.to_bytes(8, "big")}


def test_starts_without_a_write_reserve_nothing(moved: Engine, clock: ManualClock) -> None:
    put_of(moved)

    def reserved() -> tuple[int, int]:
        known = read_log(moved.folder / "log", moved.files, lambda *_: None).regions[moved.region.region_id]
        return known.numbers_until, known.stamps_until

    before = reserved()
    for _ in range(5):
        moved.crash()
        assert reserved() == before
        moved.restart()
        assert reserved() == before


def test_after_an_orderly_stop_stamps_go_on_from_the_last_one(moved: Engine, clock: ManualClock) -> None:
    before = put_of(moved)
    for _ in range(5):
        moved.restart()
        assert moved.region.newest_stamp == before
        clock.advance(1)
        before = put_of(moved)
        assert before == clock.now_ms()


def test_a_call_that_may_not_wait_does_nothing_in_a_millisecond_that_gives_no_stamp(
    moved: Engine, clock: ManualClock
) -> None:
    put_of(moved)
    moved.crash()
    while clock.now_ms() % LEFT_OUT_EVERY_MS:
        clock.advance(1)
    mutation = RowMutation(b"r", (Put(b"g", b"q", b"v"),))
    options = WriteOptions(clock.monotonic() + 1)
    assert not moved.region.mutate([mutation], options, lambda _: None, may_wait=False)
    assert not moved.region.mutate_each([mutation], options, lambda *_: None)
    statistics = moved.region.statistics()
    assert statistics.mvcc.open_writes == 0
    assert statistics.row_locks.held == 0
    assert put_of(moved) > 0
