"""Coalesced puts of plain values: one call of the region, one answer, and each put its own outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.coalesced_changes import COALESCED_CHANGES_MAX, CoalescedChanges
from rowlock_regionserver.errors import NotServingRegionError, RegionTooBusyError
from rowlock_regionserver.operations import RowOutcome, RowResult

from tests.unit.engine.fakes import REGION_ID, FakeRegion
from tests.unit.engine.plain import Caller, FrontEnd, PlainChange

Run = Callable[[Callable[[FrontEnd], Awaitable[None]]], None]


def one_answer(requests: Sequence[PlainChange], outcomes: Sequence[RowOutcome]) -> bytes:
    for request, outcome in zip(requests, outcomes, strict=True):
        request.outcomes = [outcome]
    return b"together"


def no_answer(requests: Sequence[PlainChange], outcomes: Sequence[RowOutcome]) -> None:
    """Refuses to encode."""


def send(front_end: FrontEnd, *requests: PlainChange) -> Sequence[PlainChange]:
    puts = CoalescedChanges(front_end.points, one_answer)
    for request in requests:
        assert puts.join(request, front_end.caller)
    puts.make()
    return requests


def timestamps(requests: Sequence[PlainChange]) -> list[int]:
    return [outcome.timestamp for each in requests for outcome in each.outcomes or () if isinstance(outcome, RowResult)]


def test_puts_that_joined_are_made_in_one_call_and_sent_as_one_answer(run: Run, region: FakeRegion) -> None:
    async def test(front_end: FrontEnd) -> None:
        requests = send(front_end, *(PlainChange(row) for row in (b"later a", b"later b", b"later c")))
        assert region.changed_together == [[b"later a", b"later b", b"later c"]]
        assert front_end.points.statistics().in_flight == 3
        await asyncio.to_thread(region.unpublished[0])
        await front_end.until_answered(3)
        assert front_end.caller.sent == [(b"together", 3)]
        assert timestamps(requests) == [5, 6, 7]

    run(test)


def test_a_change_of_several_rows_does_not_join(run: Run, region: FakeRegion) -> None:
    async def test(front_end: FrontEnd) -> None:
        puts = CoalescedChanges(front_end.points, one_answer)
        assert not puts.join(PlainChange(b"a", b"b"), front_end.caller)
        puts.make()
        assert region.changed == []

    run(test)


def test_one_put_without_neighbours_is_made_like_any_other_change(run: Run, region: FakeRegion) -> None:
    async def test(front_end: FrontEnd) -> None:
        (request,) = send(front_end, PlainChange(b"a"))
        assert front_end.caller.sent == [(b"\0", 1)]
        assert timestamps([request]) == [5]

    run(test)


def test_puts_of_another_region_or_durability_are_made_apart(run: Run, region: FakeRegion) -> None:
    region.neighbour = neighbour = FakeRegion()

    async def test(front_end: FrontEnd) -> None:
        send(
            front_end,
            PlainChange(b"a"),
            PlainChange(b"b"),
            PlainChange(b"c", region_id=REGION_ID + 1),
            PlainChange(b"d", durability=Durability.FSYNC),
            PlainChange(b"e", durability=Durability.FSYNC),
        )
        assert region.changed_together == [[b"a", b"b"], [b"d", b"e"]]
        assert neighbour.changed_together == [[b"c"]]

    run(test)


def test_no_more_than_the_bound_are_made_in_one_call(run: Run, region: FakeRegion) -> None:
    async def test(front_end: FrontEnd) -> None:
        send(front_end, *(PlainChange(b"row") for _ in range(COALESCED_CHANGES_MAX + 2)))
        assert [len(rows) for rows in region.changed_together] == [COALESCED_CHANGES_MAX, 2]

    run(test)


def test_when_one_would_have_to_wait_the_others_do_not(run: Run, region: FakeRegion) -> None:
    async def test(front_end: FrontEnd) -> None:
        requests = send(front_end, PlainChange(b"a"), PlainChange(b"slow"), PlainChange(b"b"))
        assert front_end.caller.answered_count == 2
        region.gate.set()
        await front_end.until_answered(3)
        assert timestamps(requests) == [5, 5, 5]

    run(test)


def test_if_the_region_refuses_them_together_each_gets_its_own_answer(run: Run, region: FakeRegion) -> None:
    async def test(front_end: FrontEnd) -> None:
        made, refused = send(front_end, PlainChange(b"a"), PlainChange(b"full"))
        assert timestamps([made]) == [5]
        assert isinstance(refused.error, RegionTooBusyError)
        elsewhere = send(front_end, PlainChange(b"a", region_id=99), PlainChange(b"b", region_id=99))
        assert all(isinstance(request.error, NotServingRegionError) for request in elsewhere)

    run(test)


@pytest.mark.parametrize("config", [Config(requests_in_flight_max=1)])
def test_more_than_may_be_in_flight_are_made_one_by_one(run: Run, region: FakeRegion) -> None:
    async def test(front_end: FrontEnd) -> None:
        first, second = send(front_end, PlainChange(b"later"), PlainChange(b"b"))
        assert isinstance(second.error, RegionTooBusyError)
        region.unpublished[0]()
        assert timestamps([first]) == [5]

    run(test)


def test_a_bug_is_the_answer_of_each(run: Run) -> None:
    async def test(front_end: FrontEnd) -> None:
        requests = send(front_end, PlainChange(b"a"), PlainChange(b"bug"))
        assert all(isinstance(request.error, ZeroDivisionError) for request in requests)

    run(test)


@pytest.mark.parametrize("has_cells", [True, False])
def test_without_a_joint_answer_each_is_answered_by_itself(run: Run, region: FakeRegion, has_cells: bool) -> None:
    region.results = ((b"f", b"q", 1, bytes(5000)),) if has_cells else ()

    async def test(front_end: FrontEnd) -> None:
        puts = CoalescedChanges(front_end.points, one_answer if has_cells else no_answer)
        requests = [PlainChange(b"a"), PlainChange(b"b")]
        for request in requests:
            assert puts.join(request, front_end.caller)
        puts.make()
        assert front_end.caller.sent == [(b"\0", 1), (b"\0", 1)]
        assert timestamps(requests) == [5, 6]

    run(test)


def test_each_of_several_callers_gets_its_own_answers(run: Run, region: FakeRegion) -> None:
    async def test(front_end: FrontEnd) -> None:
        other = Caller()
        puts = CoalescedChanges(front_end.points, one_answer)
        requests = [PlainChange(b"a"), PlainChange(b"b"), PlainChange(b"c")]
        for request, caller in zip(requests, (front_end.caller, other, front_end.caller), strict=True):
            assert puts.join(request, caller)
        puts.make()
        assert region.changed_together == [[b"a", b"b", b"c"]]
        assert front_end.caller.sent == [(b"\0", 1), (b"\0", 1)]
        assert other.sent == [(b"\0", 1)]
        assert timestamps(requests) == [5, 6, 7]

    run(test)
