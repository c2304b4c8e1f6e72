"""The marker `flakey`: its effect, and the tests that may have it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

NEVER_IN = ("consistency", "crash", "mutants", "property")
# Its first test passes from the second run on: the first run leaves a mark. The fixture is set up for each run.
SOURCE = """
import pathlib, pytest
from tests.flakey import pytest_runtest_protocol  # noqa
here = pathlib.Path(__file__)

@pytest.fixture
def made():
    with here.with_name("made").open("a") as file:
        file.write("x")

@pytest.mark.flakey("the disk is slow")
def test_slow(made):
    mark = here.with_name("mark")
    was_there = mark.exists()
    mark.touch()
    assert was_there, "the first time"

@pytest.mark.flakey("never works")
def test_broken(made):
    assert False, "each time"

@pytest.mark.flakey("works")
def test_good(made):
    pass
"""


def test_a_marked_test_runs_a_second_time_and_both_results_are_printed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SOURCE)
    (tmp_path / "conftest.py").write_text("from tests.flakey import pytest_runtest_protocol\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = flakey\naddopts = --strict-markers\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:rowlock", "-p", "no:cacheprovider", str(tmp_path)]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "flakey (the disk is slow): test_it.py::test_slow failed, then passed; the first time:" in ran.stdout
    assert "AssertionError: the first time" in ran.stdout
    assert "flakey (never works): test_it.py::test_broken failed, then failed; the first time:" in ran.stdout
    assert "1 failed, 2 passed" in ran.stdout
    assert (tmp_path / "made").read_text() == "xx" + "xx" + "x"


def misplaced(source: str, folder: str) -> Iterator[int]:
    """Yields the lines where the marker has no reason, or is in a folder where it is not allowed."""
    tree = ast.parse(source)
    calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "flakey":
            match calls.get(id(node)):
                case ast.Call(args=[ast.Constant(value=str(reason))], keywords=[]) if reason.strip():
                    if folder in NEVER_IN:
                        yield node.lineno
                case _:
                    yield node.lineno


def test_each_marker_has_a_reason_and_is_where_it_is_allowed(root: Path, python_files: Sequence[Path]) -> None:
    tests = root / "tests"
    found = {
        f"{path.relative_to(root)}:{line}"
        for path in python_files
        if path.is_relative_to(tests)
        for line in misplaced(path.read_text(), path.relative_to(tests).parts[0])
    }
    assert found == set()


@pytest.mark.parametrize(
    ("decorator", "folder", "is_allowed"),
    [
        ("@pytest.mark.flakey('the disk is slow')", "end_to_end", True),
        ("@pytest.mark.flakey('the disk is slow')", "property", False),
        ("@pytest.mark.flakey('the disk is slow')", "consistency", False),
        ("@pytest.mark.flakey", "end_to_end", False),
        ("@pytest.mark.flakey()", "end_to_end", False),
        ("@pytest.mark.flakey(' ')", "end_to_end", False),
    ],
)
def test_a_marker_without_a_reason_or_in_the_wrong_place_is_found(
    decorator: str, folder: str, is_allowed: bool
) -> None:
    assert (list(misplaced(f"{decorator}\ndef test(): pass\n", folder)) == []) == is_allowed
