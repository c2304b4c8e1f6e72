"""The direct port: its addresses, its socket in the folder, and what it does without descriptors."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.workers import Workers
from rowlock_regionserver.rpc.addresses import Address, ListenError
from rowlock_regionserver.rpc.direct import acceptor
from rowlock_regionserver.rpc.direct.connection import DirectConnection
from rowlock_regionserver.rpc.direct.listener import DirectListener
from rowlock_regionserver.rpc.direct.plan import DirectPlan

from tests.unit.engine.fakes import FakeRegion
from tests.unit.engine.loops import run as run_on_loop
from tests.unit.engine.loops import until
from tests.unit.rpc.direct.direct_client import Port

LOCAL = Address("127.0.0.1", 0)


def address_of(listener: DirectListener) -> tuple[str, int]:
    announced = listener.announcement()
    assert announced is not None
    host, port = announced.address.rsplit(":", 1)
    return host, int(port)


@pytest.fixture
def run_listener(region: FakeRegion, workers: Workers, config: Config) -> Callable[..., None]:
    """Runs a test with a listener that was bound, and a port to start it with."""

    def run(plan: DirectPlan, folder: Path, test: Callable[[DirectListener, Port], Awaitable[None]]) -> None:
        async def on_loop() -> None:
            port = Port(region, workers, config, Clock())
            listener = DirectListener(plan)
            listener.bind_tcp()
            listener.bind_socket(folder, allows_other_users=False)
            try:
                await test(listener, port)
            finally:
                await listener.close(1.0)

        run_on_loop(on_loop)

    return run


def test_both_addresses_accept_after_the_start_and_refuse_before_and_after(
    run_listener: Callable[..., None], tmp_path: Path
) -> None:
    async def test(listener: DirectListener, port: Port) -> None:
        where, path = address_of(listener), tmp_path / "direct"
        announced = listener.announcement()
        assert announced is not None
        assert announced.socket == os.fsencode(path)
        for refused in range(2):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(where)
            with pytest.raises((ConnectionRefusedError, FileNotFoundError)), socket.socket(socket.AF_UNIX) as unix:
                unix.connect(str(path))
            if refused:
                return
            listener.start(port.service)
            with socket.create_connection(where), socket.socket(socket.AF_UNIX) as unix:
                unix.connect(str(path))
                await until(lambda: port.clients.greeting_count == 2)
                assert listener.statistics().greeting_count == 2
            await until(lambda: port.clients.greeting_count == 0)
            await listener.close(1.0)

    run_listener(DirectPlan(LOCAL, has_socket=True), tmp_path, test)


def test_the_system_probes_the_peers_of_tcp_connections_only(run_listener: Callable[..., None], tmp_path: Path) -> None:
    async def test(listener: DirectListener, port: Port) -> None:
        listener.start(port.service)
        with socket.create_connection(address_of(listener)), socket.socket(socket.AF_UNIX) as unix:
            unix.connect(str(tmp_path / "direct"))
            await until(lambda: port.clients.greeting_count == 2)
            probed = {}
            for connection in port.clients._greeting:
                assert isinstance(connection, DirectConnection)
                theirs = connection._transport.get_extra_info("socket")
                probed[theirs.family] = bool(theirs.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
            assert probed == {socket.AF_INET: True, socket.AF_UNIX: False}

    run_listener(DirectPlan(LOCAL, has_socket=True), tmp_path, test)


def test_the_socket_is_only_for_its_user_and_goes_with_the_listener(
    run_listener: Callable[..., None], tmp_path: Path
) -> None:
    path = tmp_path / "direct"

    async def test(listener: DirectListener, port: Port) -> None:
        listener.start(port.service)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    run_listener(DirectPlan(has_socket=True), tmp_path, test)
    assert not path.exists()


def test_a_socket_that_a_killed_server_left_is_replaced(run_listener: Callable[..., None], tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "direct"))

    async def test(listener: DirectListener, port: Port) -> None:
        listener.start(port.service)
        with socket.socket(socket.AF_UNIX) as unix:
            unix.connect(str(tmp_path / "direct"))
            await until(lambda: port.clients.greeting_count == 1)

    run_listener(DirectPlan(has_socket=True), tmp_path, test)


def test_a_folder_with_a_long_path_has_a_socket_too(run_listener: Callable[..., None], tmp_path: Path) -> None:
    folder = tmp_path / ("long " * 30)
    folder.mkdir()

    async def test(listener: DirectListener, port: Port) -> None:
        assert (folder / "direct").is_socket()

    run_listener(DirectPlan(has_socket=True), folder, test)
    assert not (folder / "direct").exists()


def test_an_address_in_use_is_an_error_if_it_was_requested_and_else_a_free_port_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(ListenError, match="choose another address with --direct"):
            DirectListener(DirectPlan(address, True)).bind_tcp()
        listener = DirectListener(DirectPlan(address, False))
        listener.bind_tcp()
        port = address_of(listener)[1]
        assert port != address.port
        (line,) = caplog.messages
        assert line.startswith(f"direct connections are on port {port}: can't listen on {address}: ")
        listener.stop()


def test_the_advertised_address_is_announced() -> None:
    listener = DirectListener(DirectPlan(LOCAL, True, Address("outside", 99)))
    listener.bind_tcp()
    announced = listener.announcement()
    assert announced is not None
    assert (announced.address, announced.socket) == ("outside:99", b"")
    listener.stop()


def test_a_listener_that_is_off_announces_nothing(tmp_path: Path) -> None:
    listener = DirectListener(DirectPlan())
    listener.bind_tcp()
    listener.bind_socket(tmp_path, allows_other_users=False)
    assert listener.announcement() is None
    assert list(tmp_path.iterdir()) == []
    listener.stop()


def test_without_descriptors_it_waits_and_then_accepts(
    run_listener: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(acceptor, "_PAUSE_SECONDS", 0.001)
    failures = [3]
    accept = socket.socket.accept

    def failing(listening: socket.socket) -> tuple[socket.socket, object]:
        if failures[0]:
            failures[0] -= 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return accept(listening)

    async def test(listener: DirectListener, port: Port) -> None:
        listener.start(port.service)
        monkeypatch.setattr(socket.socket, "accept", failing)
        with socket.create_connection(address_of(listener)):
            await until(lambda: port.clients.greeting_count == 1)
        assert port.log.count == 3

    run_listener(DirectPlan(LOCAL), tmp_path, test)
    assert len(caplog.records) == 1
    assert "Too many open files" in caplog.text


def test_many_connections_at_once_do_not_hold_the_loop(run_listener: Callable[..., None], tmp_path: Path) -> None:
    async def test(listener: DirectListener, port: Port) -> None:
        listener.start(port.service)
        clients = [socket.create_connection(address_of(listener)) for _ in range(100)]
        before = port.clients.greeting_count
        await asyncio.sleep(0)
        assert port.clients.greeting_count - before <= 16
        await until(lambda: port.clients.greeting_count == 100)
        for client in clients:
            client.close()

    run_listener(DirectPlan(LOCAL), tmp_path, test)
