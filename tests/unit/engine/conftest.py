"""Fixtures for the tests of admission: a controlled region, workers, and a front end of plain values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

import pytest
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.workers import Workers

from tests.unit.engine.fakes import FakeRegion
from tests.unit.engine.loops import run as run_on_loop
from tests.unit.engine.loops import until
from tests.unit.engine.plain import FrontEnd


@pytest.fixture
def region() -> FakeRegion:
    return FakeRegion()


@pytest.fixture
def workers(region: FakeRegion) -> Iterator[Workers]:
    """Two threads of each kind. The region's gate opens at the end of the test, for threads that still wait."""
    workers = Workers(2)
    yield workers
    region.gate.set()
    workers.stop()


@pytest.fixture
def config() -> Config:
    return Config()


@pytest.fixture
def run(
    region: FakeRegion, workers: Workers, config: Config
) -> Callable[[Callable[[FrontEnd], Awaitable[None]]], None]:
    """Runs a test's coroutine with a front end; afterwards nothing may be in flight, held or reserved."""

    def run(test: Callable[[FrontEnd], Awaitable[None]]) -> None:
        async def on_loop() -> None:
            front_end = FrontEnd(region, workers, config)
            await test(front_end)
            region.gate.set()
            await until(lambda: front_end.points.statistics().in_flight == 0)
            assert (front_end.ledger.bytes_held, front_end.caller.reserved_bytes) == (0, 0)

        run_on_loop(on_loop)

    return run
