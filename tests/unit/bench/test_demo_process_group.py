"""A group of processes answers in order, and tells what befell one of them."""

from __future__ import annotations

import os
import signal
import time
from functools import partial

import psutil
import pytest

from bench.demo.process_group import ProcessFailedError, ProcessGroup


def test_answers_come_in_the_order_of_the_pieces() -> None:
    with ProcessGroup([partial(pow, 2, exponent) for exponent in (3, 1, 2)]) as group:
        assert group.answers() == [8, 2, 4]
        assert not group.at_work(0)


def test_answers_are_not_waited_for_when_all_are_there() -> None:
    with ProcessGroup([partial(pow, 2, 3)]) as group:
        while group.at_work(60.0):
            pass
        asked = time.perf_counter()
        assert group.answers() == [8]
        assert time.perf_counter() - asked < 50.0  # Waiting would take 60.


def test_the_pieces_run_in_processes_of_their_own() -> None:
    with ProcessGroup([os.getpid, os.getpid]) as group:
        assert len({*group.answers(), os.getpid()}) == 3


def test_a_piece_that_raises_is_told_with_its_traceback() -> None:
    with (
        ProcessGroup([partial(int, "x")]) as group,
        pytest.raises(ProcessFailedError, match="ValueError: invalid literal"),
    ):
        group.answers()


def test_a_process_that_dies_is_missed() -> None:
    with (
        ProcessGroup([partial(os._exit, 9)]) as group,
        pytest.raises(ProcessFailedError, match="process 0 of the group died"),
    ):
        group.answers()


def test_leaving_early_ends_the_processes() -> None:
    before = set(psutil.Process().children())
    with ProcessGroup([signal.pause]) as group:
        assert group.at_work(0.01)
        [process] = [child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())]
    assert not process.is_running()
    assert process not in before
