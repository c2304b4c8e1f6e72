"""A brief wait gives its outcome once: in the thread that waits, or, when that has gone, in the one that tells."""

from __future__ import annotations

import threading

import pytest
from rowlock_regionserver.region.mutate import brief_wait
from rowlock_regionserver.region.mutate.brief_wait import BriefWait

WAIT_S = 120.0
Done = list[tuple[str, threading.Thread]]


def waiting(done: Done) -> BriefWait[str]:
    return BriefWait(lambda outcome: done.append((outcome, threading.current_thread())))


def test_an_outcome_that_came_before_is_given_by_the_thread_that_waits() -> None:
    done: Done = []
    wait = waiting(done)
    thread = threading.Thread(target=wait.told, args=("yes",))
    thread.start()
    thread.join()
    assert done == []
    wait.end()
    assert done == [("yes", threading.current_thread())]


def test_an_outcome_that_comes_while_it_waits_is_given_by_the_thread_that_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(brief_wait, "WAIT_SECONDS", WAIT_S)
    done: Done = []
    wait = waiting(done)
    thread = threading.Thread(target=wait.told, args=("yes",))
    thread.start()
    wait.end()
    thread.join()
    assert done == [("yes", threading.current_thread())]


def test_an_outcome_that_comes_too_late_is_given_by_the_thread_that_tells() -> None:
    done: Done = []
    wait = waiting(done)
    wait.end()
    assert done == []
    thread = threading.Thread(target=wait.told, args=("late",))
    thread.start()
    thread.join()
    assert done == [("late", thread)]
