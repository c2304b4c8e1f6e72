"""The options by which each side finds that the other one's machine is gone: on TCP, and none on a Unix socket."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from rowlock._transport import direct_socket
from rowlock._transport.channels import silent_s_max
from rowlock._transport.direct_socket import set_tcp_options
from rowlock.aio._transport import direct_opening
from rowlock_proto.tcp_keepalive import keep_alive
from rowlock_regionserver.rpc.direct.clients import SILENT_SECONDS_MAX, UNREAD_SECONDS_MAX, probe_client

# The server's side. A machine has those that its platform knows.
OF_SERVER = {
    "TCP_KEEPIDLE": 60,
    "TCP_KEEPALIVE": 60,
    "TCP_KEEPINTVL": 5,
    "TCP_KEEPCNT": 4,
    "TCP_USER_TIMEOUT": 80_000,
}
OF_CLIENT = {"TCP_KEEPIDLE": 30, "TCP_KEEPALIVE": 30, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 2, "TCP_USER_TIMEOUT": 0}


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def connected(listening: socket.socket) -> Iterator[socket.socket]:
    with socket.create_connection(listening.getsockname()) as connected:
        yield connected


def known(expected: Mapping[str, int]) -> dict[str, int]:
    return {name: value for name, value in expected.items() if hasattr(socket, name)}


def options_of(connected: socket.socket) -> Mapping[str, int]:
    return {name: connected.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in known(OF_SERVER)}


def check(connected: socket.socket, expected: Mapping[str, int]) -> None:
    assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert options_of(connected) == known(expected)


def test_a_client_is_probed_and_must_read_what_was_sent(connected: socket.socket) -> None:
    assert not connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    probe_client(connected)
    check(connected, OF_SERVER)


def test_unacknowledged_answers_may_wait_for_longer_than_unread_ones() -> None:
    assert SILENT_SECONDS_MAX > UNREAD_SECONDS_MAX


def test_a_server_is_probed_and_need_not_read_what_was_sent(connected: socket.socket) -> None:
    set_tcp_options(connected)
    check(connected, OF_CLIENT)
    assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_server_is_lost_as_soon_as_a_silent_scan() -> None:
    assert OF_CLIENT["TCP_KEEPIDLE"] + OF_CLIENT["TCP_KEEPINTVL"] * OF_CLIENT["TCP_KEEPCNT"] == silent_s_max()


def connected_by_a_thread(target: str) -> socket.socket:
    return direct_socket._connected(target, time.monotonic() + 60)


def connected_by_a_task(target: str) -> socket.socket:
    return asyncio.run(direct_opening._connected(target))


@pytest.mark.parametrize("connect", [connected_by_a_thread, connected_by_a_task])
def test_both_faces_probe_the_server(listening: socket.socket, connect: Callable[[str], socket.socket]) -> None:
    host, port = listening.getsockname()
    with connect(f"{host}:{port}") as connected:
        check(connected, OF_CLIENT)


@pytest.mark.parametrize("connect", [connected_by_a_thread, connected_by_a_task])
def test_both_faces_connect_to_a_unix_socket(tmp_path: Path, connect: Callable[[str], socket.socket]) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        with connect(f"unix:{tmp_path}/s") as connected:
            assert not connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_a_unix_socket_has_none_of_these_options() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        keep_alive(ours, 60, 80, bounds_unread=True)
        assert not ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
