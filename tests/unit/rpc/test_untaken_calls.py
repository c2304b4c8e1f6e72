"""Calls that came while the event loop was busy, over a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import grpc
from grpc_health.v1 import health_pb2
from rowlock_regionserver.config import Config
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.rpc.addresses import Address
from rowlock_regionserver.rpc.grpc.calls import Calls
from rowlock_regionserver.rpc.grpc.listener import Listener

from tests.waiting import WAIT_S

BUSY_S = 2.5


@contextlib.contextmanager
def busy_server(config: Config) -> Iterator[tuple[int, threading.Event]]:
    """The port of a server whose event loop is busy until the event is set."""
    listening: Future[int] = Future()
    may_go_on, is_over = threading.Event(), threading.Event()

    async def serve() -> None:
        listener = Listener(config, is_unix=False)
        address = listener.bind(Address("127.0.0.1", 0), allows_other_users=False)
        await listener.start(Calls(config, Ledger(config), lambda _: None))
        assert isinstance(address, Address)
        listening.set_result(address.port)
        may_go_on.wait(WAIT_S)  # blocks the loop
        while not is_over.is_set():
            await asyncio.sleep(0.01)
        await listener.abandon()

    server = threading.Thread(target=asyncio.run, args=(serve(),))
    server.start()
    try:
        yield listening.result(WAIT_S), may_go_on
    finally:
        may_go_on.set()
        is_over.set()
        server.join()


@contextlib.contextmanager
def health_checks(port: int) -> Iterator[Callable[[int], list[grpc.Future[health_pb2.HealthCheckResponse]]]]:
    """Returns a function that begins so many calls."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        check: grpc.UnaryUnaryMultiCallable[bytes, health_pb2.HealthCheckResponse] = channel.unary_unary(
            "/grpc.health.v1.Health/Check", response_deserializer=health_pb2.HealthCheckResponse.FromString
        )
        yield lambda count: [check.future(b"", timeout=WAIT_S) for _ in range(count)]


def test_calls_wait_for_a_busy_event_loop() -> None:
    """gRPC looks for calls that have waited for too long when others come."""
    with busy_server(Config()) as (port, may_go_on), health_checks(port) as begin:
        calls = begin(20)
        time.sleep(BUSY_S)
        calls += begin(20)
        may_go_on.set()
        for call in calls:
            assert call.result().status == health_pb2.HealthCheckResponse.NOT_SERVING


def test_thousands_of_calls_wait_for_a_busy_event_loop() -> None:
    """By default gRPC would cancel each call beyond 3,000 that wait, when it comes."""
    count = 4_000
    with busy_server(Config(streams_per_connection_max=count)) as (port, may_go_on), health_checks(port) as begin:
        calls = begin(count)
        time.sleep(BUSY_S)  # so that they have come before the loop goes on
        may_go_on.set()
        for call in calls:
            assert call.result().status == health_pb2.HealthCheckResponse.NOT_SERVING
