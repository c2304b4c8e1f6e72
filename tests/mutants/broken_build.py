"""A broken build: a copy of the packages with one passage changed, and the result of a test on it.

Each run is a process of its own, forked from one that has imported pytest and the libraries, so that a run costs
only the import of the copy and the test. It ends with the first test whose body fails: what a broken build does
afterwards, hang for instance, does not matter.
"""

from __future__ import annotations

import compileall
import gc
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
SERVER, CLIENT, PROTOCOL = "rowlock_regionserver", "rowlock", "rowlock_proto"
# Where each package is.
PACKAGES = {
    SERVER: ROOT / "regionserver" / SERVER,
    CLIENT: ROOT / "client" / CLIENT,
    PROTOCOL: ROOT / "proto" / PROTOCOL,
}
RUN_TIMEOUT_S = 300.0
# How long a test waits for what a broken build never does.
BROKEN_WAIT_S = 10.0
_REPORT_CHARACTERS = 4000
# Whether a test catches a broken build must not depend on random draws.
_SEED = "1"
# Nothing that imports one of the packages. Libraries that are not installed are skipped.
_IMPORTED_ONCE = [
    "pytest",
    "hypothesis",
    "numpy",
    "pandas",
    "pyarrow.compute",
    "lmdb",
    "sortedcontainers",
    "google_crc32c",
    "xxhash",
    "pdb",
    "tomllib",
    "xml.etree.ElementTree",
]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One broken build, and the test that catches it."""

    name: str
    where: str  # the qualified name of a function, a class or a constant of the package
    passage: str  # occurs there exactly once
    replacement: str
    caught_by: str  # a node id, relative to tests/
    package: str = SERVER


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run ended."""

    failed: str  # the test whose body failed; empty if none did
    exit_code: int  # pytest's; -1: it did not end
    imported_from: Path  # the package that was tested
    report: str


def copy_of_packages(folder: Path) -> Path:
    """Copies the unchanged packages into the folder, with their modules compiled."""
    for name, place in PACKAGES.items():
        shutil.copytree(place, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(folder, quiet=2)
    return folder


@cache
def definitions_of(package: str) -> Definitions:
    """Returns the definitions of a package, by name."""
    return definitions_in(PACKAGES[package])


def changed(mutant: Mutant) -> tuple[Path, str]:
    """Returns the module that the broken build changes, and its new source. AssertionError: not exactly one passage."""
    return changed_module(definitions_of(mutant.package), mutant.where, mutant.passage, mutant.replacement)


def broken_copy(unchanged: Path, folder: Path, mutant: Mutant) -> Path:
    """Links a copy to the unchanged one, except for the changed module. AssertionError: not exactly one passage.

    unchanged, folder: where the packages are, and where the copies will be.
    """
    for package in PACKAGES:
        shutil.copytree(unchanged / package, folder / package, copy_function=os.link)
    name, source = changed(mutant)
    module = folder / mutant.package / name
    for link in (module, Path(cache_from_source(str(module)))):
        link.unlink(missing_ok=True)
    module.write_text(source)
    return folder


def run_tests(folder: Path, nodes: Sequence[str], package: str = SERVER, wait_s: float | None = None) -> Verdict:
    """Runs the tests on the copies in a folder, up to the first that fails. Blocks, for RUN_TIMEOUT_S at most.

    package: the one whose place is reported. wait_s: how long the tests wait for what has to happen; None: as long as
    outside of this module. Thread-safe.
    """
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(_IMPORTED_ONCE)
    verdicts, sender = processes.Pipe(duplex=False)
    process = processes.Process(target=_run_in_child, args=(folder, nodes, package, wait_s, sender))
    process.start()
    sender.close()
    try:
        if not verdicts.poll(RUN_TIMEOUT_S):
            return Verdict("", -1, folder / package, f"it did not end within {RUN_TIMEOUT_S:.0f} s")
        verdict: Verdict = verdicts.recv()
        return verdict
    except EOFError:
        return Verdict("", -1, folder / package, "it died")
    finally:
        process.kill()
        process.join()
        verdicts.close()


class _FirstFailure:
    """A plugin of pytest that reports the first test whose body fails, and ends the process."""

    def __init__(self, package: str, sender: Connection) -> None:
        self._package = package
        self._sender = sender

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.failed:
            _end(self._package, self._sender, report.nodeid, pytest.ExitCode.TESTS_FAILED, report.longreprtext)


def _run_in_child(
    folder: Path, nodes: Sequence[str], package: str, wait_s: float | None, sender: Connection
) -> NoReturn:
    # Else each full collection of garbage looks at all that the libraries have made, and the system copies its pages.
    gc.freeze()
    with (folder / "output").open("wb") as output:
        for descriptor in (1, 2):
            os.dup2(output.fileno(), descriptor)
    os.chdir(ROOT)
    sys.path.insert(0, str(folder))
    # For the processes that a test starts.
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    os.environ["ROWLOCK_SEED"] = _SEED
    if wait_s is not None:
        # It reads the variable when it is imported, so this module must not import it.
        assert "tests.waiting" not in sys.modules
        os.environ["ROWLOCK_TEST_WAIT_S"] = str(wait_s)
        # The first failure ends the run, so all cases cost a build that is caught no more than some.
        os.environ["ROWLOCK_ALL_CASES"] = "1"
    # Where these are set, pytest prints whole differences, and for two long lists that takes minutes.
    for name in ("CI", "BUILD_NUMBER"):
        os.environ.pop(name, None)
    # Each run rewrites the assertions of the same tests: with their modules cached it takes a third of the time.
    sys.dont_write_bytecode = False
    # Without plugins, our own included.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    arguments = ["-q", "--tb=native", "-p", "no:cacheprovider", f"--basetemp={folder / 'run'}"]
    code = pytest.main(
        [*arguments, *(str(ROOT / "tests" / node) for node in nodes)], plugins=[_FirstFailure(package, sender)]
    )
    sys.stdout.flush()
    _end(package, sender, "", code, (folder / "output").read_text(errors="replace"))


def _end(name: str, sender: Connection, failed: str, code: int, report: str) -> NoReturn:
    """Sends the verdict and ends the process, without waiting for threads that a broken build may have left."""
    package = sys.modules.get(name)
    imported_from = Path(package.__file__ or "").parent if package else Path()
    sender.send(Verdict(failed, int(code), imported_from, report[-_REPORT_CHARACTERS:]))
    end_at_once(0)
