"""Slow calls: one line for each, one a second at most, and none for calls that are quick or when it is switched off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.coalesced_changes import CoalescedChanges
from rowlock_regionserver.engine.slow_calls import SlowCalls
from rowlock_regionserver.errors import NotServingRegionError

from tests.unit.engine.fakes import REGION_ID, FakeRegion
from tests.unit.engine.plain import FrontEnd, PlainChange

Run = Callable[[Callable[[FrontEnd], Awaitable[None]]], None]


def slow_calls(clock: ManualClock, slow_call_ms: int = 500) -> SlowCalls:
    return SlowCalls(lambda region_id: f"t{region_id}", Config(slow_call_ms=slow_call_ms), clock)


def test_a_call_is_slow_when_it_takes_longer_than_the_setting() -> None:
    clock = ManualClock()
    calls, never, began = slow_calls(clock), slow_calls(clock, 0), clock.monotonic()
    clock.advance(499)
    assert not calls.is_slow(began)
    clock.advance(2)
    assert calls.is_slow(began)
    clock.advance(10**9)
    assert not never.is_slow(began)


def test_a_slow_call_is_a_line_with_its_time_rows_region_and_table(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    calls, began = slow_calls(clock), clock.monotonic()
    clock.advance(1500)
    calls.log(began, "get", 3, 2)
    clock.advance(1000)
    calls.log(began, "step of a scan", 4)
    assert caplog.messages == [
        "slow get of 2 rows in region 3 of table 't3': 1.5 s",
        "slow step of a scan in region 4 of table 't4': 2.5 s",
    ]


def test_there_is_one_line_a_second_and_it_counts_the_others(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    calls, began = slow_calls(clock), clock.monotonic()
    for milliseconds in (0, 400, 400, 400):
        clock.advance(milliseconds)
        calls.log(began, "get", 3, 1)
    assert [message.partition(" (")[2] for message in caplog.messages] == [
        "",
        "and 2 other slow calls since the last line)",
    ]


def test_a_region_that_is_gone_has_no_table_in_the_line(caplog: pytest.LogCaptureFixture) -> None:
    def table_of(region_id: int) -> str:
        raise NotServingRegionError(f"region {region_id} is not here")

    clock = ManualClock()
    SlowCalls(table_of, Config(), clock).log(clock.monotonic(), "get", 3)
    assert caplog.messages == ["slow get in region 3: 0.0 s"]


def test_a_change_that_is_published_late_is_logged(
    run: Run, region: FakeRegion, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(front_end: FrontEnd) -> None:
        front_end.points.change(PlainChange(b"quick"), front_end.caller)
        front_end.points.change(PlainChange(b"later"), front_end.caller)
        front_end.clock.advance(Config().slow_call_ms + 100)
        region.unpublished[0]()
        await front_end.until_answered(2)

    run(test)
    assert caplog.messages == [f"slow change of 1 row in region {REGION_ID} of table 't': 10.1 s"]


def test_coalesced_changes_that_are_published_late_are_logged(
    run: Run, region: FakeRegion, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(front_end: FrontEnd) -> None:
        puts = CoalescedChanges[PlainChange](front_end.points, lambda requests, outcomes: b"answers")
        for row in (b"later 1", b"later 2"):
            assert puts.join(PlainChange(row), front_end.caller)
        puts.make()
        front_end.clock.advance(Config().slow_call_ms + 100)
        for publish in list(region.unpublished):
            publish()
        await front_end.until_answered(2)
        await asyncio.sleep(0)

    run(test)
    assert caplog.messages == [f"slow changes of 2 rows in region {REGION_ID} of table 't': 10.1 s"]
