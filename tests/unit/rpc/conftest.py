"""Fixtures for the tests of streams: a region under their control and the workers that call it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

import pytest
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.workers import Workers

from tests.unit.engine.fakes import FakeRegion
from tests.unit.engine.loops import run as run_on_loop
from tests.unit.engine.loops import until
from tests.unit.rpc.stream import Client, Run


@pytest.fixture
def region() -> FakeRegion:
    return FakeRegion()


@pytest.fixture
def workers(region: FakeRegion) -> Iterator[Workers]:
    """Two threads of each kind; threads that still wait at the end of the test are released."""
    workers = Workers(2)
    yield workers
    region.gate.set()
    workers.stop()


@pytest.fixture
def config() -> Config:
    return Config()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def run(region: FakeRegion, workers: Workers, config: Config, clock: ManualClock) -> Run:
    """Runs a test's coroutine with a client; afterwards nothing may be in flight."""

    def run(test: Callable[[Client], Awaitable[None]]) -> None:
        async def on_loop() -> None:
            client = Client(region, workers, config, clock)
            await test(client)
            region.gate.set()
            await until(lambda: client.points.statistics().in_flight == 0)
            client.conversation.leave()
            client.may_write.set()
            await until(lambda: client.ledger.bytes_held == 0)

        run_on_loop(on_loop)

    return run
