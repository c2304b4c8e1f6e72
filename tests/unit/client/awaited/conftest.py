"""Runs tests that are coroutines, each in its own event loop. The tests in `blocking` are generated from them."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Iterator

import pytest
import rowlock
from rowlock._core.search import Search
from rowlock.aio._transport.finding import find_server
from rowlock.aio._transport.servers import Servers

from tests.unit.client.fake_server import FakeServer


@pytest.fixture(autouse=True)
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as made:
        yield made


@pytest.fixture
def servers(runner: asyncio.Runner, fake_server: FakeServer) -> Servers:
    """What `db` reaches its server through."""
    servers = Servers((fake_server.address,))
    runner.run(find_server(servers, Search(servers.addresses, time.monotonic(), 60)))
    return servers


@pytest.fixture
def db(runner: asyncio.Runner, servers: Servers) -> Iterator[rowlock.aio.Client]:
    client = rowlock.aio.Client(servers, 60)
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
