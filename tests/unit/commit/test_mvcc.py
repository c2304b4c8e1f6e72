"""Write numbers, read points, and who is told when."""

from __future__ import annotations

import random
import threading

import pytest
from rowlock_regionserver.cells import NEWEST
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.commit.mvcc import PROTECTED_SPANS_MAX, Mvcc
from rowlock_regionserver.errors import UnknownOutcomeError

from tests.invariants import check
from tests.seeds import drawn_seed


def test_write_numbers_ascend_without_a_gap() -> None:
    mvcc = Mvcc(10, ManualClock())
    assert [mvcc.begin() for _ in range(3)] == [11, 12, 13]


def test_read_point_does_not_pass_an_incomplete_write() -> None:
    mvcc = Mvcc(0, ManualClock())
    first, second, third = mvcc.begin(), mvcc.begin(), mvcc.begin()
    mvcc.complete(second)
    mvcc.complete(third)
    assert mvcc.read_point == 0
    mvcc.complete(first)
    assert mvcc.read_point == third


def test_a_waiter_is_told_only_when_the_read_point_has_reached_its_number() -> None:
    mvcc = Mvcc(0, ManualClock())
    first, second = mvcc.begin(), mvcc.begin()
    seen: list[int] = []
    mvcc.when_published(second, lambda _: seen.append(mvcc.read_point))
    mvcc.complete(second)
    assert seen == []
    mvcc.complete(first)
    assert seen == [2]


def test_waiters_are_told_in_the_order_of_their_numbers() -> None:
    mvcc = Mvcc(0, ManualClock())
    numbers = [mvcc.begin() for _ in range(4)]
    told: list[int] = []
    for number in reversed(numbers):
        mvcc.when_published(number, lambda _, number=number: told.append(number))  # type: ignore[misc]
    for number in reversed(numbers):
        mvcc.complete(number)
    assert told == numbers


def test_who_fails_when_told_keeps_nobody_from_being_told_and_who_completes_hears_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    mvcc = Mvcc(0, ManualClock())
    number = mvcc.begin()
    told: list[object] = []

    def fail(_: object) -> None:
        raise ZeroDivisionError("a bug in an answer")

    mvcc.when_published(number, fail)
    mvcc.when_published(number, told.append)
    mvcc.complete(number)
    assert told == [None]
    assert mvcc.read_point == number
    assert "a bug in an answer" in caplog.text


def test_waiting_for_what_is_published_is_told_at_once() -> None:
    mvcc = Mvcc(7, ManualClock())
    told: list[object] = []
    mvcc.when_published(7, told.append)
    assert told == [None]


def test_completing_twice_is_a_fault() -> None:
    mvcc = Mvcc(0, ManualClock())
    mvcc.complete(mvcc.begin())
    with pytest.raises(AssertionError):
        mvcc.complete(1)


def test_after_a_failure_everybody_who_waits_is_told_unknown_outcome() -> None:
    mvcc = Mvcc(0, ManualClock())
    number = mvcc.begin()
    told: list[UnknownOutcomeError | None] = []
    mvcc.when_published(number, told.append)
    failure = UnknownOutcomeError("lost")
    mvcc.fail(failure)
    mvcc.when_published(number, told.append)
    assert told == [failure, failure]
    with pytest.raises(UnknownOutcomeError):
        mvcc.wait_until_published(number)


def test_what_was_published_before_a_failure_is_still_told_as_published() -> None:
    mvcc = Mvcc(0, ManualClock())
    mvcc.complete(mvcc.begin())
    mvcc.fail(UnknownOutcomeError("lost"))
    mvcc.wait_until_published(1)


def test_a_registered_read_point_is_one_that_may_be_read_at() -> None:
    mvcc = Mvcc(5, ManualClock())
    with mvcc.reading() as read_point:
        mvcc.complete(mvcc.begin())
        assert read_point.write_number == 5
        assert mvcc.protected_read_points() == ((5, 5), (6, NEWEST))
        with mvcc.reading() as later:
            assert later.write_number == 6
            assert mvcc.protected_read_points() == ((5, 5), (6, NEWEST))
            mvcc.complete(mvcc.begin())
            assert mvcc.protected_read_points() == ((5, 5), (6, 6), (7, NEWEST))
    assert mvcc.protected_read_points() == ((7, NEWEST),)


def test_of_many_read_points_neighbours_are_put_together() -> None:
    mvcc = Mvcc(0, ManualClock())
    for _ in range(100):
        mvcc.open_read_point()
        mvcc.complete(mvcc.begin())
    spans = mvcc.protected_read_points()
    assert spans[-1] == (100, NEWEST)
    assert len(spans) <= PROTECTED_SPANS_MAX
    assert all(sum(first <= number <= last for first, last in spans) == 1 for number in range(101))


def test_a_read_point_carries_the_time_it_was_opened_at() -> None:
    clock = ManualClock(now_ms=123)
    with Mvcc(0, clock).reading() as read_point:
        clock.advance(1000)
        assert read_point.now_ms == 123


def test_the_read_point_only_ever_goes_forward_under_random_completion() -> None:
    seed = drawn_seed()
    choice = random.Random(seed)
    mvcc = Mvcc(0, ManualClock())
    unfinished: list[int] = []
    before = 0
    for _ in range(2000):
        if choice.random() < 0.5 or not unfinished:
            unfinished.append(mvcc.begin())
        else:
            mvcc.complete(unfinished.pop(choice.randrange(len(unfinished))))
        check(mvcc)
        assert mvcc.read_point == (min(unfinished) - 1 if unfinished else mvcc.last)
        assert mvcc.read_point >= before
        before = mvcc.read_point


def test_waiting_blocks_until_another_thread_completes() -> None:
    mvcc = Mvcc(0, ManualClock())
    number = mvcc.begin()
    waiter = threading.Thread(target=mvcc.wait_until_published, args=(number,))
    waiter.start()
    while mvcc.statistics().waiters == 0:
        threading.Event().wait(0.001)
    assert waiter.is_alive()
    mvcc.complete(number)
    waiter.join(60)
    assert not waiter.is_alive()


def test_a_read_point_can_be_opened_again_only_while_it_is_registered() -> None:
    mvcc = Mvcc(5, ManualClock())
    first = mvcc.open_read_point()
    mvcc.complete(mvcc.begin())
    mvcc.reopen_read_point(first)
    mvcc.close_read_point(first)
    assert mvcc.protected_read_points() == ((5, 5), (6, NEWEST))
    mvcc.close_read_point(first)
    assert mvcc.protected_read_points() == ((6, NEWEST),)
    with pytest.raises(AssertionError, match="not registered"):
        mvcc.reopen_read_point(first)
