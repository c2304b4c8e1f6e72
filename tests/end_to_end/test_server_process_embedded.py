"""An embedded server: clients find it through its folder, and it stops after its last client."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.end_to_end.raw_client import RawClient, RawConversation, get, mutate, put
from tests.end_to_end.server_command import ServerCommand

# Long enough for the first client on a slow machine.
PATIENT = (
    "from rowlock_regionserver import embedded\n"
    "from rowlock_regionserver.__main__ import main\n"
    "embedded.FIRST_CLIENT_SECONDS = 600.0\n"
    "main()\n"
)
# A umask that removes no permission.
OPEN_TO_ALL = "import os; os.umask(0)\nfrom rowlock_regionserver.__main__ import main; main()"


def embedded(folder: Path, linger: str = "0.2") -> ServerCommand:
    return ServerCommand("--data", folder, "--embedded", "--linger", linger, program=("-c", PATIENT))


def test_only_the_owner_of_a_folder_can_read_its_address(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with embedded(tmp_path / "data") as server:
        address = server.ready()
        file = tmp_path / "data" / "address"
        assert file.read_text() == f"{address}\n"
        assert file.stat().st_mode & 0o777 == 0o600
        socket = tmp_path / "data" / "socket"
        assert address == f"unix:{socket}"
        assert socket.is_socket()
        assert socket.stat().st_mode & 0o777 == 0o600
        assert psutil.Process(server.process.pid).net_connections("inet") == [], "it has a port"
        server.signal(signal.SIGTERM)
        assert server.ended() == (0, "", "")
        assert not file.exists()
        assert not socket.exists()


def test_the_socket_is_closed_to_others_whatever_the_mask_of_the_process(tmp_path: Path) -> None:
    for words, mode in ((), 0o600), (("--insecure",), 0o777):
        socket = tmp_path / "socket"
        with ServerCommand(
            *("--data", tmp_path / "data", "--listen", f"unix:{socket}", *words), program=("-c", OPEN_TO_ALL)
        ) as server:
            assert server.ready() == f"unix:{socket}"
            assert socket.stat().st_mode & 0o777 == mode
            server.signal(signal.SIGTERM)
            assert server.ended() == (0, "", "")


def test_a_socket_that_a_server_has_is_not_taken_away_and_one_that_was_left_is(tmp_path: Path) -> None:
    words = ("--listen", f"unix:{tmp_path / 'socket'}")
    with ServerCommand("--data", tmp_path / "a", *words) as server:
        address = server.ready()
        with ServerCommand("--data", tmp_path / "b", *words) as second:
            code, _, errors = second.ended()
        assert code == 2
        assert "a server listens there already" in errors
        assert not (tmp_path / "b").exists()
        with RawClient(address) as client:
            client.create_table("t", b"f")
        server.signal(signal.SIGKILL)
        server.process.wait()
    assert (tmp_path / "socket").is_socket()
    with ServerCommand("--data", tmp_path / "b", *words) as server:
        server.ready()
    (tmp_path / "socket").unlink()
    (tmp_path / "socket").write_text("a letter")
    with ServerCommand("--data", tmp_path / "b", *words) as server:
        assert "the file at that path is not a socket" in server.ended()[2]
    assert (tmp_path / "socket").read_text() == "a letter"


def test_it_runs_while_a_stream_is_open_and_stops_flushed_after_the_last(tmp_path: Path) -> None:
    with embedded(tmp_path) as server:
        address = server.ready()
        with RawClient(address) as client, RawClient(address) as other:
            conversation, another = RawConversation(client), RawConversation(other)
            conversation.ask(get(0, 1, b"r"))  # From here on somebody is there all the time.
            region_id = client.create_table("t", b"f")
            conversation.ask(mutate(1, region_id, put(b"r", b"v")))
            another.ask(get(1, region_id, b"r"))
            another.cancel()
            with pytest.raises(subprocess.TimeoutExpired):
                server.process.wait(timeout=1.0)
            assert conversation.ask(get(2, region_id, b"r")).get.rows[0].cells[0].value == b"v"
        assert server.ended() == (0, "", "")
    assert not (tmp_path / "address").exists()
    assert list((tmp_path / "regions").rglob("*")) != []
    with embedded(tmp_path, linger="600") as server, RawClient(server.ready()) as client:
        assert client.rows(client.region_id("t")) == [b"r"]


def test_a_client_that_is_killed_counts_as_gone(tmp_path: Path) -> None:
    hold = (
        "import sys, time\n"
        "from tests.end_to_end.raw_client import RawClient, RawConversation, get\n"
        "conversation = RawConversation(RawClient(sys.argv[1]))\n"
        "conversation.ask(get(1, 1, b'r'))\n"
        "print('there', flush=True)\n"
        "time.sleep(600)\n"
    )
    with embedded(tmp_path) as server:
        client = subprocess.Popen(
            [sys.executable, "-c", hold, server.ready()], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
        )
        assert client.stdout is not None
        assert client.stdout.readline() == b"there\n"
        assert server.process.poll() is None
        client.kill()
        client.communicate()
        assert server.ended() == (0, "", "")


def test_an_address_that_a_killed_server_left_is_replaced(tmp_path: Path) -> None:
    with embedded(tmp_path) as server:
        first = server.ready()
        server.signal(signal.SIGKILL)
        server.process.wait()
    assert (tmp_path / "address").read_text() == f"{first}\n"
    with embedded(tmp_path) as server:
        second = server.ready()
        assert (tmp_path / "address").read_text() == f"{second}\n"


def test_a_server_that_is_not_embedded_removes_an_address_that_is_no_longer_true(tmp_path: Path) -> None:
    with embedded(tmp_path) as server:
        server.ready()
        server.signal(signal.SIGKILL)
        server.process.wait()
    with ServerCommand("--data", tmp_path, "--listen", "127.0.0.1:0") as server:
        server.ready()
        assert not (tmp_path / "address").exists()
