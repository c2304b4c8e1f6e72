"""Processes beside a job: asked by lines, failing with their reason, reading at a steady pace."""

from __future__ import annotations

import sys
import threading

import pytest

from bench.side_process import SideProcess, SideProcessError
from bench.spark.point_reader import PacedCalls

_SERVES = """
from bench.side_process import serve

def wrong():
    raise LookupError("no such row")

def gone():
    raise SystemExit(3)

serve({"count": lambda: {"count": 3}, "wrong": wrong, "gone": gone})
"""


def _command() -> list[str]:
    return [sys.executable, "-c", _SERVES]


def test_questions_are_answered_in_order_and_a_mistake_is_an_answer(capfd: pytest.CaptureFixture[str]) -> None:
    with SideProcess(_command()) as process:
        assert process.call("count") == {"count": 3}
        with pytest.raises(SideProcessError, match="LookupError: no such row"):
            process.call("wrong")
        assert process.call("count") == {"count": 3}
    assert "Traceback" in capfd.readouterr().err


def test_a_process_that_ends_is_told_of() -> None:
    with SideProcess(_command()) as process:
        with pytest.raises(SideProcessError, match="ended during the command 'gone'"):
            process.call("gone")
        with pytest.raises(SideProcessError, match="ended"):
            process.call("count")


def test_every_call_counts_with_what_it_took() -> None:
    calls = 0
    enough = threading.Event()
    never = threading.Event()

    def operation() -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            never.wait(0.2)
        if calls == 5:
            enough.set()

    paced = PacedCalls(operation, pause_seconds=0.001)
    paced.begin()
    assert enough.wait(60)
    taken = paced.end()
    assert len(taken) == calls >= 5
    assert taken[1] >= 0.19


def test_what_a_call_raises_is_raised_at_the_end_and_it_can_begin_anew() -> None:
    was_called = threading.Event()
    failures = [LookupError("no such row")]

    def operation() -> None:
        was_called.set()
        if failures:
            raise failures.pop()

    paced = PacedCalls(operation, pause_seconds=0.001)
    paced.begin()
    assert was_called.wait(60)
    with pytest.raises(LookupError, match="no such row"):
        paced.end()
    was_called.clear()
    paced.begin()
    assert was_called.wait(60)
    assert paced.end()
