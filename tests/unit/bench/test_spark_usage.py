"""What a job cost is counted over all processes that took part in it, and compared round by round."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from bench.measure import Spread
from bench.spark.usage import Meter, Trees, Usage, details, in_turns, ratio, turns

_COMPUTES = "import time\nwhile time.process_time() < {seconds}: pass\n"
# Ignores the end of its children, as PySpark's daemon does. A child computes, lives until it is told, and is gone.
_PARENT = f"""
import signal, subprocess, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
child = subprocess.Popen(
    [sys.executable, '-c', {_COMPUTES.format(seconds=0.5)!r} + 'print("computed", flush=True); input()'],
    stdin=subprocess.PIPE,
)
sys.stdin.readline()
child.kill()
child.wait()
print('gone', flush=True)
sys.stdin.read()
"""


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[str]]:
    """A process with a child that has computed for half a second."""
    command = [sys.executable, "-c", _PARENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


def _said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _end_child(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert _said(process) == "gone"


def test_what_a_process_computed_before_is_not_counted_also_when_it_ends(parent: subprocess.Popen[str]) -> None:
    assert _said(parent) == "computed"
    with Trees(parent.pid) as trees:
        _end_child(parent)
    [seconds] = trees.seconds
    assert 0 <= seconds < 0.4


def test_what_a_process_computes_counts_also_when_nobody_waits_for_it(parent: subprocess.Popen[str]) -> None:
    with Trees(parent.pid) as trees:
        assert _said(parent) == "computed"
        trees.sample()
        _end_child(parent)
    [seconds] = trees.seconds
    assert seconds >= 0.4


def test_this_process_counts_for_spark_and_the_server_for_itself(parent: subprocess.Popen[str]) -> None:
    assert _said(parent) == "computed"

    def compute() -> None:
        begin = os.times().user
        while os.times().user < begin + 0.3:
            pass

    used = Meter(java_pid=parent.pid, server_pid=parent.pid).usage(compute)
    assert used.spark_cpu >= 0.2
    assert used.server_cpu < 0.2
    assert used.wall > 0


class _CountedMeter(Meter):
    """Says what it was asked to measure, and that the n-th job took n seconds."""

    def __init__(self) -> None:
        self.count = 0

    def usage(self, job: object) -> Usage:
        assert callable(job)
        job()
        self.count += 1
        return Usage(self.count, self.count * 2, self.count * 3)


def test_jobs_take_turns_and_the_first_round_does_not_count() -> None:
    done: list[str] = []
    jobs = {name: (lambda name=name: done.append(name)) for name in "abc"}
    measured = in_turns(_CountedMeter(), jobs, rounds=2, warm_up_rounds=1)
    assert "".join(done) == "abcbcacab"
    assert {name: [usage.wall for usage in usages] for name, usages in measured.items()} == {
        "a": [6, 8],
        "b": [4, 9],
        "c": [5, 7],
    }


def test_turns_give_what_each_measure_returns() -> None:
    numbers = iter(range(10))
    assert turns({name: lambda: next(numbers) for name in "ab"}, rounds=2, warm_up_rounds=1) == {
        "a": [3, 4],
        "b": [2, 5],
    }


def test_ratios_are_of_the_same_round() -> None:
    ours, baseline = [Usage(2, 8, 1), Usage(9, 2, 1)], [Usage(1, 2, 0), Usage(3, 4, 0)]
    assert ratio(ours, baseline, lambda used: used.wall) == Spread(2.5, 2, 3)
    assert ratio(ours, baseline, lambda used: used.spark_cpu) == Spread(2.25, 0.5, 4)
    with pytest.raises(ValueError, match="shorter"):
        ratio(ours, baseline[:1], lambda used: used.wall)


def test_each_quantity_is_told_by_its_name() -> None:
    told = details("rowlock", [Usage(1, 2, 3)])
    assert told == {
        "rowlock, s": Spread(1, 1, 1),
        "rowlock, Spark's CPU s": Spread(2, 2, 2),
        "rowlock, server's CPU s": Spread(3, 3, 3),
    }
    assert Usage(1, 2, 3).all_cpu == 5
