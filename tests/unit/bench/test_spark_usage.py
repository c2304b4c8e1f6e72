"""What a job cost is counted over all processes that took part in it, and compared round by round."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from bench.measure import Spread
from bench.spark.usage import Meter, Usage, details, in_turns, ratio, tree_seconds

_COMPUTES = "import time\nwhile time.process_time() < 0.3: pass\n"
# A process that computes in a child, waits for it, says so, and lives on.
_PARENT = (
    f"import subprocess, sys; subprocess.run([sys.executable, '-c', {_COMPUTES!r}], check=True); "
    "print('done', flush=True); sys.stdin.read()"
)


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", _PARENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        yield process


def test_what_children_computed_counts_also_when_they_have_ended(parent: subprocess.Popen[str]) -> None:
    assert psutil.Process(parent.pid).children() == []
    assert tree_seconds(parent.pid) >= 0.3


def test_this_process_counts_for_spark_and_the_server_for_itself(parent: subprocess.Popen[str]) -> None:
    java = psutil.Process(parent.pid)

    def compute() -> None:
        begin = os.times().user
        while os.times().user < begin + 0.2:
            pass

    used = Meter(java_pid=java.pid, server_pid=java.pid).usage(compute)
    assert used.spark_cpu >= 0.15
    assert used.server_cpu < used.spark_cpu
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
    measured = in_turns(_CountedMeter(), jobs, rounds=2)
    assert "".join(done) == "abcbcacab"
    assert {name: [usage.wall for usage in usages] for name, usages in measured.items()} == {
        "a": [6, 8],
        "b": [4, 9],
        "c": [5, 7],
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
