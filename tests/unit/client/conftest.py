"""Fixtures of the client's tests: a server in memory, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import rowlock

from tests.unit.client.fake_server import FakeServer


@pytest.fixture
def fake_server() -> Iterator[FakeServer]:
    server = FakeServer()
    yield server
    server.stop()


@pytest.fixture
def db(fake_server: FakeServer) -> Iterator[rowlock.Client]:
    with rowlock.connect(fake_server.address, timeout=60) as client:
        yield client
