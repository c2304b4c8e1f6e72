"""Write numbers, read points, and when waiters are notified."""

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
from tests.waiting import WAIT_S


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


def test_a_waiter_is_notified_only_when_the_read_point_has_reached_its_number() -> None:
    mvcc = Mvcc(0, ManualClock())
    first, second = mvcc.begin(), mvcc.begin()
    seen: list[int] = []
    mvcc.when_published(second, lambda _: seen.append(mvcc.read_point))
    mvcc.complete(second)
    assert seen == []
    mvcc.complete(first)
    assert seen == [2]


def test_waiters_are_notified_in_the_order_of_their_numbers() -> None:
    mvcc = Mvcc(0, ManualClock())
    numbers = [mvcc.begin() for _ in range(4)]
    notified: list[int] = []
    for number in reversed(numbers):
        mvcc.when_published(number, lambda _, number=number: notified.append(number))  # type: ignore[misc]
    for number in reversed(numbers):
        mvcc.complete(number)
    assert notified == numbers


def test_a_waiter_that_raises_stops_neither_the_other_waiters_nor_the_completing_thread(
    caplog: pytest.LogCaptureFixture,
) -> None:
    mvcc = Mvcc(0, ManualClock())
    number = mvcc.begin()
    notified: list[object] = []

    def fail(_: object) -> None:
        raise ZeroDivisionError("a bug in a waiter")

    mvcc.when_published(number, fail)
    mvcc.when_published(number, notified.append)
    mvcc.complete(number)
    assert notified == [None]
    assert mvcc.read_point == number
    assert "a bug in a waiter" in caplog.text


def test_a_waiter_for_a_published_number_is_notified_at_once() -> None:
    mvcc = Mvcc(7, ManualClock())
    notified: list[object] = []
    mvcc.when_published(7, notified.append)
    assert notified == [None]


def test_completing_a_number_twice_fails_an_assertion() -> None:
    mvcc = Mvcc(0, ManualClock())
    mvcc.complete(mvcc.begin())
    with pytest.raises(AssertionError):
        mvcc.complete(1)


def test_after_a_failure_all_waiters_get_unknown_outcome() -> None:
    mvcc = Mvcc(0, ManualClock())
    number = mvcc.begin()
    notified: list[UnknownOutcomeError | None] = []
    mvcc.when_published(number, notified.append)
    failure = UnknownOutcomeError("lost")
    mvcc.fail(failure)
    mvcc.when_published(number, notified.append)
    assert notified == [failure, failure]
    with pytest.raises(UnknownOutcomeError):
        mvcc.wait_until_published(number)


def test_a_write_that_was_published_before_a_failure_stays_published() -> None:
    mvcc = Mvcc(0, ManualClock())
    mvcc.complete(mvcc.begin())
    mvcc.fail(UnknownOutcomeError("lost"))
    mvcc.wait_until_published(1)


def test_a_registered_read_point_is_protected() -> None:
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


def test_neighbours_of_many_read_points_are_merged() -> None:
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


def test_the_oldest_time_is_that_of_the_first_reader_that_is_still_there() -> None:
    clock = ManualClock(now_ms=100)
    mvcc = Mvcc(5, clock)
    first = mvcc.open_read_point()
    clock.advance(10)
    second = mvcc.open_read_point()  # at the same write number
    mvcc.reopen_read_point(first)
    clock.advance(10)
    assert mvcc.oldest_now_ms() == 100
    mvcc.close_read_point(first)
    assert mvcc.oldest_now_ms() == 100
    mvcc.close_read_point(first)
    assert mvcc.oldest_now_ms() == 110
    mvcc.close_read_point(second)
    assert mvcc.oldest_now_ms() == 120


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
    waiter.join(WAIT_S)
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
