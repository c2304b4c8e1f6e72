"""The second chance of failed tests: given to a few, told of, and to nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# Passes from the second run on: in the first it leaves a mark.
FLAKY = """
import pathlib
def test_flaky():
    mark = pathlib.Path(__file__).with_name("mark")
    was_there = mark.exists()
    mark.touch()
    assert was_there
"""
GOOD = "def test_good(): pathlib.Path(__file__).with_name('runs').open('a').write('x')\n"
BAD = "def test_bad(): assert False\n"


def run(root: Path, folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text("import os, pathlib, pytest\n" + source)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "tests.again", "-q", "-p", "no:rowlock", f"--rootdir={folder}", str(folder)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300)


def test_what_passes_the_second_time_is_named_and_forgiven(root: Path, tmp_path: Path) -> None:
    ran = run(root, tmp_path, FLAKY + GOOD)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "again: flaky: test_it.py::test_flaky passed only the second time" in ran.stdout
    assert (tmp_path / "runs").read_text() == "x", "what had passed was run again"


def test_what_fails_twice_fails(root: Path, tmp_path: Path) -> None:
    ran = run(root, tmp_path, FLAKY + BAD)
    assert ran.returncode == 1
    assert "again: failed twice: test_it.py::test_bad" in ran.stdout
    assert "again: flaky: test_it.py::test_flaky" in ran.stdout


def test_a_fixture_that_fails_once_is_forgiven_too(root: Path, tmp_path: Path) -> None:
    fixture = FLAKY.replace("def test_flaky", "@pytest.fixture\ndef once")
    ran = run(root, tmp_path, f"{fixture}\ndef test_with_it(once): pass\n")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "flaky: test_it.py::test_with_it" in ran.stdout


def test_more_than_a_few_failures_are_no_flakes(root: Path, tmp_path: Path) -> None:
    marks = FLAKY + "".join(BAD.replace("bad", f"bad_{number}") for number in range(10))
    ran = run(root, tmp_path, marks)
    assert ran.returncode == 1
    assert "11 tests failed; only 1 to 10 are run a second time" in ran.stdout
    assert "flaky" not in ran.stdout.replace("test_flaky", "")


def test_nothing_but_failed_tests_has_a_second_chance(root: Path, tmp_path: Path) -> None:
    for source, code in [
        ("import nosuch_module\n", 2),
        ("def test_dies(): os._exit(9)\n", 9),
        ("def test_is_killed(): os.kill(os.getpid(), 9)\n", 9),
        ("", 5),
    ]:
        ran = run(root, tmp_path, source)
        assert ran.returncode == code, ran.stdout + ran.stderr
        assert "again:" not in ran.stdout


def test_good_tests_run_once(root: Path, tmp_path: Path) -> None:
    ran = run(root, tmp_path, GOOD)
    assert ran.returncode == 0
    assert "again:" not in ran.stdout
    assert (tmp_path / "runs").read_text() == "x"


def test_two_processes_share_the_suite_and_what_failed_in_either_has_a_second_chance(
    root: Path, tmp_path: Path
) -> None:
    for name, source in [("crash", FLAKY + GOOD), ("spark", GOOD), ("unit", FLAKY + GOOD), ("tidy", GOOD)]:
        folder = tmp_path / "tests" / name
        folder.mkdir(parents=True)
        (folder / f"test_{name}.py").write_text("import pathlib\n" + source)
    for name in ("consistency", "mutants"):
        (tmp_path / "tests" / name).mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\ntestpaths = tests\n")
    command = [sys.executable, "-m", "tests.again", "--shared", "-q", "-p", "no:rowlock"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "again: 2 failed" in ran.stdout
    for name in ("crash", "unit"):
        assert f"again: flaky: tests/{name}/test_{name}.py::test_flaky passed only the second time" in ran.stdout
    for name in ("crash", "spark", "unit", "tidy"):
        assert (tmp_path / "tests" / name / "runs").read_text() == "x", f"{name} ran not once"
