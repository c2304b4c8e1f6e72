"""Admission of plain values: each request is answered once, on the loop or after a worker, or refused unread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.point_run import INLINE_PARTS_MAX, INLINE_ROWS_MAX
from rowlock_regionserver.errors import (
    DeadlineError,
    LimitExceededError,
    NotServingRegionError,
    OutOfMemoryError,
    RegionTooBusyError,
    UnknownOutcomeError,
)
from rowlock_regionserver.operations import RowResult

from tests.unit.engine.fakes import REGION_ID, FakeRegion
from tests.unit.engine.plain import FrontEnd, PlainChange, PlainGet

Run = Callable[[Callable[[FrontEnd], Awaitable[None]]], None]


def test_a_get_that_need_not_wait_is_answered_before_the_call_returns(run: Run) -> None:
    async def test(front_end: FrontEnd) -> None:
        request = PlainGet(b"a", b"b")
        front_end.points.get(request, front_end.caller)
        assert request.cells == [[(b"f", b"q", 1, b"v")], [(b"f", b"q", 1, b"v")]]
        assert front_end.caller.sent == [(b"\0", 1)]
        statistics = front_end.points.statistics()
        assert (statistics.in_flight, statistics.accepted_count, statistics.handed_over_count) == (0, 1, 0)

    run(test)


def test_a_change_is_answered_when_it_is_published(run: Run, region: FakeRegion) -> None:
    async def test(front_end: FrontEnd) -> None:
        request = PlainChange(b"later", durability=Durability.FSYNC)
        front_end.points.change(request, front_end.caller)
        assert (front_end.caller.sent, front_end.points.statistics().in_flight) == ([], 1)
        await asyncio.to_thread(region.unpublished[0])
        await front_end.until_answered(1)
        assert request.outcomes == [RowResult(timestamp=5)]
        assert front_end.caller.senders == {threading.get_ident()}, "the loop sends, not the thread that publishes"

    run(test)


def test_a_change_for_a_region_that_was_replaced_is_made_by_the_one_that_has_its_rows(
    run: Run, region: FakeRegion
) -> None:
    async def test(front_end: FrontEnd) -> None:
        asked: list[tuple[int, Sequence[bytes]]] = []

        def successor(region_id: int, rows: Sequence[bytes]) -> FakeRegion | None:
            asked.append((region_id, rows))
            return region if rows == [b"a"] else None

        front_end.points._successor = successor
        for row, gone in ((b"a", REGION_ID + 5), (b"b", REGION_ID + 5), (b"c", REGION_ID)):
            front_end.points.change(PlainChange(row, region_id=gone), front_end.caller)
        assert asked == [(REGION_ID + 5, [b"a"]), (REGION_ID + 5, [b"b"])]
        assert region.begun == [b"a", b"c"]
        assert front_end.caller.answered_count == 3
        get = PlainGet(b"a", region_id=REGION_ID + 5)
        front_end.points.get(get, front_end.caller)
        assert isinstance(get.error, NotServingRegionError)

    run(test)


def test_a_change_is_alone_when_it_came_alone_and_nothing_is_in_flight(run: Run, region: FakeRegion) -> None:
    async def test(front_end: FrontEnd) -> None:
        front_end.points.change(PlainChange(b"a"), front_end.caller)
        front_end.points.change(PlainChange(b"later"), front_end.caller, is_single=True)
        front_end.points.change(PlainChange(b"b"), front_end.caller, is_single=True)
        region.unpublished[0]()
        assert region.alone == [b"later"]

    run(test)


@pytest.mark.parametrize("config", [Config(requests_in_flight_max=1)])
def test_a_request_too_many_is_refused_unread(run: Run, region: FakeRegion) -> None:
    async def test(front_end: FrontEnd) -> None:
        front_end.points.change(PlainChange(b"later"), front_end.caller)
        get, change = PlainGet(b"a"), PlainChange(b"a")
        front_end.points.get(get, front_end.caller)
        front_end.points.change(change, front_end.caller)
        for request in (get, change):
            assert isinstance(request.error, RegionTooBusyError)
            assert request.readers == []
        assert front_end.points.statistics().refused_count == 2
        region.unpublished[0]()

    run(test)


def test_requests_that_would_have_to_wait_are_made_by_workers(run: Run, region: FakeRegion) -> None:
    async def test(front_end: FrontEnd) -> None:
        get, change = PlainGet(b"slow"), PlainChange(b"slow")
        front_end.points.get(get, front_end.caller)
        front_end.points.change(change, front_end.caller)
        assert front_end.caller.sent == []
        assert front_end.ledger.requests.bytes_held > 0
        region.gate.set()
        await front_end.until_answered(2)
        assert get.cells is not None
        assert change.outcomes is not None
        assert front_end.caller.senders == {threading.get_ident()}
        assert front_end.points.statistics().handed_over_count == 2

    run(test)


@pytest.mark.parametrize(
    ("request_", "is_large"),
    [
        (PlainGet(*[b"a"] * (INLINE_ROWS_MAX + 1)), False),
        (PlainGet(b"a"), True),
        (PlainChange(*[b"a"] * (INLINE_ROWS_MAX + 1)), False),
        (PlainChange(b"a", puts=INLINE_PARTS_MAX + 1), False),
        (PlainChange(b"a"), True),
    ],
    ids=["get of many rows", "get of a large message", "many rows", "many parts", "change of a large message"],
)
def test_the_loop_does_not_read_a_long_request(run: Run, request_: PlainGet | PlainChange, is_large: bool) -> None:
    async def test(front_end: FrontEnd) -> None:
        if isinstance(request_, PlainGet):
            front_end.points.get(request_, front_end.caller, is_large=is_large)
        else:
            front_end.points.change(request_, front_end.caller, is_large=is_large)
        await front_end.until_answered(1)
        assert len(request_.readers) == 1
        assert threading.get_ident() not in request_.readers
        assert request_.error is None

    run(test)


def test_a_request_whose_deadline_passes_in_the_queue_never_begins(run: Run, region: FakeRegion) -> None:
    async def test(front_end: FrontEnd) -> None:
        for _ in range(2):
            front_end.points.get(PlainGet(b"slow"), front_end.caller)
            await asyncio.to_thread(region.waiting.acquire)
        by_timer, by_worker = PlainChange(b"slow never", timeout_ms=1), PlainGet(b"slow never", timeout_ms=60_000)
        front_end.points.change(by_timer, front_end.caller)
        front_end.points.get(by_worker, front_end.caller)
        await front_end.until_answered(1)
        assert isinstance(by_timer.error, DeadlineError)
        front_end.clock.advance(60_000)
        region.gate.set()
        await front_end.until_answered(4)
        assert isinstance(by_worker.error, DeadlineError)
        assert b"slow never" not in region.begun

    run(test)


def test_requests_of_a_caller_that_is_gone_do_not_begin(run: Run, region: FakeRegion) -> None:
    async def test(front_end: FrontEnd) -> None:
        for _ in range(2):
            front_end.points.get(PlainGet(b"slow"), front_end.caller)
            await asyncio.to_thread(region.waiting.acquire)
        front_end.points.change(PlainChange(b"slow never"), front_end.caller)
        front_end.caller.is_gone = True
        region.gate.set()
        await front_end.until_answered(3)
        assert b"slow never" not in region.begun

    run(test)


def test_the_error_of_the_region_is_the_answer(run: Run) -> None:
    async def test(front_end: FrontEnd) -> None:
        get, change, bug = PlainGet(b"a", region_id=99), PlainChange(b"a", region_id=99), PlainGet(b"bug")
        front_end.points.get(get, front_end.caller)
        front_end.points.change(change, front_end.caller)
        front_end.points.get(bug, front_end.caller)
        assert isinstance(get.error, NotServingRegionError)
        assert isinstance(change.error, NotServingRegionError)
        assert isinstance(bug.error, ZeroDivisionError)
        assert front_end.caller.answered_count == 3

    run(test)


@pytest.mark.parametrize("row_count", [1, INLINE_ROWS_MAX + 1])
def test_an_answer_that_can_not_be_encoded_is_an_error_and_the_publishing_thread_sees_none(
    run: Run, region: FakeRegion, row_count: int
) -> None:
    async def test(front_end: FrontEnd) -> None:
        request = PlainChange(*[b"later"] * row_count)
        request.answer_bytes = -1
        front_end.points.change(request, front_end.caller)
        while not region.unpublished:
            await asyncio.sleep(0)
        await asyncio.to_thread(region.unpublished[0])
        await front_end.until_answered(1)
        assert isinstance(request.error, MemoryError)

    run(test)


def test_a_get_without_memory_is_refused_and_may_be_repeated(run: Run, region: FakeRegion) -> None:
    """On the loop and in a worker. It was an error of the server of unknown outcome, which no client repeats."""

    async def test(front_end: FrontEnd) -> None:
        gets = [PlainGet(b"large"), PlainGet(b"slow and large")]
        region.gate.set()
        for get in gets:
            front_end.points.get(get, front_end.caller)
        await front_end.until_answered(2)
        assert [type(get.error) for get in gets] == [OutOfMemoryError, OutOfMemoryError]

    run(test)


@pytest.mark.parametrize("config", [Config(request_bytes_max=100)])
def test_an_answer_larger_than_a_message_may_be_is_refused(run: Run) -> None:
    async def test(front_end: FrontEnd) -> None:
        request = PlainGet(b"a")
        request.answer_bytes = 101
        front_end.points.get(request, front_end.caller)
        assert isinstance(request.error, LimitExceededError)

    run(test)


@pytest.mark.parametrize("config", [Config(answer_bytes_held_max=1000, request_bytes_max=1000)])
@pytest.mark.parametrize("row", [b"a", b"slow"])
def test_a_get_whose_answer_has_no_room_is_refused(run: Run, region: FakeRegion, row: bytes) -> None:
    region.gate.set()

    async def test(front_end: FrontEnd) -> None:
        front_end.caller.has_room = False
        request = PlainGet(row)
        request.answer_bytes = 600
        front_end.points.get(request, front_end.caller)
        await front_end.until_answered(1)
        assert isinstance(request.error, RegionTooBusyError)

    run(test)


@pytest.mark.parametrize("config", [Config(answer_bytes_held_max=1000, request_bytes_max=1000)])
def test_a_change_whose_answer_has_no_room_leaves_its_outcome_open(run: Run, region: FakeRegion) -> None:
    async def test(front_end: FrontEnd) -> None:
        request = PlainChange(b"later")
        request.answer_bytes = 600
        front_end.points.change(request, front_end.caller)
        region.unpublished[0]()
        assert isinstance(request.error, UnknownOutcomeError)

    run(test)


@pytest.mark.parametrize("config", [Config(answer_bytes_held_max=1000, request_bytes_max=1000)])
def test_a_worker_begins_nothing_for_a_caller_with_too_many_unread_bytes(run: Run, region: FakeRegion) -> None:
    region.gate.set()

    async def test(front_end: FrontEnd) -> None:
        front_end.caller.unread_bytes = 500
        front_end.ledger.answers.add(1000)
        request = PlainChange(b"slow")
        front_end.points.change(request, front_end.caller)
        await front_end.until_answered(1)
        assert isinstance(request.error, RegionTooBusyError)
        assert region.begun == []
        front_end.ledger.answers.give(1000)

    run(test)
