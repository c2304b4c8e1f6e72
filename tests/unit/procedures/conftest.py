"""Processes with procedures of the test's own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.operations import ProcedureCall, ProcedureReply
from rowlock_regionserver.procedures.child_process import ReadCells
from rowlock_regionserver.procedures.installed import installed_procedures
from rowlock_regionserver.procedures.runner import ProcedureRunner

from tests.procedure_packages import python_path, write_functions
from tests.waiting import WAIT_S

# Calls that are to succeed have all the time that a loaded machine takes.
PATIENT = Config(procedures="all", procedure_ms_max=int(WAIT_S * 1000), procedure_processes=1)

NewRunner = Callable[..., ProcedureRunner]


def nothing(columns: object) -> list[tuple[bytes, bytes, bytes]]:
    """The reads of a row that does not exist."""
    return []


def run(
    runner: ProcedureRunner, name: str, argument: bytes = b"", read: ReadCells = nothing, row: bytes = b"r"
) -> ProcedureReply:
    """Runs one call."""
    with runner.ready(name, time.monotonic() + WAIT_S) as ready:
        return ready(ProcedureCall(row, name, argument), "t", read)


@pytest.fixture
def new_runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NewRunner]:
    """Returns a function that makes a runner of the public functions of a source text; the test's end stops it."""
    runners: list[ProcedureRunner] = []

    def make(source: str, config: Config = PATIENT) -> ProcedureRunner:
        folder = write_functions(tmp_path / str(len(runners)), f"procedures_{len(runners)}", source)
        monkeypatch.setenv("PYTHONPATH", python_path(folder))
        monkeypatch.syspath_prepend(folder)
        names = [line.split()[0] for line in next(folder.glob("*/entry_points.txt")).read_text().splitlines()[1:]]
        runners.append(ProcedureRunner(installed_procedures(",".join(names)), config, Clock()))
        return runners[-1]

    yield make
    for runner in runners:
        runner.stop()
