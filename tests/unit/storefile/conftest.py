"""Fixtures for the tests of store files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rowlock_regionserver.files import Files

from tests.crash.simulated_files import SimulatedFiles
from tests.unit.storefile.store_file_case import Case


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    case = Case(tmp_path, Files())
    yield case
    case.close()


@pytest.fixture
def disk(tmp_path: Path) -> SimulatedFiles:
    return SimulatedFiles(tmp_path / "data")
