"""Fixtures of the client's tests: a server in memory, and a client of it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import rowlock
from rowlock._core.search import Search
from rowlock._transport.finding import find_server
from rowlock._transport.servers import Servers

from tests.unit.client.fake_server import FakeServer


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs the tests of modules with BOTH_WAYS twice: by gRPC, and over a direct connection."""
    if "way" in metafunc.fixturenames and getattr(metafunc.module, "BOTH_WAYS", False):
        metafunc.parametrize("way", ["grpc", "direct"])


@pytest.fixture
def way() -> str:
    """How point operations travel: "grpc" or "direct"."""
    return "grpc"


@pytest.fixture
def fake_server(way: str) -> Iterator[FakeServer]:
    server = FakeServer(is_direct=way == "direct")
    yield server
    server.stop()


@pytest.fixture
def servers(fake_server: FakeServer) -> Servers:
    """What `db` reaches its server through."""
    servers = Servers((fake_server.address,))
    find_server(servers, Search(servers.addresses, time.monotonic(), 60))
    return servers


@pytest.fixture
def db(servers: Servers) -> Iterator[rowlock.Client]:
    with rowlock.Client(servers, 60) as client:
        yield client
