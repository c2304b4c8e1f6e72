"""Times that are told to clients which write with them: of one table, never refused, and later stamps are later."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import TableNotFoundError
from rowlock_regionserver.files import Files
from rowlock_regionserver.operations import Check, Condition, Put, RequestId, RowMutation, RowResult, WriteOptions
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.region.stamps import LEFT_OUT_EVERY_MS

from tests.unit.region.conftest import Engine, bulk_batch

HOUR_MS = 3600 * 1000
BLOCK_MS = Config().stamp_leap_ms


@pytest.fixture
def clock() -> ManualClock:
    clock = ManualClock()
    clock.advance(1)  # One of those that give stamps also ahead of the clock.
    return clock


@pytest.fixture
def told(tmp_path: Path, clock: ManualClock) -> Iterator[Engine]:
    config = Config(log_segment_bytes=1 << 20, worker_threads=2)
    engine = Engine(tmp_path, config, clock, Files(), Durability.OS)
    yield engine
    engine.server.stop()
    assert not engine.fatal


def put(engine: Engine, value: bytes, timestamp: int | None = None) -> int:
    return engine.change(b"r", Put(b"f", b"q", value, timestamp)).timestamp


def other_table(engine: Engine) -> Region:
    (region,) = engine.server.regions_of("other")
    return region


def put_into(region: Region, engine: Engine) -> int:
    """The stamp of a put."""
    outcomes: list[object] = []
    options = WriteOptions(engine.clock.monotonic() + 60)
    assert region.mutate([RowMutation(b"r", (Put(b"f", b"q", b"v"),))], options, outcomes.extend, may_wait=True)
    region.flush()  # Which waits until it is published.
    (result,) = outcomes
    assert isinstance(result, RowResult)
    return result.timestamp


def test_a_time_for_a_table_is_never_below_a_stamp_that_was_given_in_it(told: Engine, clock: ManualClock) -> None:
    assert told.server.tell_time("t").now_ms == clock.now_ms()
    stamp = put(told, b"1")
    clock.set_now_ms(stamp - 5 * HOUR_MS)
    assert told.server.tell_time("t").now_ms == stamp
    put(told, b"by the server's clock", told.server.tell_time("t").now_ms)
    assert told.values(b"r") == {b"f:q": b"by the server's clock"}
    told.crash()
    assert told.server.tell_time("t").now_ms >= stamp
    put(told, b"stamped")
    put(told, b"by the clock again", told.server.tell_time("t").now_ms)
    assert told.values(b"r") == {b"f:q": b"by the clock again"}
    with pytest.raises(TableNotFoundError):
        told.server.tell_time("no such table")


def test_a_write_that_comes_after_a_time_was_told_is_later_than_it(told: Engine, clock: ManualClock) -> None:
    """Also in the same millisecond, and while stamps stand ahead of the clock, as after a restart."""
    now_ms = told.server.tell_time("t").now_ms
    assert told.server.tell_time("t").now_ms == told.server.tell_time().now_ms == now_ms, "asking moved the time"
    assert put(told, b"point") == now_ms + 1
    put(told, b"a task that is repeated", now_ms)
    assert told.values(b"r") == {b"f:q": b"point"}
    told.crash()
    now_ms = told.server.tell_time("t").now_ms
    assert now_ms > clock.now_ms()
    assert put(told, b"point") == now_ms + 1
    clock.advance(20)
    time = told.server.tell_time("t", 10)
    told.server.truncate_table("t")
    assert put(told, b"in a new region") > time.now_ms + time.reserved_ms > now_ms + 10
    clock.advance(HOUR_MS)
    assert put(told, b"later") == clock.now_ms()


@pytest.mark.parametrize("table", ["t", ""])
def test_stamps_are_later_than_times_that_were_reserved_also_after_a_crash(
    told: Engine, clock: ManualClock, table: str
) -> None:
    reserved = told.server.tell_time(table, 500)
    assert (reserved.now_ms, reserved.reserved_ms) == (clock.now_ms(), 500)
    told.crash()
    assert put(told, b"point") > reserved.now_ms + 500
    put(told, b"the job's", reserved.now_ms + 500)
    assert told.values(b"r") == {b"f:q": b"point"}


@pytest.mark.parametrize("table", ["t", ""])
def test_reserved_times_are_less_than_a_block_ahead_and_no_two_jobs_share_one(
    told: Engine, clock: ManualClock, table: str
) -> None:
    times = [told.server.tell_time(table, 400) for _ in range(20)]
    assert [time.reserved_ms for time in times] == [400, 400, 197] + [0] * 17
    assert all(time.now_ms + time.reserved_ms < later.now_ms for time, later in itertools.pairwise(times[:3]))
    assert told.server.tell_time(table).now_ms < clock.now_ms() + BLOCK_MS
    assert told.region.newest_stamp < clock.now_ms() + BLOCK_MS
    clock.advance(HOUR_MS)
    assert told.server.tell_time(table, 400).reserved_ms == 400


def test_the_times_of_one_table_move_no_other(told: Engine, clock: ManualClock) -> None:
    """Neither a job's, nor stamps ahead of the clock, whoever connects and asks for the time meanwhile."""
    told.server.create_table("other", [Family(0, b"f")], Durability.OS)
    clock.advance(1)
    told.server.tell_time("t", 900)
    told.server.tell_time()
    assert put_into(other_table(told), told) <= clock.now_ms() + 1
    clock.set_now_ms(clock.now_ms() + 5 * HOUR_MS)
    ahead = put(told, b"by a clock that is wrong")
    told.server.tell_time()
    clock.set_now_ms(clock.now_ms() - 5 * HOUR_MS)
    for reserve_ms in (0, 10):
        assert told.server.tell_time("", reserve_ms).now_ms <= clock.now_ms() + 1
    clock.advance(20)
    told.server.create_table("new", [Family(0, b"f")], Durability.OS)
    told.server.tell_time()
    (new,) = told.server.regions_of("new")
    for _ in range(2):
        for region in (other_table(told), new):
            assert put_into(region, told) <= clock.now_ms() + 1
        told.server.drop_table("new")
        told.crash()
        clock.advance(BLOCK_MS)
        told.server.tell_time()
        told.server.create_table("new", [Family(0, b"f")], Durability.OS)
        (new,) = told.server.regions_of("new")
    assert told.server.tell_time("t").now_ms >= ahead


def test_timestamps_that_a_client_sends_or_a_change_reads_move_no_clock(told: Engine, clock: ManualClock) -> None:
    """Not over a flush and a restart either."""
    ahead = clock.now_ms() + 20 * HOUR_MS
    put(told, b"old", ahead)
    seen = Condition((Check(b"f", b"q", operand=b"old"),))
    request = RequestId(b"c" * 16, 1, 1)
    assert told.change(b"r", Put(b"f", b"q", b"new"), condition=seen, request=request).timestamp == ahead
    for end in (told.server.flush, lambda _: told.restart(), lambda _: told.crash()):
        end("t")
        told.server.tell_time()
        assert told.server.tell_time("t").now_ms < clock.now_ms() + BLOCK_MS
        clock.advance(BLOCK_MS)
        assert told.change(b"s", Put(b"f", b"q", b"x")).timestamp == clock.now_ms()
        put(told, b"hidden by what lies ahead")
        assert told.values(b"r") == {b"f:q": b"new"}


def test_a_time_that_is_told_is_taken_also_when_a_clock_was_once_two_days_ahead(
    told: Engine, clock: ManualClock
) -> None:
    clock.set_now_ms(clock.now_ms() + 48 * HOUR_MS)
    put(told, b"by a clock that is wrong")
    clock.set_now_ms(clock.now_ms() - 48 * HOUR_MS)
    for value in (b"1", b"2"):
        time = told.server.tell_time("t", 900)
        put(told, value, time.now_ms + time.reserved_ms)
        assert told.values(b"r") == {b"f:q": value}
        told.bulk(bulk_batch((b"r", b"f", b"q", time.now_ms + time.reserved_ms, b"bulk " + value)))
        assert told.values(b"r") == {b"f:q": b"bulk " + value}
        told.crash()
    assert put(told, b"point") > time.now_ms
    assert told.values(b"r") == {b"f:q": b"point"}


def test_a_client_that_asks_and_writes_in_turns_runs_less_than_a_block_ahead(told: Engine, clock: ManualClock) -> None:
    started_ms = clock.now_ms()
    for _ in range(3 * BLOCK_MS):
        time = told.server.tell_time("t")
        assert time.now_ms < clock.now_ms() + BLOCK_MS
        assert put(told, b"v") > time.now_ms
    assert clock.now_ms() - started_ms < 3 * BLOCK_MS * LEFT_OUT_EVERY_MS // (LEFT_OUT_EVERY_MS - 1)
