"""Calls that came while the event loop was busy, over a real socket."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future

import grpc
from grpc_health.v1 import health_pb2
from rowlock_regionserver.config import Config
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.rpc.grpc.addresses import Address
from rowlock_regionserver.rpc.grpc.calls import Calls
from rowlock_regionserver.rpc.grpc.listener import Listener

from tests.waiting import WAIT_S

BUSY_S = 2.5


def test_calls_wait_for_a_busy_event_loop() -> None:
    """gRPC looks for calls that have waited for too long when others come."""
    listening: Future[int] = Future()
    may_go_on, is_over = threading.Event(), threading.Event()

    async def serve() -> None:
        config = Config()
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
        with grpc.insecure_channel(f"127.0.0.1:{listening.result(WAIT_S)}") as channel:
            check: grpc.UnaryUnaryMultiCallable[bytes, health_pb2.HealthCheckResponse] = channel.unary_unary(
                "/grpc.health.v1.Health/Check", response_deserializer=health_pb2.HealthCheckResponse.FromString
            )
            calls = [check.future(b"", timeout=WAIT_S) for _ in range(20)]
            time.sleep(BUSY_S)
            calls += [check.future(b"", timeout=WAIT_S) for _ in range(20)]
            may_go_on.set()
            for call in calls:
                assert call.result().status == health_pb2.HealthCheckResponse.NOT_SERVING
    finally:
        may_go_on.set()
        is_over.set()
        server.join()
