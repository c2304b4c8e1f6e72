"""Connecting: retried until the deadline where that can help, else ended at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import rowlock
from rowlock._codec.wire_errors import NAME_NOT_FOUND
from rowlock._core.features import PROTOCOL
from rowlock._core.search import Search
from rowlock._transport import embedded
from rowlock.connecting import given_settings
from rowlock.errors import (
    DeadlineError,
    InvalidArgumentError,
    RowlockError,
    ServerRecoveringError,
    ServerUnavailableError,
)
from rowlock_proto.v1 import catalog_pb2, types_pb2

from tests.unit.client.fake_errors import error
from tests.unit.client.fake_server import FakeServer
from tests.waiting import WAIT_S

REFUSED = ServerUnavailableError("no server answers at a:1: connection refused")
UNKNOWN = ServerUnavailableError("no server answers at a:1: errors resolving a:1: not found")
RECOVERING = ServerRecoveringError("the server has not finished reading its log yet")
RECOVERING_ANSWER = error(types_pb2.Error.SERVER_RECOVERING)


def info(protocol: int = 1, folder_id: str = "") -> catalog_pb2.ServerInfoResponse:
    return catalog_pb2.ServerInfoResponse(protocol=protocol, version="9.9", data_folder_id=folder_id)


def ended_at(search: Search, met: RowlockError, step_s: float = 0.01) -> tuple[float, RowlockError]:
    """Returns when a search ends in which every attempt fails with this error, and its final error."""
    now = 0.0
    while True:
        search.failed("a:1", met)
        try:
            now += search.pause_s(now, 0.5) + step_s
        except RowlockError as given_up:
            return now, given_up


@pytest.mark.parametrize("met", [REFUSED, RECOVERING, UNKNOWN, DeadlineError("late")])
def test_a_search_retries_until_its_deadline(met: RowlockError) -> None:
    now, given_up = ended_at(Search(("a:1",), 0.0, 10.0), met)
    assert 9 < now <= 10
    assert type(given_up) is (ServerRecoveringError if met is RECOVERING else ServerUnavailableError)
    assert "at a:1" in str(given_up)


def test_the_error_names_a_host_that_does_not_resolve() -> None:
    given_up = ended_at(Search(("a:1",), 0.0, 10.0), UNKNOWN)[1]
    assert "the host name 'a' does not resolve" in str(given_up)


def message_of(address: str, reason: str) -> str:
    """The error of a search at an address at which no server answers."""
    search = Search((address,), 0.0, 10.0)
    search.failed(address, ServerUnavailableError(f"no server answers at {address}: {reason}"))
    with pytest.raises(ServerUnavailableError) as given_up:
        search.pause_s(10.0, 0.5)
    return str(given_up.value)


def test_the_error_says_that_an_address_is_a_folder(tmp_path: Path) -> None:
    message = message_of(f"{tmp_path}:7460", NAME_NOT_FOUND[0])
    assert f"{tmp_path} is a folder, and no address of a server" in message
    assert f"start one by 'rowlock-server --data {tmp_path}'" in message


def test_the_error_says_how_a_missing_socket_is_made(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/no"
    message = message_of(address, "connect failed")
    assert f"there is no socket {tmp_path}/no. 'rowlock-server --data FOLDER --listen {address}' makes it" in message
    (tmp_path / "no").touch()
    assert "Is it running?" in message_of(address, "connect failed")


def test_an_address_that_is_no_rowlock_server_fails_at_once() -> None:
    for met, expected in (
        (ServerUnavailableError("no server answers at a:1: Failed parsing HTTP/2 (http1.x)"), "does not speak gRPC"),
        (InvalidArgumentError("the server at a:1 does not speak the protocol rowlock.v1"), "does not speak the"),
    ):
        now, given_up = ended_at(Search(("a:1",), 0.0, 10.0), met)
        assert (now, type(given_up)) == (0.0, InvalidArgumentError)
        assert expected in str(given_up)
    with pytest.raises(InvalidArgumentError, match=rf"protocol {PROTOCOL + 1}.*9\.9"):
        Search(("a:1",), 0.0, 10.0).answered("a:1", info(protocol=PROTOCOL + 1))


def test_a_search_may_end_sooner_without_a_listener_than_with_a_recovering_server() -> None:
    assert ended_at(Search(("a:1",), 0.0, 10.0, absent_s=0.0), REFUSED)[0] == 0.0
    assert 1 < ended_at(Search(("a:1",), 0.0, 10.0, absent_s=2.0), REFUSED)[0] <= 2
    assert 9 < ended_at(Search(("a:1",), 0.0, 10.0, absent_s=0.0), RECOVERING)[0] <= 10


def test_all_addresses_share_the_time() -> None:
    search = Search(("a:1", "b:1"), 0.0, 10.0)
    assert search.share_s(0.0) == 5.0
    search.failed("a:1", UNKNOWN)
    assert search.share_s(4.0) == 6.0
    search.failed("b:1", REFUSED)
    assert search.pause_s(5.0, 0.0) > 0
    assert search.share_s(6.0) == 2.0


def test_a_wrong_address_does_not_prevent_a_good_one_from_being_tried() -> None:
    search = Search(("a:1", "b:1"), 0.0, 10.0)
    search.failed("a:1", InvalidArgumentError("the server at a:1 does not speak the protocol rowlock.v1"))
    assert search.answered("b:1", info())


def test_another_folders_server_is_not_used() -> None:
    search = Search(("a:1",), 0.0, 10.0, absent_s=0.0, folder_id="ours")
    assert search.answered("a:1", info(folder_id="ours"))
    for other in ("theirs", ""):
        assert not search.answered("a:1", info(folder_id=other))
        with pytest.raises(ServerUnavailableError, match="serves another data folder"):
            search.pause_s(0.0, 0.5)


def connect(address: str, timeout: float) -> str:
    with rowlock.connect(address, timeout=timeout) as db:
        return db.server_info().version


def connect_by_asyncio(address: str, timeout: float) -> str:
    async def version() -> str:
        async with rowlock.aio.connect(address, timeout=timeout) as db:
            return (await db.server_info()).version

    return asyncio.run(version())


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


@pytest.mark.parametrize("connect", [connect, connect_by_asyncio])
def test_a_client_waits_for_a_server_that_listens_later_and_recovers_first(
    connect: Callable[[str, float], str], tmp_path: Path, threads: ThreadPoolExecutor
) -> None:
    address = f"unix:{tmp_path / 'socket'}"
    with pytest.raises(rowlock.ServerUnavailableError, match=f"no rowlock server answers at {address}"):
        connect(address, 0.1)
    version: Future[str] = threads.submit(connect, address, 60)
    server = FakeServer(address, [RECOVERING_ANSWER] * 3)
    try:
        assert version.result(WAIT_S) == "fake"
        assert not server.info_script
    finally:
        server.stop()


@pytest.mark.parametrize("connect", [connect, connect_by_asyncio])
def test_a_server_that_recovers_for_longer_is_reported_as_recovering(
    connect: Callable[[str, float], str], tmp_path: Path
) -> None:
    server = FakeServer(f"unix:{tmp_path / 'socket'}", [RECOVERING_ANSWER] * 1000)
    try:
        with pytest.raises(rowlock.ServerRecoveringError, match="still replaying its log"):
            connect(server.address, 0.2)
    finally:
        server.stop()


@pytest.mark.parametrize("connect", [connect, connect_by_asyncio])
def test_a_socket_in_a_missing_folder_is_a_wrong_address(connect: Callable[[str, float], str], tmp_path: Path) -> None:
    with pytest.raises(rowlock.InvalidArgumentError, match="No such file or directory"):
        connect(f"unix:{tmp_path / ('long' * 40) / 'socket'}", 60)


def test_a_folder_that_another_server_has_is_looked_at_ever_more_rarely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    started_at = []

    def start_server(folder: Path, deadline: float, settings: Sequence[str]) -> bool:
        started_at.append(now)
        return False

    def wait_for_address(folder: Path, deadline: float) -> None:
        nonlocal now
        now = deadline

    monkeypatch.setattr(embedded, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(embedded, "start_server", start_server)
    monkeypatch.setattr(embedded, "_wait_for_address", wait_for_address)
    with pytest.raises(rowlock.EmbeddedServerError, match="could not be reached within 120 s"):
        rowlock.open(tmp_path)
    assert started_at[:7] == [0, 0.5, 1.5, 3.5, 7.5, 15.5, 23.5]


def test_a_server_with_an_address_of_its_own_is_named_if_it_has_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "start_server", lambda folder, deadline, settings: False)
    monkeypatch.setattr(embedded, "START_SECONDS_MAX", 0.1)
    monkeypatch.setattr(embedded, "_LOOK_SECONDS_FIRST", 0.01)
    (tmp_path / "format").write_text(f"rowlock data folder, format 1, id {'a' * 32}\n")
    for folder_id, message in (
        ("a" * 32, r"serves the folder .* at 127.*use rowlock\.connect"),
        ("b" * 32, "within 0.1"),
    ):
        server = FakeServer()
        server.folder_id = folder_id
        (tmp_path / "lock").write_text(f"5\n{server.address}\n")
        try:
            with pytest.raises(rowlock.EmbeddedServerError, match=message):
                rowlock.open(tmp_path)
        finally:
            server.stop()


def test_an_address_that_a_server_has_left_is_not_asked_before_one_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start_server(folder: Path, deadline: float, settings: Sequence[str]) -> bool:
        raise rowlock.EmbeddedServerError("started")

    monkeypatch.setattr(embedded, "start_server", start_server)
    (tmp_path / "format").write_text(f"rowlock data folder, format 1, id {'a' * 32}\n")
    server = FakeServer()
    server.folder_id = "a" * 32
    (tmp_path / "lock").write_text(f"5\n{server.address}\n")
    try:
        with pytest.raises(rowlock.EmbeddedServerError, match="started"):
            rowlock.open(tmp_path)
    finally:
        server.stop()


def test_a_folder_that_another_server_has_is_waited_for_with_a_line_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(embedded, "start_server", lambda folder, deadline, settings: False)
    monkeypatch.setattr(embedded, "START_SECONDS_MAX", 0.2)
    monkeypatch.setattr(embedded, "_NOTE_AFTER_SECONDS", 0.0)
    monkeypatch.setattr(embedded, "_LOOK_SECONDS_FIRST", 0.01)
    with pytest.raises(rowlock.EmbeddedServerError, match=r"use rowlock\.connect\(address\)"):
        rowlock.open(tmp_path)
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"waiting up to 0.2 s for the server that another process runs on {tmp_path}; if it is a")


@pytest.mark.parametrize(
    ("settings", "kind", "says"),
    [
        ("memory=1GiB", TypeError, "a dict like .*, not str"),
        ({"memory": 1.5}, TypeError, "'memory' must be an int or a str like '512MiB', not float"),
        ({"memory": True}, TypeError, "not bool"),
        ({"all.toml": 1}, InvalidArgumentError, "'all.toml' is not the name of a setting"),
        ({"memory=1GiB,x": 1}, InvalidArgumentError, "not the name"),
        ({7: 1}, InvalidArgumentError, "7 is not the name"),
    ],
)
def test_what_is_no_setting_is_refused(tmp_path: Path, settings: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        rowlock.open(tmp_path / "folder", settings=settings)
    assert not (tmp_path / "folder").exists()


def test_settings_become_words_of_the_server_s_command() -> None:
    assert given_settings(None) == []
    assert given_settings({"memory": "50%", "locks": 0}) == ["memory=50%", "locks=0"]
