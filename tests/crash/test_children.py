"""Work on several children: when a job fails, all children stop."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]

PROGRAM = """
    import os, signal, sys
    from tests.crash.children import ChildFailedError, spread

    os.sched_getaffinity = lambda pid: {0, 1}
    reader, writer = os.pipe()

    def work(job):
        if job == 0:
            assert os.read(reader, 1) == b"x"  # The other has begun.
            raise ValueError("a job failed")
        os.write(writer, b"x")
        signal.alarm(30)  # It must not outlive a failing test for long.
        signal.pause()

    try:
        list(spread(work, [0, 1]))
    except ChildFailedError as error:
        assert "a job failed" in str(error)
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            sys.exit(7)
"""


def test_no_child_works_on_after_a_job_failed() -> None:
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 7, done.stderr


HANGING = """
    import sys, time
    from tests.crash import children

    children.JOB_S_MAX = 0.5

    def hang(job=0):
        time.sleep(1000)

    for run in (lambda: list(children.spread(hang, [0])), lambda: children.in_child(hang, 0.5)):
        try:
            run()
        except children.ChildFailedError as error:
            print(error)
"""


def test_a_child_that_hangs_shows_where_and_ends() -> None:
    command = [sys.executable, "-c", textwrap.dedent(HANGING)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.stdout.count("printed the stacks of its threads") == 2, done.stderr
    assert done.stderr.count("in hang") == 2


def test_a_job_that_is_spread_may_have_a_child_of_its_own() -> None:
    """Each of the two has a watchdog."""
    program = """
from tests.crash.children import in_child, spread
print(sorted(spread(lambda number: in_child(lambda: number + 1), [1, 2, 3])))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.stdout == "[(1, 2), (2, 3), (3, 4)]\n", done.stderr
