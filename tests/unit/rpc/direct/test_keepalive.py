"""The options by which the system finds a peer that is gone: on a TCP socket, and none on a Unix socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping

import pytest
from rowlock_regionserver.rpc.direct.clients import UNREAD_SECONDS_MAX
from rowlock_regionserver.rpc.direct.keepalive import LOST_SECONDS, keep_alive

# Those that this platform has, with the values that they must have.
EXPECTED = {
    name: value
    for name, value in (
        ("TCP_KEEPIDLE", 60),
        ("TCP_KEEPALIVE", 60),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 4),
        ("TCP_USER_TIMEOUT", 80_000),
    )
    if hasattr(socket, name)
}


@pytest.fixture
def accepted() -> Iterator[socket.socket]:
    """The server's end of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()):
        ours, _ = listening.accept()
        with ours:
            yield ours


def options_of(connected: socket.socket) -> Mapping[str, int]:
    return {name: connected.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in EXPECTED}


def test_a_tcp_peer_is_probed_and_must_acknowledge_what_was_sent(accepted: socket.socket) -> None:
    assert not accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert options_of(accepted) != EXPECTED
    keep_alive(accepted)
    assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert options_of(accepted) == EXPECTED


def test_unacknowledged_answers_may_wait_as_long_as_probes_and_longer_than_unread_ones() -> None:
    probed_s = EXPECTED["TCP_KEEPINTVL"] * EXPECTED["TCP_KEEPCNT"]
    assert EXPECTED.get("TCP_KEEPIDLE", 60) + probed_s == LOST_SECONDS
    assert EXPECTED.get("TCP_USER_TIMEOUT", 80_000) == LOST_SECONDS * 1000
    assert LOST_SECONDS > UNREAD_SECONDS_MAX


def test_a_unix_socket_has_none_of_these_options() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        keep_alive(ours)
        assert not ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
