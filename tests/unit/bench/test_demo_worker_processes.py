"""Worker processes return results in order, and report a failure."""

from __future__ import annotations

import os
import signal
import time
from functools import partial

import psutil
import pytest

from bench.demo.worker_processes import WorkerFailedError, WorkerProcesses


def test_results_are_in_the_order_of_the_jobs() -> None:
    with WorkerProcesses([partial(pow, 2, exponent) for exponent in (3, 1, 2)]) as workers:
        assert workers.results() == [8, 2, 4]
        assert not workers.wait(0)


def test_results_do_not_wait_if_all_are_there() -> None:
    with WorkerProcesses([partial(pow, 2, 3)]) as workers:
        while workers.wait(60.0):
            pass
        start = time.perf_counter()
        assert workers.results() == [8]
        assert time.perf_counter() - start < 50.0  # waiting would take 60


def test_each_job_runs_in_its_own_process() -> None:
    with WorkerProcesses([os.getpid, os.getpid]) as workers:
        assert len({*workers.results(), os.getpid()}) == 3


def test_a_job_that_raises_is_reported_with_its_traceback() -> None:
    with (
        WorkerProcesses([partial(int, "x")]) as workers,
        pytest.raises(WorkerFailedError, match="ValueError: invalid literal"),
    ):
        workers.results()


def test_a_process_that_dies_is_reported() -> None:
    with (
        WorkerProcesses([partial(signal.raise_signal, signal.SIGKILL)]) as workers,
        pytest.raises(WorkerFailedError, match="worker process 0 died"),
    ):
        workers.results()


def test_leaving_the_block_early_kills_the_processes() -> None:
    before = set(psutil.Process().children())
    with WorkerProcesses([signal.pause]) as workers:
        assert workers.wait(0.01)
        [process] = [child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())]
    assert not process.is_running()
    assert process not in before
