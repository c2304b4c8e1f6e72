"""Runs tests that are coroutines, each in its own event loop. The tests in `blocking` are generated from them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator

import pytest
import rowlock

from tests.unit.client.fake_server import FakeServer


@pytest.fixture(autouse=True)
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as made:
        yield made


@pytest.fixture
def db(runner: asyncio.Runner, fake_server: FakeServer) -> Iterator[rowlock.aio.Client]:
    async def connected() -> rowlock.aio.Client:
        return await rowlock.aio.connect(fake_server.address, timeout=60)

    client = runner.run(connected())
    yield client
    runner.run(client.close())


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    runner = pyfuncitem.funcargs["runner"]
    assert isinstance(runner, asyncio.Runner)
    runner.run(test(**{name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}))
    return True
