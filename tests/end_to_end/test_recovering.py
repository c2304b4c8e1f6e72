"""A recovering server answers that it is recovering, and clients wait for it."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
import rowlock
from grpc_health.v1 import health_pb2, health_pb2_grpc
from rowlock_proto.v1 import catalog_pb2, region_pb2
from rowlock_proto.v1.types_pb2 import Error

from tests.end_to_end.raw_client import RawClient, RawConversation, evidence, get
from tests.end_to_end.slow_start import recovering_server

Health = health_pb2.HealthCheckResponse


def test_a_server_answers_while_it_recovers_and_is_healthy_when_it_has(tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 'socket'}"
    server, let_it_end = recovering_server(tmp_path, "--data", tmp_path / "data", "--listen", address)
    with server, RawClient(address) as client:
        health = health_pb2_grpc.HealthStub(client.channel)
        statuses = iter(health.Watch(health_pb2.HealthCheckRequest()))
        assert next(statuses).status == Health.NOT_SERVING
        for name in ("", "rowlock.v1.Catalog", "rowlock.v1.RegionService"):
            assert health.Check(health_pb2.HealthCheckRequest(service=name)).status == Health.NOT_SERVING
        for call in (
            lambda: client.catalog.ServerInfo(catalog_pb2.ServerInfoRequest()),
            lambda: client.region_id("t"),
            lambda: client.scan(1),
            lambda: RawConversation(client).ask(get(1, 1, b"r")),
            lambda: list(client.regions.BulkPut(iter([region_pb2.BulkBatch()]))),
        ):
            with pytest.raises(grpc.RpcError) as refused:
                call()
            assert isinstance(refused.value, grpc.Call)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
            error = evidence(refused.value)
            assert (error.code, error.can_retry, error.retry_after_ms > 0) == (Error.SERVER_RECOVERING, True, True)
        let_it_end()
        assert server.ready() == address
        assert next(statuses).status == Health.SERVING
        assert client.catalog.ServerInfo(catalog_pb2.ServerInfoRequest()).protocol == 1
        server.signal(signal.SIGTERM)
        assert next(statuses).status == Health.NOT_SERVING
        assert server.ended() == (0, "", "")


def test_clients_wait_until_it_has_recovered(tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 'socket'}"
    server, let_it_end = recovering_server(tmp_path, "--data", tmp_path / "data", "--listen", address)
    with server, ThreadPoolExecutor(1) as threads:
        with pytest.raises(rowlock.ServerRecoveringError):
            rowlock.connect(address, timeout=2)  # On a busy machine the first answer takes longer than 0.2 s.
        connecting = threads.submit(rowlock.connect, address, timeout=180)
        let_it_end()
        with connecting.result(180) as db:
            table = db.create_table("t", ["f"])
            table.put("r", {"f:a": "1"})
            server.signal(signal.SIGKILL)
            server.process.wait()
            again, let_it_end = recovering_server(tmp_path, "--data", tmp_path / "data", "--listen", address)
            with again:
                # A change that the client starts during the recovery is applied after it, once.
                counted = threads.submit(table.with_options(timeout=180).increment, "r", "f:n")
                with pytest.raises(rowlock.DeadlineError):
                    table.with_options(timeout=0.2).row("r")
                let_it_end()
                assert counted.result(180) == 1
                assert table.row("r")[b"f:a"] == b"1"


def test_opening_a_folder_waits_for_a_server_that_recovers(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    server, let_it_end = recovering_server(tmp_path, "--data", folder, "--embedded", "--linger", "600")
    with server, ThreadPoolExecutor(2) as threads:
        opening = [threads.submit(rowlock.open, folder) for _ in range(2)]
        let_it_end()
        server.ready()
        for each in opening:
            with each.result(180) as db:
                assert db.tables() == []
        assert server.process.poll() is None
