"""rowlock.open: a private server on a folder is started once, shared, and stops after its last client."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
import rowlock

from tests.drawn_cases import drawn
from tests.end_to_end.server_command import ServerCommand
from tests.ending import end_at_once
from tests.waiting import WAIT_S


def servers_of(folder: Path) -> list[psutil.Process]:
    """Returns the server processes that run on a folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if "rowlock_regionserver" in command and str(folder) in command:
            found.append(process)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "data"
    for process in servers_of(tmp_path / "data"):
        process.kill()


def test_the_first_starts_the_server_and_others_join_it(folder: Path) -> None:
    with rowlock.open(folder) as db:
        db.create_table("t", ["f"]).put("r", {"f:a": "1"})
        assert stat.S_IMODE((folder / "address").stat().st_mode) == 0o600
        with rowlock.open(folder) as other:
            assert other.table("t").row("r") == {b"f:a": b"1"}
            assert other.server_info().incarnation_id == db.server_info().incarnation_id
        code = (
            "import rowlock, sys\n"
            "with rowlock.open(sys.argv[1]) as db:\n"
            "    sys.stdout.write(db.table('t', encoding='utf-8').row('r')['f:a'])\n"
        )
        child = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True)
        assert child.stdout == "1"
        assert len(servers_of(folder)) == 1


def test_many_that_open_at_once_get_one_server(folder: Path) -> None:
    with ThreadPoolExecutor(6) as threads:
        clients = list(threads.map(lambda _: rowlock.open(folder), range(6)))
    assert len({db.server_info().incarnation_id for db in clients}) == 1
    for db in clients:
        db.close()


def test_it_stops_flushed_after_the_last_client_and_starts_again_with_everything(folder: Path) -> None:
    with rowlock.open(folder) as db:
        db.create_table("t", ["f"]).put("r", {"f:a": "1"})
        (server,) = servers_of(folder)
    assert psutil.wait_procs([server], timeout=180)[1] == []
    assert not (folder / "address").exists()
    with rowlock.open(folder) as db:
        assert db.table("t").row("r") == {b"f:a": b"1"}


def test_the_error_after_the_death_of_a_private_server_says_to_open_the_folder_again(folder: Path) -> None:
    async def read() -> None:
        async with rowlock.aio.open(folder, timeout=1) as db:
            for server in servers_of(folder):
                server.kill()
            await db.table("t").row("r")

    with rowlock.open(folder, timeout=1) as db:
        table = db.create_table("t", ["f"])
        table.with_options(timeout=WAIT_S).put("r", {"f:a": "1"})
        for server in servers_of(folder):
            server.kill()
        advice = re.escape(f"the private server of {folder} has ended: call rowlock.open({str(folder)!r}) again")
        calls: list[Callable[[], object]] = [
            lambda: table.row("r"),
            lambda: table.put("r", {"f:a": "2"}),
            lambda: list(table.scan()),
            db.tables,
        ]
        for call in calls:
            with pytest.raises(rowlock.DeadlineError, match=advice):
                call()
    with pytest.raises(rowlock.DeadlineError, match=advice):
        asyncio.run(read())
    with rowlock.open(folder) as db:
        assert db.table("t").row("r") == {b"f:a": b"1"}


def test_settings_are_those_of_the_server_that_is_started(folder: Path, tmp_path: Path) -> None:
    with rowlock.open(folder, settings={"memory": "256MiB", "cell_bytes_max": 1000}) as db:
        assert db.status().memory_bytes_max == 256 << 20
        assert db.server_info().limits.cell_bytes_max == 1000
        with rowlock.open(folder, settings={"cell_bytes_max": 2000}) as other:  # joins it
            assert other.server_info().limits.cell_bytes_max == 1000

    async def limit() -> int:
        async with rowlock.aio.open(tmp_path / "other", settings={"cell_bytes_max": 3000}) as db:
            return (await db.server_info()).limits.cell_bytes_max

    assert asyncio.run(limit()) == 3000
    with pytest.raises(rowlock.EmbeddedServerError, match=r"memori.*did you mean 'memory'"):
        rowlock.open(tmp_path / "third", settings={"memori": 1})


def test_a_killed_server_leaves_an_address_that_does_no_harm(folder: Path) -> None:
    with rowlock.open(folder) as db:
        db.create_table("t", ["f"]).put("r", {"f:a": "1"})
        (server,) = servers_of(folder)
        server.kill()
        server.wait(180)
    assert (folder / "address").exists()
    with rowlock.open(folder) as db:
        assert db.table("t").row("r") == {b"f:a": b"1"}


@pytest.mark.parametrize("name", drawn(["n" * 120, "a b#%41,c;é?", "\udcff"], 1, "names of folders"))
def test_a_folder_may_have_any_path(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    for _ in range(2):  # Once it is new, and once a killed server has left its socket.
        with rowlock.open(folder) as db, rowlock.open(folder) as other:
            table = db.create_table("t", ["f"], if_not_exists=True)
            table.put("r", {"f:a": "1"})
            db.flush("t")
            assert other.table("t").row("r") == {b"f:a": b"1"}
            for server in servers_of(folder):
                server.kill()
                server.wait(180)
        assert (folder / "socket").is_socket()


def test_ctrl_c_in_the_client_does_not_reach_it(folder: Path) -> None:
    code = (
        "import rowlock, sys, time\n"
        "db = rowlock.open(sys.argv[1])\n"
        "db.create_table('t', ['f'])\n"
        "sys.stdout.write('ready\\n'); sys.stdout.flush()\n"
        "time.sleep(600)\n"
    )
    client = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert client.stdout is not None
    assert client.stdout.readline() == "ready\n"
    with rowlock.open(folder) as db:
        incarnation = db.server_info().incarnation_id
        # The terminal sends Ctrl-C to the whole group of the client.
        os.killpg(client.pid, signal.SIGINT)
        _, stderr = client.communicate(timeout=180)
        assert "KeyboardInterrupt" in stderr
        assert db.server_info().incarnation_id == incarnation
        assert db.tables() == ["t"]


def test_the_error_for_an_unusable_folder_is_the_servers_message(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "somebody-elses.txt").write_text("not a database")
    with pytest.raises(rowlock.EmbeddedServerError, match="ended with code") as caught:
        rowlock.open(tmp_path / "data")
    assert str(tmp_path / "data") in str(caught.value)


def test_an_empty_name_is_not_taken_for_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for opening in (rowlock.open, rowlock.aio.open):
        with pytest.raises(rowlock.InvalidArgumentError, match="name a folder"):
            opening("")
    assert list(tmp_path.iterdir()) == []


def test_an_idle_client_keeps_its_server_also_after_a_fork(folder: Path) -> None:
    with rowlock.open(folder) as db:
        (server,) = servers_of(folder)
        child = os.fork()
        if child == 0:
            end_at_once(0)
        os.waitpid(child, 0)
        # Longer than the server lingers without a client.
        with pytest.raises(psutil.TimeoutExpired):
            server.wait(8)
        assert db.tables() == []


def test_opening_from_asyncio(folder: Path) -> None:
    async def body() -> None:
        async with rowlock.aio.open(folder) as db:
            table = await db.create_table("t", ["f"])
            await table.put("r", {"f:a": "1"})
            assert await table.row("r") == {b"f:a": b"1"}

    threads_before = threading.active_count()
    asyncio.run(body())
    assert threading.active_count() < threads_before + 20


def test_opening_a_folder_that_a_server_with_an_address_serves_names_the_address(folder: Path) -> None:
    """Once it waited for two minutes. The address stays in the folder when the server is killed."""
    with ServerCommand("--data", folder, "--listen", "127.0.0.1:0") as server:
        address = server.ready()
        for open_folder in (rowlock.open, lambda path: asyncio.run(opened_by_asyncio(path))):
            with pytest.raises(rowlock.EmbeddedServerError, match=rf"use rowlock\.connect\('{address}'\)"):
                open_folder(folder)
    with rowlock.open(folder) as db:
        assert db.tables() == []


async def opened_by_asyncio(folder: Path) -> None:
    async with rowlock.aio.open(folder):
        pass
