"""Ranges of timestamps for clients: they belong to one table, are never refused, and later stamps are later."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.commit.stamps import LEFT_OUT_EVERY_MS
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import TableNotFoundError
from rowlock_regionserver.files import Files
from rowlock_regionserver.operations import Check, Condition, Put, RequestId, RowMutation, RowResult, WriteOptions
from rowlock_regionserver.region.region import Region

from tests.unit.region.conftest import Engine, bulk_batch

HOUR_MS = 3600 * 1000
BLOCK_MS = Config().stamp_leap_ms


@pytest.fixture
def clock() -> ManualClock:
    clock = ManualClock()
    clock.advance(1)  # A millisecond that gives stamps even when they are ahead of the clock.
    return clock


@pytest.fixture
def engine(tmp_path: Path, clock: ManualClock) -> Iterator[Engine]:
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
    region.flush()  # Waits until the put is published.
    (result,) = outcomes
    assert isinstance(result, RowResult)
    return result.timestamp


def test_a_range_for_a_table_is_never_below_a_stamp_of_it(engine: Engine, clock: ManualClock) -> None:
    assert engine.server.timestamp_range("t").now_ms == clock.now_ms()
    stamp = put(engine, b"1")
    clock.set_now_ms(stamp - 5 * HOUR_MS)
    assert engine.server.timestamp_range("t").now_ms == stamp
    put(engine, b"by the server's clock", engine.server.timestamp_range("t").now_ms)
    assert engine.values(b"r") == {b"f:q": b"by the server's clock"}
    engine.crash()
    assert engine.server.timestamp_range("t").now_ms >= stamp
    put(engine, b"stamped")
    put(engine, b"by the clock again", engine.server.timestamp_range("t").now_ms)
    assert engine.values(b"r") == {b"f:q": b"by the clock again"}
    with pytest.raises(TableNotFoundError):
        engine.server.timestamp_range("no such table")


def test_a_write_that_comes_after_a_range_is_later_than_it(engine: Engine, clock: ManualClock) -> None:
    """Also in the same millisecond, and while stamps are ahead of the clock, as after a restart."""
    now_ms = engine.server.timestamp_range("t").now_ms
    assert engine.server.timestamp_range("t").now_ms == engine.server.timestamp_range().now_ms == now_ms, (
        "asking moved the time"
    )
    assert put(engine, b"point") == now_ms + 1
    put(engine, b"a task that is repeated", now_ms)
    assert engine.values(b"r") == {b"f:q": b"point"}
    engine.crash()
    now_ms = engine.server.timestamp_range("t").now_ms
    assert now_ms > clock.now_ms()
    assert put(engine, b"point") == now_ms + 1
    clock.advance(20)
    time = engine.server.timestamp_range("t", 10)
    engine.server.truncate_table("t")
    assert put(engine, b"in a new region") > time.now_ms + time.reserved_ms > now_ms + 10
    clock.advance(HOUR_MS)
    assert put(engine, b"later") == clock.now_ms()


@pytest.mark.parametrize("table", ["t", ""])
def test_stamps_are_later_than_a_reserved_range_also_after_a_crash(
    engine: Engine, clock: ManualClock, table: str
) -> None:
    reserved = engine.server.timestamp_range(table, 500)
    assert (reserved.now_ms, reserved.reserved_ms) == (clock.now_ms(), 500)
    engine.crash()
    assert put(engine, b"point") > reserved.now_ms + 500
    put(engine, b"the job's", reserved.now_ms + 500)
    assert engine.values(b"r") == {b"f:q": b"point"}


@pytest.mark.parametrize("table", ["t", ""])
def test_ranges_end_less_than_a_block_ahead_and_share_no_millisecond(
    engine: Engine, clock: ManualClock, table: str
) -> None:
    times = [engine.server.timestamp_range(table, 400) for _ in range(20)]
    assert [time.reserved_ms for time in times] == [400, 400, 197] + [0] * 17
    assert all(time.now_ms + time.reserved_ms < later.now_ms for time, later in itertools.pairwise(times[:3]))
    assert engine.server.timestamp_range(table).now_ms < clock.now_ms() + BLOCK_MS
    assert engine.region.newest_stamp < clock.now_ms() + BLOCK_MS
    clock.advance(HOUR_MS)
    assert engine.server.timestamp_range(table, 400).reserved_ms == 400


def test_a_range_of_one_table_affects_no_other(engine: Engine, clock: ManualClock) -> None:
    """Nor do stamps that are ahead of the clock, or clients that connect and request the time."""
    engine.server.create_table("other", [Family(0, b"f")], Durability.OS)
    clock.advance(1)
    engine.server.timestamp_range("t", 900)
    engine.server.timestamp_range()
    assert put_into(other_table(engine), engine) <= clock.now_ms() + 1
    clock.set_now_ms(clock.now_ms() + 5 * HOUR_MS)
    ahead = put(engine, b"by a clock that is wrong")
    engine.server.timestamp_range()
    clock.set_now_ms(clock.now_ms() - 5 * HOUR_MS)
    for reserve_ms in (0, 10):
        assert engine.server.timestamp_range("", reserve_ms).now_ms <= clock.now_ms() + 1
    clock.advance(20)
    engine.server.create_table("new", [Family(0, b"f")], Durability.OS)
    engine.server.timestamp_range()
    (new,) = engine.server.regions_of("new")
    for _ in range(2):
        for region in (other_table(engine), new):
            assert put_into(region, engine) <= clock.now_ms() + 1
        engine.server.drop_table("new")
        engine.crash()
        clock.advance(BLOCK_MS)
        engine.server.timestamp_range()
        engine.server.create_table("new", [Family(0, b"f")], Durability.OS)
        (new,) = engine.server.regions_of("new")
    assert engine.server.timestamp_range("t").now_ms >= ahead


def test_timestamps_that_clients_send_or_changes_read_move_no_stamps(engine: Engine, clock: ManualClock) -> None:
    """Not over a flush and a restart either."""
    ahead = clock.now_ms() + 20 * HOUR_MS
    put(engine, b"old", ahead)
    seen = Condition((Check(b"f", b"q", operand=b"old"),))
    request = RequestId(b"c" * 16, 1, 1)
    assert engine.change(b"r", Put(b"f", b"q", b"new"), condition=seen, request=request).timestamp == ahead
    for end in (engine.server.flush, lambda _: engine.restart(), lambda _: engine.crash()):
        end("t")
        engine.server.timestamp_range()
        assert engine.server.timestamp_range("t").now_ms < clock.now_ms() + BLOCK_MS
        clock.advance(BLOCK_MS)
        assert engine.change(b"s", Put(b"f", b"q", b"x")).timestamp == clock.now_ms()
        put(engine, b"hidden by what lies ahead")
        assert engine.values(b"r") == {b"f:q": b"new"}


def test_a_range_is_accepted_also_after_a_clock_was_two_days_ahead(engine: Engine, clock: ManualClock) -> None:
    clock.set_now_ms(clock.now_ms() + 48 * HOUR_MS)
    put(engine, b"by a clock that is wrong")
    clock.set_now_ms(clock.now_ms() - 48 * HOUR_MS)
    for value in (b"1", b"2"):
        time = engine.server.timestamp_range("t", 900)
        put(engine, value, time.now_ms + time.reserved_ms)
        assert engine.values(b"r") == {b"f:q": value}
        engine.bulk(bulk_batch((b"r", b"f", b"q", time.now_ms + time.reserved_ms, b"bulk " + value)))
        assert engine.values(b"r") == {b"f:q": b"bulk " + value}
        engine.crash()
    assert put(engine, b"point") > time.now_ms
    assert engine.values(b"r") == {b"f:q": b"point"}


def test_a_client_that_asks_and_writes_in_turns_runs_less_than_a_block_ahead(
    engine: Engine, clock: ManualClock
) -> None:
    started_ms = clock.now_ms()
    for _ in range(3 * BLOCK_MS):
        time = engine.server.timestamp_range("t")
        assert time.now_ms < clock.now_ms() + BLOCK_MS
        assert put(engine, b"v") > time.now_ms
    assert clock.now_ms() - started_ms < 3 * BLOCK_MS * LEFT_OUT_EVERY_MS // (LEFT_OUT_EVERY_MS - 1)
