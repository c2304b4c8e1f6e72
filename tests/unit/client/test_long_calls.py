"""Calls that may take longer than the timeout, against a server that dies during each of them."""

from __future__ import annotations

import asyncio
from typing import NoReturn

import grpc
import pytest
from grpc.aio import AioRpcError, Metadata
from rowlock._transport import methods, servers
from rowlock._transport.servers import Servers
from rowlock.aio._transport import servers as aio_servers
from rowlock.errors import DeadlineError
from rowlock_proto.v1 import region_pb2

TIMEOUT_S = 5.0
WORK_S = 600.0
ATTEMPT_S = 30.0


class Clock:
    """Replaces the module `time`."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    async def sleep_async(self, seconds: float) -> None:
        self.now += seconds


def died(clock: Clock) -> NoReturn:
    """The server works for a while and dies. The client does not wait for it for an hour."""
    assert clock.now < 3600, "the call is tried for ever"
    clock.now += ATTEMPT_S
    raise AioRpcError(grpc.StatusCode.UNAVAILABLE, Metadata(), Metadata(), "Socket closed")


def test_a_flush_that_kills_the_server_each_time_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()

    class Dying(Servers):
        def call_once(self, *_: object, **__: object) -> NoReturn:
            died(clock)

    monkeypatch.setattr(servers, "time", clock)
    known = Dying(("there:1",))
    with pytest.raises(DeadlineError):
        known.call(methods.FLUSH, region_pb2.FlushRequest(), TIMEOUT_S, work_s=WORK_S)
    assert WORK_S < clock.now - 100 < WORK_S + TIMEOUT_S + 2 * ATTEMPT_S


def test_a_flush_that_kills_the_server_each_time_ends_in_asyncio_too(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()

    class Dying(aio_servers.Servers):
        async def call_once(self, *_: object, **__: object) -> NoReturn:
            died(clock)

    async def flush() -> None:
        known = Dying(("there:1",))
        monkeypatch.setattr(aio_servers, "time", clock)
        with monkeypatch.context() as patched:
            patched.setattr(asyncio, "sleep", clock.sleep_async)
            await known.call(methods.FLUSH, region_pb2.FlushRequest(), TIMEOUT_S, work_s=WORK_S)

    with pytest.raises(DeadlineError):
        asyncio.run(flush())
    assert WORK_S < clock.now - 100 < WORK_S + TIMEOUT_S + 2 * ATTEMPT_S
