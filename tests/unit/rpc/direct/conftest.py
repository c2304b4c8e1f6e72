"""A direct port before a region under the test's control."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from rowlock_regionserver.clock import Clock, ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.workers import Workers

from tests.unit.engine.fakes import FakeRegion
from tests.unit.engine.loops import run as run_on_loop
from tests.unit.rpc.direct.direct_client import Port, RunPort


@pytest.fixture
def port_clock() -> Clock:
    return ManualClock()


@pytest.fixture
def run_port(region: FakeRegion, workers: Workers, config: Config, port_clock: Clock) -> RunPort:
    """Runs a test's coroutine with a port; afterwards nothing may be open or held."""

    def run(test: Callable[[Port], Awaitable[None]]) -> None:
        async def on_loop() -> None:
            port = Port(region, workers, config, port_clock)
            await test(port)
            region.gate.set()
            await port.close()

        run_on_loop(on_loop)

    return run
