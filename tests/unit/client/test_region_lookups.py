"""Lookups of regions that Ctrl-C interrupts (threads)."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import rowlock
from rowlock._core.search import Search
from rowlock._transport.finding import find_server
from rowlock._transport.servers import Servers

from tests.unit.client.fake_server import FakeServer
from tests.waiting import WAIT_S


class InterruptedLock:
    """A lock that Ctrl-C interrupts once when it has just been taken."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._has_interrupted = False

    def acquire(self, *, timeout: float) -> bool:
        is_taken = self._lock.acquire(timeout=timeout)
        if not self._has_interrupted:
            self._has_interrupted = True
            raise KeyboardInterrupt
        return is_taken

    def release(self) -> None:
        self._lock.release()


def test_other_threads_look_up_regions_after_an_interrupted_lookup(
    fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = Servers((fake_server.address,))
    find_server(servers, Search(servers.addresses, time.monotonic(), WAIT_S))
    monkeypatch.setattr(servers, "_locating", InterruptedLock())
    with rowlock.Client(servers, WAIT_S) as db, ThreadPoolExecutor(1) as other:
        with pytest.raises(KeyboardInterrupt):
            db.table("t").row("r")
        assert other.submit(db.table("t", timeout=1).row, "r").result() == {}


def test_a_lookup_that_does_not_get_its_turn_releases_nothing(
    fake_server: FakeServer,
) -> None:
    servers = Servers((fake_server.address,))
    find_server(servers, Search(servers.addresses, time.monotonic(), WAIT_S))
    with rowlock.Client(servers, WAIT_S) as db, ThreadPoolExecutor(1) as other, servers._locating:
        late = other.submit(db.table("t", timeout=0.01).row, "r").exception()
    assert isinstance(late, rowlock.DeadlineError)
    assert "another call's lookup" in str(late)
