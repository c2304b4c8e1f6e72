"""Bounds hold for the whole server, whatever the number of connections, and a client's fault does not harm it."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from rowlock_proto.v1 import catalog_pb2, region_pb2
from rowlock_proto.v1.types_pb2 import Error
from rowlock_regionserver.config import MIB, Config
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.memory_plan import ALLOWANCE_BYTES, REQUEST_COST
from rowlock_regionserver.resident import anonymous_bytes
from rowlock_regionserver.server import Server

from tests.crash.simulated_files import SimulatedFiles
from tests.unit.wal.test_appending import Gate
from tests.waiting import WAIT_S, wait_until

from .half_message import HalfMessage
from .raw_client import RawClient, RawConversation, evidence, get, mutate, put
from .server_command import ServerCommand

VALUE_BYTES = 1 << 20
CONFIG = Config(
    connections_max=3,
    request_bytes_max=4 << 20,
    request_bytes_in_flight_max=2 * REQUEST_COST * VALUE_BYTES + 100_000,
    answer_bytes_held_max=8 << 20,
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "folder", config=CONFIG) as server:
        yield server


def refusal_of_a_call(client: RawClient) -> Error | None:
    """Returns the error of a quick request; None if it is answered."""
    try:
        client.catalog.ListTables(catalog_pb2.ListTablesRequest())
    except grpc.RpcError as failed:
        return evidence(failed)
    return None


def large_put(request_id: int, region_id: int) -> region_pb2.PointRequest:
    request = mutate(request_id, region_id, put(b"%d" % request_id, bytes(VALUE_BYTES)))
    request.timeout_ms = 60_000
    return request


def test_a_connection_too_many_is_refused_with_a_message_and_accepted_when_another_one_ends(server: Server) -> None:
    with contextlib.ExitStack() as clients:
        *clients_taken, last = [clients.enter_context(RawClient(server.address)) for _ in range(4)]
        region_id = last.create_table("t", b"f")
        conversations = [RawConversation(client) for client in clients_taken]
        for conversation in conversations:
            conversation.ask(get(1, region_id, b"r"))
        refusal = refusal_of_a_call(last)
        assert refusal is not None
        assert (refusal.code, refusal.can_retry, refusal.retry_after_ms > 0) == (Error.REGION_TOO_BUSY, True, True)
        assert "connections_max" in refusal.message
        assert refusal_of_a_call(clients_taken[0]) is None, "it has a connection"
        conversations[0].cancel()
        while refusal_of_a_call(last) is not None:  # The server hears of the end a moment later.
            pass


def test_a_unix_socket_accepts_no_connection_too_many(tmp_path: Path) -> None:
    """Its clients have no addresses, so an accepted connection can't be refused with a message."""
    with contextlib.ExitStack() as opened:
        address = f"unix:{tmp_path / 'clients'}"
        opened.enter_context(Server(tmp_path / "folder", listen=address, config=CONFIG))
        for _ in range(CONFIG.connections_max):
            assert refusal_of_a_call(opened.enter_context(RawClient(address))) is None
        last = opened.enter_context(RawClient(address))
        with pytest.raises(grpc.RpcError) as refused:
            last.catalog.ListTables(catalog_pb2.ListTablesRequest())
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE


def test_large_messages_of_several_connections_share_one_bound(tmp_path: Path) -> None:
    disk = SimulatedFiles(tmp_path / "folder")
    with Server(disk.root, files=disk, config=CONFIG) as server, contextlib.ExitStack() as clients:
        one, two, three = [clients.enter_context(RawClient(server.address)) for _ in range(3)]
        region_id = one.create_table("t", b"f")
        gate = Gate(disk, "fdatasync")  # So that what comes stays.
        try:
            waiting = [RawConversation(client) for client in (one, two)]
            for number, conversation in enumerate(waiting):
                conversation.send(large_put(number, region_id))
            while server.statistics().engine.points.in_flight < 2:
                threading.Event().wait(0.001)
            refused = RawConversation(three)
            refused.send(large_put(7, region_id), large_put(8, region_id))
            for number in (7, 8):
                error = refused.answer(number).error
                assert (error.code, error.can_retry) == (Error.REGION_TOO_BUSY, True)
                assert "request_bytes_in_flight_max" in error.message
        finally:
            gate.opened.set()
        assert [each.answer(number).WhichOneof("answer") for number, each in enumerate(waiting)] == ["mutate"] * 2
        refused.send(large_put(9, region_id))
        assert refused.answer(9).HasField("mutate")


def test_unread_answers_are_bounded_and_other_clients_are_served(server: Server) -> None:
    with RawClient(server.address) as reader, RawClient(server.address) as idle:
        region_id = reader.create_table("t", b"f")
        putting = RawConversation(reader)
        for number in range(4):
            putting.send(large_put(number, region_id))
            assert putting.answer(number).HasField("mutate")
        rows = [b"%d" % number for number in range(3)]
        message = region_pb2.PointRequests(requests=[get(number, region_id, *rows) for number in range(200)])
        may_end = threading.Event()
        sent = iter([message] * 5)

        def messages() -> Iterator[region_pb2.PointRequests]:
            yield from sent
            may_end.wait(WAIT_S)

        call = idle.regions.Converse(messages())
        answers = server.region_server.ledger.answers
        while answers.bytes_held_peak < CONFIG.answer_bytes_held_max // 2:
            threading.Event().wait(0.001)
        assert putting.ask(get(99, region_id, b"none")).HasField("get")
        assert answers.bytes_held_peak <= CONFIG.answer_bytes_held_max
        may_end.set()
        call.cancel()
        while answers.bytes_held:
            threading.Event().wait(0.001)


def resident_bytes(process_id: int, figure: str = "VmHWM") -> int:
    """Returns the peak memory of a process; with VmRSS what it has now."""
    for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
        if line.startswith(f"{figure}:"):
            return int(line.split()[1]) << 10
    raise AssertionError("Linux tells this")


@pytest.mark.skipif(not anonymous_bytes(), reason="only Linux tells what connections have brought")
@pytest.mark.parametrize("is_unix", [False, True])
def test_incomplete_messages_are_bounded_too(tmp_path: Path, is_unix: bool) -> None:
    """gRPC buffers their bytes without reporting them: 60 connections bring 200 MiB to a server of 64 MiB."""
    settings = ("--config", "memory=64MiB", "--config", "connections_max=100")
    listen = f"unix:{tmp_path / 'clients'}" if is_unix else "127.0.0.1:0"
    with ServerCommand("--data", tmp_path / "data", "--listen", listen, *settings, is_warm=False) as server:
        address = server.ready()
        with contextlib.ExitStack() as opened, RawClient(address) as client:
            region_id = client.create_table("t", b"f")
            limit = client.catalog.ServerInfo(catalog_pb2.ServerInfoRequest()).limits.request_bytes_max
            path = "/rowlock.v1.RegionService/Converse"
            halves = [opened.enter_context(HalfMessage(address, path, limit)) for _ in range(60)]
            ended = 0
            bytes_max = 64 * MIB + ALLOWANCE_BYTES
            for half in halves:
                # The server looks at what has come a hundred times a second, if the machine lets it.
                wait_until(lambda: resident_bytes(server.process.pid, "VmRSS") < bytes_max - 16 * MIB)
                try:
                    half.send(limit - 10_000)
                except ConnectionError:
                    ended += 1
            ended += sum(half.is_ended() for half in halves)
            assert ended > 0
            conversation = RawConversation(client)
            assert conversation.ask(mutate(1, region_id, put(b"r", b"v"))).HasField("mutate")
            assert resident_bytes(server.process.pid) < bytes_max
        server.signal(signal.SIGTERM)
        code, _, errors = server.ended()
    assert code == 0
    lines = errors.splitlines()
    assert lines
    peer = "unix:" if is_unix else "ipv4:127.0.0.1:"
    assert all("memory is full: closed" in line and peer in line for line in lines), errors


@pytest.mark.skipif(not anonymous_bytes(), reason="only Linux tells what a process holds")
def test_bytes_received_during_recovery_are_charged_to_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    came: list[bytes] = []
    recover = RegionServer.open

    def recover_beside_clients(*arguments: Any) -> RegionServer:
        came.append(b"m" * (200 * MIB))
        return recover(*arguments)

    monkeypatch.setattr(RegionServer, "open", recover_beside_clients)
    with Server(tmp_path / "folder") as server:
        own_bytes = server.region_server.ledger.own_bytes
        assert 0 < own_bytes < anonymous_bytes() - 150 * MIB
