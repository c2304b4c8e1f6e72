"""`make test`: four processes share the suite, each test runs once, and any failure fails the suite."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

GOOD = "def test_good(): pathlib.Path(__file__).with_name('runs').open('a').write('x')\n"
BAD = "def test_bad(): assert False, 'that is bad'\n"
DIES = "def test_dies(): os._exit(9)\n"
FOLDERS = ("consistency", "crash", "end_to_end", "mutants", "property", "soak", "spark", "tidy", "unit")


def run(root: Path, folder: Path, **sources: str) -> subprocess.CompletedProcess[str]:
    """Runs a suite that has a good test in each folder, and these sources in the named ones."""
    for name in FOLDERS:
        tests = folder / "tests" / name
        tests.mkdir(parents=True)
        (tests / f"test_{name}.py").write_text("import os, pathlib\n" + GOOD + sources.get(name, ""))
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\ntestpaths = tests\n")
    command = [sys.executable, "-m", "tests.four_processes", "-q", "-p", "no:rowlock"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def test_four_processes_share_the_suite_and_run_each_test_once(root: Path, tmp_path: Path) -> None:
    ran = run(root, tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.findall(r"(\d+) passed", ran.stdout) == ["2", "1", "4", "2"]
    for name in FOLDERS:
        assert (tmp_path / "tests" / name / "runs").read_text() == "x", f"{name} did not run once"


@pytest.mark.parametrize("folder", ["property", "mutants", "crash", "unit"])
@pytest.mark.parametrize(
    ("source", "code"), [(BAD, 1), (DIES, 9), ("import nosuch_module\n", 2)], ids=["fails", "dies", "does not load"]
)
def test_a_failure_in_any_process_fails_the_suite(
    root: Path, tmp_path: Path, folder: str, source: str, code: int
) -> None:
    ran = run(root, tmp_path, **{folder: source})
    assert ran.returncode == code, ran.stdout + ran.stderr
