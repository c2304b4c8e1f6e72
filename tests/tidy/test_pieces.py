"""`make test`: the pieces share the suite, each test runs once, and any failure fails the suite."""

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

from tests.pieces import AT_ONCE, ELSEWHERE, PIECES
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
WHOLE = ("-m", "tests.pieces")
# Of fewer pieces, because each is a start of pytest.
TWO_PIECES = (
    "-c",
    "import sys; from tests.pieces import Piece, main; sys.exit(main(sys.argv[1:], [Piece(['tests/crash'])]))",
)
LIMITED = ("-c", f"import tests.pieces; tests.pieces.LIMIT_S = 10.0; {TWO_PIECES[1]}")
ON_A_FULL_DISK = ("-c", f"import tests.pieces; tests.pieces.DISK_FREE_MIN = 1 << 60; {TWO_PIECES[1]}")


@contextmanager
def started(root: Path, folder: Path, program: tuple[str, str], **sources: str) -> Iterator[subprocess.Popen[str]]:
    """Starts a suite that has a good test in each folder, and these sources in the named ones.

    Of a folder that is several pieces, each has a file.
    """
    counts = {name: piece.share[1] for piece in PIECES for name in piece.folders}
    for name, count in {
        "tests/elsewhere": 1,
        "tests/unit/elsewhere": 1,
        **counts,
        **dict.fromkeys(ELSEWHERE, 1),
    }.items():
        tests = folder / name
        for number in range(count):
            path = tests / str(number) / f"test_{tests.name}_{number}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("import os, pathlib\n" + GOOD + sources.get(tests.name, ""))
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\ntestpaths = tests\n")
    command = [sys.executable, *program, "-q", "-s", "-p", "no:rowlock"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def run(root: Path, folder: Path, program: tuple[str, str], **sources: str) -> tuple[int, str]:
    """Runs such a suite; returns its exit code and its output."""
    with started(root, folder, program, **sources) as process:
        output, _ = process.communicate(timeout=300)
    return process.returncode, output


def test_the_pieces_share_the_suite_and_run_each_test_once(root: Path, tmp_path: Path) -> None:
    code, output = run(root, tmp_path, WHOLE)
    assert code == 0, output
    counts = [len(piece.folders) for piece in PIECES] + [2]
    assert sorted(map(int, re.findall(r"(\d+) passed", output))) == sorted(counts)
    assert len(re.findall(r"ended with 0 after \d+ s", output)) == len(counts)
    modules = set((tmp_path / "tests").rglob("test_*.py"))
    run_elsewhere = {module for tests in ELSEWHERE for module in (tmp_path / tests).rglob("test_*.py")}
    assert len(modules - run_elsewhere) == sum(counts)
    for module in modules - run_elsewhere:
        assert module.with_name("runs").read_text() == "x", f"{module} did not run once"
    for module in run_elsewhere:
        assert not module.with_name("runs").exists()


def test_what_is_run_elsewhere_is_run_by_make_check(root: Path) -> None:
    makefile = (root / "Makefile").read_text()
    check = makefile[makefile.index("\ncheck:") :].split("\n\n")[0]
    assert f"pytest -q {' '.join(ELSEWHERE)}" in check


def test_each_piece_has_tests(root: Path) -> None:
    for tests in (*ELSEWHERE, *(folder for piece in PIECES for folder in piece.folders)):
        assert any((root / tests).rglob("test_*.py")), tests


@pytest.mark.parametrize("folder", ["crash", "elsewhere"])
@pytest.mark.parametrize(
    ("source", "code"), [(BAD, 1), (DIES, 9), ("import nosuch_module\n", 2)], ids=["fails", "dies", "does not load"]
)
def test_a_failure_in_any_piece_fails_the_suite(
    root: Path, tmp_path: Path, folder: str, source: str, code: int
) -> None:
    ended_with, output = run(root, tmp_path, TWO_PIECES, **{folder: source})
    assert ended_with == code, output


def test_a_suite_that_is_ended_shows_what_still_ran_and_starts_no_more(root: Path, tmp_path: Path) -> None:
    folders = [Path(folder).name for piece in PIECES for folder in piece.folders]
    hanging = dict.fromkeys(("elsewhere", *folders), HANGS)
    with started(root, tmp_path, WHOLE, **hanging) as process:
        wait_until((tmp_path / "hangs").exists)
        process.terminate()
        output, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 128 + signal.SIGTERM
    assert f"{PIECES[0].label}: was ended after " in output
    assert "said before it hung" in output
    assert output.count(" was ended after ") <= AT_ONCE


def test_a_piece_that_hangs_is_ended_and_shows_where(root: Path, tmp_path: Path) -> None:
    code, output = run(root, tmp_path, LIMITED, crash=HANGS)
    assert code == signal.SIGABRT, output
    assert "said before it hung" in output
    assert re.search(r'File ".*test_crash_0\.py", line \d+ in test_', output), output


def test_a_disk_without_room_is_an_error_before_the_first_test(root: Path, tmp_path: Path) -> None:
    code, output = run(root, tmp_path, ON_A_FULL_DISK)
    assert code == 1
    assert "GiB of free disk" in output
    assert "set TMPDIR" in output
    assert not list((tmp_path / "tests").rglob("runs"))
