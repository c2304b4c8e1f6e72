"""A server process with procedures of the test's own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from rowlock.pytest_plugin import RowlockServer

from tests.procedure_packages import python_path
from tests.waiting import WAIT_S

# Calls that are to succeed have all the time that a loaded machine takes.
PATIENT = f"--config=procedure_ms_max={int(WAIT_S * 1000)}"


@contextlib.contextmanager
def server_with(packages: Path, names: Sequence[str], folder: Path, *options: str) -> Iterator[RowlockServer]:
    """A server on a folder, with these procedures of the installed packages. It stops in order, unless it is dead."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", python_path(packages))
        server = RowlockServer(
            folder / "data", folder / "server.log", [f"--config=procedures={','.join(names)}", PATIENT, *options]
        )
        server.start()
        try:
            yield server
            server.stop()
        finally:
            server.kill()
