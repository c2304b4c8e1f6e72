"""A crew of processes answers in order, and tells what befell one of them."""

from __future__ import annotations

import os
import signal
import time
from functools import partial

import psutil
import pytest

from bench.demo.crew import Crew, CrewFailedError


def test_answers_come_in_the_order_of_the_pieces() -> None:
    with Crew([partial(pow, 2, exponent) for exponent in (3, 1, 2)]) as crew:
        assert crew.answers() == [8, 2, 4]
        assert not crew.at_work(0)


def test_answers_are_not_waited_for_when_all_are_there() -> None:
    with Crew([partial(pow, 2, 3)]) as crew:
        while crew.at_work(60.0):
            pass
        asked = time.perf_counter()
        assert crew.answers() == [8]
        assert time.perf_counter() - asked < 50.0  # Waiting would take 60.


def test_the_pieces_run_in_processes_of_their_own() -> None:
    with Crew([os.getpid, os.getpid]) as crew:
        assert len({*crew.answers(), os.getpid()}) == 3


def test_a_piece_that_raises_is_told_with_its_traceback() -> None:
    with Crew([partial(int, "x")]) as crew, pytest.raises(CrewFailedError, match="ValueError: invalid literal"):
        crew.answers()


def test_a_process_that_dies_is_missed() -> None:
    with (
        Crew([partial(signal.raise_signal, signal.SIGKILL)]) as crew,
        pytest.raises(CrewFailedError, match="process 0 of the crew died"),
    ):
        crew.answers()


def test_leaving_early_ends_the_processes() -> None:
    before = set(psutil.Process().children())
    with Crew([signal.pause]) as crew:
        assert crew.at_work(0.01)
        [process] = [child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())]
    assert not process.is_running()
    assert process not in before
