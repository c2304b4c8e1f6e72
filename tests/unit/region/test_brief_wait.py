"""A brief wait delivers its outcome once: in the waiting thread, or, after the wait, in the thread that sets it."""

from __future__ import annotations

import threading

import pytest
from rowlock_regionserver.region.mutate import brief_wait
from rowlock_regionserver.region.mutate.brief_wait import BriefWait

from tests.waiting import WAIT_S

Done = list[tuple[str, threading.Thread]]


def waiting(done: Done) -> BriefWait[str]:
    return BriefWait(lambda outcome: done.append((outcome, threading.current_thread())))


def test_an_outcome_that_arrived_earlier_is_delivered_by_the_waiting_thread() -> None:
    done: Done = []
    wait = waiting(done)
    thread = threading.Thread(target=wait.set_outcome, args=("yes",))
    thread.start()
    thread.join()
    assert done == []
    wait.end()
    assert done == [("yes", threading.current_thread())]


def test_an_outcome_that_arrives_during_the_wait_is_delivered_by_the_waiting_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(brief_wait, "WAIT_SECONDS", WAIT_S)
    done: Done = []
    wait = waiting(done)
    thread = threading.Thread(target=wait.set_outcome, args=("yes",))
    thread.start()
    wait.end()
    thread.join()
    assert done == [("yes", threading.current_thread())]


def test_an_outcome_that_arrives_too_late_is_delivered_by_the_thread_that_sets_it() -> None:
    done: Done = []
    wait = waiting(done)
    wait.end()
    assert done == []
    thread = threading.Thread(target=wait.set_outcome, args=("late",))
    thread.start()
    thread.join()
    assert done == [("late", thread)]


def test_the_wait_is_no_longer_than_the_limit() -> None:
    done: Done = []
    wait = waiting(done)
    timeouts: list[float] = []

    class NoOutcome:
        def acquire(self, *, timeout: float) -> bool:
            timeouts.append(timeout)
            return False

    wait._arrived = NoOutcome()  # type: ignore[assignment]
    wait.end()
    assert timeouts == [brief_wait.WAIT_SECONDS]
    wait.set_outcome("late")
    assert done == [("late", threading.current_thread())]
