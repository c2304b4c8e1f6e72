"""Processes beside a job: asked by lines, failing with their reason, reading at a steady pace."""

from __future__ import annotations

import sys
import threading

import pytest

from bench.measure import percentile
from bench.spark.attendant import Attendant, AttendantError
from bench.spark.point_reader import PacedCalls

_SERVES = """
from bench.spark.attendant import serve

def wrong():
    raise LookupError("no such row")

def gone():
    raise SystemExit(3)

serve({"count": lambda: {"count": 3}, "wrong": wrong, "gone": gone})
"""


def _command() -> list[str]:
    return [sys.executable, "-c", _SERVES]


def test_questions_are_answered_in_order_and_a_mistake_is_an_answer(capfd: pytest.CaptureFixture[str]) -> None:
    with Attendant(_command()) as attendant:
        assert attendant.ask("count") == {"count": 3}
        with pytest.raises(AttendantError, match="LookupError: no such row"):
            attendant.ask("wrong")
        assert attendant.ask("count") == {"count": 3}
    assert "Traceback" in capfd.readouterr().err


def test_a_process_that_ends_is_told_of() -> None:
    with Attendant(_command()) as attendant:
        with pytest.raises(AttendantError, match="ended when it was asked to gone"):
            attendant.ask("gone")
        with pytest.raises(AttendantError, match="ended"):
            attendant.ask("count")


def test_a_call_that_had_to_wait_counts_from_when_it_was_due() -> None:
    go_on = threading.Event()
    calls = 0
    enough = threading.Event()

    def operation() -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            threading.Timer(0.2, go_on.set).start()
            go_on.wait()
        if calls == 20:
            enough.set()

    paced = PacedCalls(operation, calls_a_second=1000)
    paced.begin()
    assert enough.wait(60)
    taken = paced.end()
    # The first stood still for 0.2 s; so the second, due 1 ms later, was late by nearly as much, and so on.
    assert taken[0] >= 0.19
    assert taken[1] >= 0.18
    assert percentile(taken[:20], 50) > 0.1


def test_what_a_call_raises_is_raised_at_the_end_and_it_can_begin_anew() -> None:
    was_called = threading.Event()
    failures = [LookupError("no such row")]

    def operation() -> None:
        was_called.set()
        if failures:
            raise failures.pop()

    paced = PacedCalls(operation, calls_a_second=1000)
    paced.begin()
    assert was_called.wait(60)
    with pytest.raises(LookupError, match="no such row"):
        paced.end()
    was_called.clear()
    paced.begin()
    assert was_called.wait(60)
    assert paced.end()
