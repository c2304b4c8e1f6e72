"""Connections for scans that are kept for the next scans: which are used again, and which are closed."""

from __future__ import annotations

import dataclasses
import gc
import os
import socket
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import NoReturn

import pytest
from rowlock._core.sequences import Sequences
from rowlock._transport import links, stream_sockets
from rowlock._transport.stream_sockets import KEPT_COUNT_MAX, KEPT_S_MAX, KeptSockets
from rowlock.aio._transport import links as aio_links
from rowlock_proto.direct_frames import SCAN_END, frame

from tests.unit.client.scan_server import ScanServer, batch_frame
from tests.unit.client.test_direct_choice import HERE

ANOTHER_RUN = dataclasses.replace(HERE, incarnation_id="another run")


@pytest.fixture
def servers() -> Iterator[list[ScanServer]]:
    """The server's ends of one connection more than are kept."""
    servers = [ScanServer() for _ in range(KEPT_COUNT_MAX + 1)]
    yield servers
    for server in servers:
        server.close()


@pytest.fixture
def kept() -> Iterator[KeptSockets]:
    kept = KeptSockets()
    yield kept
    kept.close()


def test_the_newest_connections_are_used_again_each_once_and_more_than_four_are_not_kept(
    servers: list[ScanServer], kept: KeptSockets
) -> None:
    for server in servers:
        assert not server.opened.is_kept
        kept.keep(server.opened, is_ending=False)
    assert servers[0].is_left()
    taken = [kept.take(HERE) for _ in servers]
    assert taken == [*(server.opened for server in servers[:0:-1]), None]
    for one in taken[:-1]:
        assert one is not None
        assert one.is_kept
        assert one.socket.getblocking() is False
        one.close()


def test_old_connections_are_closed_when_a_newer_one_comes(
    servers: list[ScanServer], kept: KeptSockets, monkeypatch: pytest.MonkeyPatch
) -> None:
    for server in servers[:2]:
        kept.keep(server.opened, is_ending=False)
    passed = time.monotonic() + KEPT_S_MAX + 1
    monkeypatch.setattr(stream_sockets, "time", SimpleNamespace(monotonic=lambda: passed))
    kept.keep(servers[2].opened, is_ending=False)
    assert kept._kept == [servers[2].opened]
    for server in servers[:2]:
        assert server.is_left()
    assert kept.take(HERE) is servers[2].opened
    servers[2].opened.close()


@pytest.mark.parametrize("way", ["closed", "sent", "broken", "old", "another run"])
def test_a_connection_that_may_be_of_no_use_is_closed(
    servers: list[ScanServer], kept: KeptSockets, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = servers[0]
    kept.keep(server.opened, is_ending=False)
    if way == "closed":
        server.socket.shutdown(socket.SHUT_WR)
    elif way == "sent":
        server.socket.sendall(b"x")
    elif way == "broken":
        server.opened.socket.close()
    elif way == "old":
        monkeypatch.setattr(stream_sockets, "KEPT_S_MAX", 0.0)
    assert kept.take(ANOTHER_RUN if way == "another run" else HERE) is None
    assert server.opened.socket.fileno() == -1
    assert server.is_left()
    monkeypatch.undo()
    assert kept.take(HERE) is None


@pytest.mark.parametrize(
    "sent",
    [
        (True, frame(SCAN_END, b"")),
        (False, b""),
        (False, frame(SCAN_END, b"")[:-1]),
        (False, frame(SCAN_END, b"") + b"\0"),
        (False, frame(SCAN_END, b"error")),
        (False, batch_frame(1) + frame(SCAN_END, b"")),
    ],
)
def test_a_connection_whose_scan_is_ending_is_used_when_the_end_has_come(
    servers: list[ScanServer], kept: KeptSockets, sent: tuple[bool, bytes]
) -> None:
    server = servers[0]
    kept.keep(server.opened, is_ending=True)
    is_ready, came = sent
    server.socket.sendall(came)
    assert kept.take(HERE) is (server.opened if is_ready else None)
    assert (server.opened.socket.fileno() != -1) == is_ready


def test_a_connection_whose_scan_is_ending_is_not_used_if_the_server_has_closed_it_then(
    servers: list[ScanServer], kept: KeptSockets
) -> None:
    kept.keep(servers[0].opened, is_ending=True)
    servers[0].socket.sendall(frame(SCAN_END, b""))
    servers[0].socket.close()
    assert kept.take(HERE) is None


def test_closing_closes_those_that_are_kept_and_those_that_come_later(
    servers: list[ScanServer], kept: KeptSockets
) -> None:
    kept.keep(servers[0].opened, is_ending=False)
    with socket.socket(fileno=os.dup(servers[0].opened.socket.fileno())):  # As another process may have one.
        kept.close()
        assert servers[0].is_left()
    kept.keep(servers[1].opened, is_ending=False)
    assert servers[1].is_left()
    assert kept.take(HERE) is None


def test_the_child_of_a_fork_closes_its_copies_and_leaves_those_of_the_parent_alone(
    servers: list[ScanServer], kept: KeptSockets
) -> None:
    kept.keep(servers[0].opened, is_ending=False)
    with socket.socket(fileno=os.dup(servers[0].opened.socket.fileno())) as parents:
        kept.forget()
        assert servers[0].opened.socket.fileno() == -1
        assert kept.take(HERE) is None
        parents.sendall(b"x")
        assert servers[0].socket.recv(1) == b"x"


@pytest.mark.parametrize("face", [links.ServerLink, aio_links.ServerLink])
def test_the_child_of_a_fork_closes_the_copies_of_each_link(
    servers: list[ScanServer], face: type[links.ServerLink | aio_links.ServerLink]
) -> None:
    link = face("first:1", "", Sequences(), _not_called, _not_called, is_direct=True, is_closed=False)
    link.scans.kept.keep(servers[0].opened, is_ending=False)
    link.bulk.kept.keep(servers[1].opened, is_ending=False)
    copies = [os.dup(server.opened.socket.fileno()) for server in servers[:2]]
    link.forget()
    for server, copy in zip(servers, copies, strict=False):
        assert server.opened.socket.fileno() == -1
        with socket.socket(fileno=copy) as parents:
            parents.sendall(b"x")
            assert server.socket.recv(1) == b"x"


def _not_called(*_: object) -> NoReturn:
    raise AssertionError("nothing is opened")


def test_connections_of_a_client_that_is_dropped_are_closed(servers: list[ScanServer]) -> None:
    KeptSockets().keep(servers[0].opened, is_ending=False)
    del servers[0].opened
    gc.collect()
    assert servers[0].is_left()


def test_a_connection_that_an_interruption_has_taken_from_its_scan_is_closed(
    servers: list[ScanServer], kept: KeptSockets
) -> None:
    kept.keep(servers[0].opened, is_ending=False)
    del servers[0].opened
    kept.take(HERE)  # And nobody holds it. A ResourceWarning would be an error.
    assert kept._kept == []
    gc.collect()
    assert servers[0].is_left()
