from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.simulated_files import SimulatedFiles
from tests.unit.wal.log_case import LogCase


@pytest.fixture
def disk(tmp_path: Path) -> SimulatedFiles:
    return SimulatedFiles(tmp_path / "disk")


@pytest.fixture
def case(disk: SimulatedFiles) -> Iterator[LogCase]:
    """A small log that is open, on the simulated disk."""
    case = LogCase(disk.root / "log", disk).open()
    yield case
    disk.before_call = lambda call: None
    case.log.close()
