"""`make test`: four processes share the suite, each test runs once, and any failure fails the suite."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import WAIT_S, wait_until

GOOD = "def test_good(): pathlib.Path(__file__).with_name('runs').open('a').write('x')\n"
BAD = "def test_bad(): assert False, 'that is bad'\n"
DIES = "def test_dies(): os._exit(9)\n"
HANGS = """import sys, time
def test_hangs():
    print("said before it hung", file=sys.__stdout__, flush=True)
    pathlib.Path("hangs").touch()
    time.sleep(1000)
"""
FOLDERS = ("consistency", "crash", "end_to_end", "mutants", "property", "soak", "spark", "tidy", "unit")


@contextmanager
def started(root: Path, folder: Path, **sources: str) -> Iterator[subprocess.Popen[str]]:
    """Starts a suite that has a good test in each folder, and these sources in the named ones."""
    for name in FOLDERS:
        tests = folder / "tests" / name
        tests.mkdir(parents=True)
        (tests / f"test_{name}.py").write_text("import os, pathlib\n" + GOOD + sources.get(name, ""))
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\ntestpaths = tests\n")
    command = [sys.executable, "-m", "tests.four_processes", "-q", "-s", "-p", "no:rowlock"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def run(root: Path, folder: Path, **sources: str) -> tuple[int, str]:
    """Runs such a suite; returns its exit code and its output."""
    with started(root, folder, **sources) as process:
        output, _ = process.communicate(timeout=300)
    return process.returncode, output


def test_four_processes_share_the_suite_and_run_each_test_once(root: Path, tmp_path: Path) -> None:
    code, output = run(root, tmp_path)
    assert code == 0, output
    assert sorted(re.findall(r"(\d+) passed", output)) == ["1", "2", "2", "4"]
    for name in FOLDERS:
        assert (tmp_path / "tests" / name / "runs").read_text() == "x", f"{name} did not run once"


@pytest.mark.parametrize("folder", ["property", "mutants", "crash", "unit"])
@pytest.mark.parametrize(
    ("source", "code"), [(BAD, 1), (DIES, 9), ("import nosuch_module\n", 2)], ids=["fails", "dies", "does not load"]
)
def test_a_failure_in_any_process_fails_the_suite(
    root: Path, tmp_path: Path, folder: str, source: str, code: int
) -> None:
    ended_with, output = run(root, tmp_path, **{folder: source})
    assert ended_with == code, output


def test_a_suite_that_is_ended_shows_what_still_ran(root: Path, tmp_path: Path) -> None:
    with started(root, tmp_path, crash=HANGS) as process:
        wait_until((tmp_path / "hangs").exists)
        process.terminate()
        output, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 128 + signal.SIGTERM
    assert re.search(r"tests/crash .*: was ended after \d+ s", output), output
    assert "said before it hung" in output
