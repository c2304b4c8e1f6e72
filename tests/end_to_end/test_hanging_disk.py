"""A disk that hangs in the sync of a single caller: all other clients are served meanwhile."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
import rowlock
from grpc_health.v1 import health_pb2, health_pb2_grpc
from rowlock_regionserver.config import Config
from rowlock_regionserver.files import Files
from rowlock_regionserver.server import Server

WAIT_SECONDS = 60.0
# A client that sends keepalive pings this often.
PINGING = [("grpc.keepalive_time_ms", 5_000), ("grpc.keepalive_timeout_ms", 5_000)]


class HangingFiles(Files):
    """While `hangs` is set, each sync of the log blocks."""

    def __init__(self) -> None:
        self.hangs = threading.Event()
        self.is_hanging = threading.Event()
        self.may_go_on = threading.Event()

    def fdatasync(self, descriptor: int) -> None:
        if self.hangs.is_set():
            self.is_hanging.set()
            assert self.may_go_on.wait(WAIT_SECONDS)
        os.fdatasync(descriptor)


@pytest.fixture
def files() -> HangingFiles:
    return HangingFiles()


@pytest.fixture
def server(tmp_path: Path, files: HangingFiles) -> Iterator[Server]:
    # Every sync counts as fast, and the log is never idle: so the caller's own sync hangs.
    config = Config(log_quick_sync_us=3_600_000_000, log_idle_marker_ms=3_600_000)
    with Server(tmp_path / "data", files=files, config=config) as server:
        yield server
        files.may_go_on.set()


def test_health_and_reads_are_answered_while_the_sync_of_a_single_caller_hangs(
    server: Server, files: HangingFiles
) -> None:
    with rowlock.connect(server.address, timeout=WAIT_SECONDS) as lone:
        table = lone.create_table("t", ["f"])
        table.put(b"row", {b"f:q": b"durable"})
        files.hangs.set()
        putter = threading.Thread(target=table.put, args=(b"row", {b"f:q": b"hanging"}))
        putter.start()
        assert files.is_hanging.wait(WAIT_SECONDS)
        with grpc.insecure_channel(server.address, options=PINGING) as channel:
            answer = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(), timeout=WAIT_SECONDS / 2
            )
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        with rowlock.connect(server.address, timeout=WAIT_SECONDS / 2) as other:
            assert other.table("t").row(b"row") == {b"f:q": b"durable"}
        assert putter.is_alive()
        files.may_go_on.set()
        putter.join(WAIT_SECONDS)
        assert table.row(b"row") == {b"f:q": b"hanging"}
