"""A broken build: a copy of the region server with one passage changed, and what a test says of it.

A run is a process of its own, forked from one that has imported pytest and the libraries once, so that it costs what
the copy's own modules and the test cost. It ends with the first test whose body fails: what a broken build would do
afterwards, hang for instance, tells nothing more.
"""

from __future__ import annotations

import compileall
import multiprocessing
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import cache_from_source
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

import pytest

from tests.ending import end_at_once

from .anchors import Definitions, changed_module, definitions_in

ROOT = Path(__file__).parents[2]
PACKAGE = "rowlock_regionserver"
RUN_TIMEOUT_S = 300.0
_REPORT_CHARACTERS = 4000
# Whether a test catches a broken build must not hang on what it draws.
_SEED = "1"
# Nothing that imports the region server. What is not installed is passed over.
_IMPORTED_ONCE = ["pytest", "hypothesis", "numpy", "pandas", "pyarrow.compute", "lmdb", "sortedcontainers"]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One broken build, and the test that catches it."""

    name: str
    where: str  # the qualified name of a function, a class or a constant of the package
    passage: str  # stands there exactly once
    replacement: str
    caught_by: str  # a node id, relative to tests/


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run ended."""

    failed: str  # the test whose body failed; empty when there was none
    exit_code: int  # what pytest ended with; -1: not at all
    imported_from: Path  # the package that was tested
    report: str


def copy_of_package(folder: Path) -> Path:
    """The region server as it is, with its modules compiled."""
    copy = folder / PACKAGE
    shutil.copytree(ROOT / "regionserver" / PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(copy, quiet=2)
    return copy


@cache
def definitions_of_package() -> Definitions:
    """What the region server defines, by name."""
    return definitions_in(ROOT / "regionserver" / PACKAGE)


def changed(mutant: Mutant) -> tuple[Path, str]:
    """The module that the broken build changes, and its source then. AssertionError: the passage is not there once."""
    return changed_module(definitions_of_package(), mutant.where, mutant.passage, mutant.replacement)


def broken_copy(whole: Path, folder: Path, mutant: Mutant) -> Path:
    """A copy of the copy, by links, with a module of its own. AssertionError when the passage is not there once."""
    copy = folder / PACKAGE
    shutil.copytree(whole, copy, copy_function=os.link)
    name, source = changed(mutant)
    module = copy / name
    for link in (module, Path(cache_from_source(str(module)))):
        link.unlink(missing_ok=True)
    module.write_text(source)
    return copy


def run_tests(copy: Path, nodes: Sequence[str]) -> Verdict:
    """Runs the tests on a copy, up to the first that fails. Blocks, for RUN_TIMEOUT_S at most. Thread-safe."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(_IMPORTED_ONCE)
    verdicts, tell = processes.Pipe(duplex=False)
    process = processes.Process(target=_run_in_child, args=(copy, nodes, tell))
    process.start()
    tell.close()
    try:
        if not verdicts.poll(RUN_TIMEOUT_S):
            return Verdict("", -1, copy, f"it did not end within {RUN_TIMEOUT_S:.0f} s")
        verdict: Verdict = verdicts.recv()
        return verdict
    except EOFError:
        return Verdict("", -1, copy, "it died")
    finally:
        process.kill()
        process.join()
        verdicts.close()


class _FirstFailure:
    """A plugin of pytest that tells of the first test whose body fails, and ends the process there."""

    def __init__(self, tell: Connection) -> None:
        self._tell = tell

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.failed:
            _end(self._tell, report.nodeid, pytest.ExitCode.TESTS_FAILED, report.longreprtext)


def _run_in_child(copy: Path, nodes: Sequence[str], tell: Connection) -> NoReturn:
    folder = copy.parent
    with (folder / "output").open("wb") as output:
        for descriptor in (1, 2):
            os.dup2(output.fileno(), descriptor)
    os.chdir(ROOT)
    sys.path.insert(0, str(folder))
    # For the processes that a test starts.
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    os.environ["ROWLOCK_SEED"] = _SEED
    # Neither our own plugin nor others' have a part in it.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    arguments = ["-q", "-p", "no:cacheprovider", f"--basetemp={folder / 'run'}"]
    code = pytest.main([*arguments, *(str(ROOT / "tests" / node) for node in nodes)], plugins=[_FirstFailure(tell)])
    sys.stdout.flush()
    _end(tell, "", code, (folder / "output").read_text(errors="replace"))


def _end(tell: Connection, failed: str, code: int, report: str) -> NoReturn:
    """Without waiting for threads that a broken build may have left behind."""
    package = sys.modules.get(PACKAGE)
    imported_from = Path(package.__file__ or "").parent if package else Path()
    tell.send(Verdict(failed, int(code), imported_from, report[-_REPORT_CHARACTERS:]))
    end_at_once(0)
