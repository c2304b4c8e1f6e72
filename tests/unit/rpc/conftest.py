"""What the tests of the streams stand on: a region under their control and the workers that call it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from rowlock_regionserver.rpc.workers import Workers

from tests.unit.rpc.fakes import FakeRegion


@pytest.fixture
def region() -> FakeRegion:
    return FakeRegion()


@pytest.fixture
def workers(region: FakeRegion) -> Iterator[Workers]:
    """Two threads of each kind; whoever still waits at the end of the test is let go."""
    workers = Workers(2)
    yield workers
    region.gate.set()
    workers.stop()
