"""Sessions of a real server, by the client and by the command line."""

from __future__ import annotations

import asyncio
import gc
import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rowlock
from rowlock.cli.main import main
from rowlock.pytest_plugin import RowlockServer
from rowlock_regionserver.server import Server

from tests.waiting import wait_until

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(rowlock_server: RowlockServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line. Returns (exit code, standard output, standard error)."""
    monkeypatch.setenv("ROWLOCK_SERVER", rowlock_server.address)
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    def command(*words: str) -> tuple[int, str, str]:
        exit_code = main(words)
        captured = capsys.readouterr()
        return exit_code, captured.out, captured.err

    return command


def listed(db: rowlock.Client, session_id: str) -> list[rowlock.SessionInfo]:
    return [info for info in db.sessions() if info.session_id == session_id]


def test_a_session_is_listed_with_what_it_holds_until_its_block_ends(rowlock_client: rowlock.Client) -> None:
    table = rowlock_client.create_table("t", ["f"])
    table.put(b"r", {b"f:q": b"1"})
    with rowlock_client.session("nightly load", session_id="load-42", idle_s=60) as session:
        snapshot = rowlock_client.snapshot("t", session=session)
        [info] = listed(rowlock_client, "load-42")
        assert (info.purpose, info.state, info.idle_ms, info.number) == ("nightly load", "open", 60_000, session.number)
        assert f" pid {__import__('os').getpid()}" in info.owner
        assert info.held == (rowlock.HeldItem("snapshot", "t", "snapshot of t"),)
        assert len(list(table.scan(snapshot=snapshot, session=session))) == 1
        assert rowlock_client.session("again", session_id="load-42").number == session.number
    assert listed(rowlock_client, "load-42") == []
    [ended] = [info for info in rowlock_client.sessions(ended=True) if info.number == session.number]
    assert (ended.state, ended.reason, [item.text for item in ended.held]) == (
        "ended",
        "its owner ended it",
        ["snapshot of t"],
    )
    with pytest.raises(rowlock.SnapshotEndedError, match="its session ended"):
        list(table.scan(snapshot=snapshot))
    with pytest.raises(rowlock.SessionEndedError, match="was ended by its client"):
        rowlock_client.snapshot("t", session=session)


def test_a_client_that_is_closed_leaves_no_lock_and_no_bulk_write(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client
) -> None:
    rowlock_client.create_table("t", ["f"])
    leaving = rowlock.connect(rowlock_server.address)
    lock = leaving.lock("t", "shared")
    write = leaving.bulk_write("t")
    write.put(b"r", {"f:q": b"1"})
    leaving.session("a session that others know by its id", session_id="load-42")
    assert len(rowlock_client.sessions()) == 3
    leaving.close()
    assert [info.session_id for info in rowlock_client.sessions()] == ["load-42"]
    assert (lock.is_held, write.session.is_open) == (False, False)
    rowlock_client.drop_table("t")


def test_a_client_can_be_closed_when_its_server_is_gone(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server:
        leaving = rowlock.connect(server.address)
        leaving.create_table("t", ["f"])
        lock = leaving.lock("t", "shared")
    leaving.close()
    assert not lock.is_held


def test_a_session_that_an_operator_ends_is_ended_for_its_owner(rowlock_client: rowlock.Client, run: Run) -> None:
    session = rowlock_client.session("job", session_id="job-1")
    exit_code, out, err = run("sessions", "end", "job-1")
    assert (exit_code, err) == (0, "")
    assert "\tended\t" in out
    with pytest.raises(rowlock.SessionEndedError, match="ended it; what it held is gone") as caught:
        session.renew()
    assert caught.value.ended_ms > 0
    assert "ended it" in caught.value.reason
    assert not session.is_open
    exit_code, _, err = run("sessions", "end", "job-1")
    assert exit_code == 2
    assert "session 'job-1' is not open: " in err


def test_the_heartbeat_keeps_a_session_and_stops_when_it_is_dropped(rowlock_client: rowlock.Client) -> None:
    session = rowlock_client.session("short", session_id="short", idle_s=2)
    number, first = session.number, listed(rowlock_client, "short")[0].heartbeat_ms
    wait_until(lambda: listed(rowlock_client, "short")[0].heartbeat_ms >= first + 2500)
    assert session.is_open
    del session
    gc.collect()
    wait_until(lambda: not listed(rowlock_client, "short"))
    [ended] = [info for info in rowlock_client.sessions(ended=True) if info.number == number]
    assert ended.reason == "it had no heartbeat for 2 s"


def test_a_scan_ends_with_its_session(rowlock_client: rowlock.Client) -> None:
    table = rowlock_client.create_table("t", ["f"])
    with table.batch() as batch:
        for number in range(3000):
            batch.put(b"%04d" % number, {b"f:q": bytes(2000)})
    session = rowlock_client.session("reading", session_id="reading")
    with table.scan(session=session, batch_bytes=1000, strict=True) as scan:
        next(iter(scan))
        [info] = listed(rowlock_client, "reading")
        assert [item.kind for item in info.held] == ["scan"]
        rowlock_client.end_session("reading", reason="enough")
        with pytest.raises(rowlock.SessionEndedError, match="enough"):
            list(scan)


def test_a_scan_and_a_snapshot_without_a_session_are_listed_and_ended(rowlock_client: rowlock.Client) -> None:
    table = rowlock_client.create_table("t", ["f"])
    with table.batch() as batch:
        for number in range(3000):
            batch.put(b"%04d" % number, {b"f:q": bytes(2000)})
    snapshot = rowlock_client.snapshot("t", lease_s=50)
    with table.scan(batch_bytes=1000, strict=True) as scan:
        next(iter(scan))
        mine = [info for info in rowlock_client.sessions() if info.is_implicit and info.held[0].table == "t"]
        assert sorted(info.held[0].kind for info in mine) == ["scan", "snapshot"]
        for info in mine:
            rowlock_client.end_session(info.session_id, reason="enough")
        with pytest.raises(rowlock.SessionEndedError, match="enough"):
            list(scan)
    with pytest.raises(rowlock.SnapshotEndedError, match="enough"):
        list(table.scan(snapshot=snapshot))
    rowlock_client.drop_table("t")


def test_the_end_of_a_session_leaves_a_snapshot_that_is_listed_under_its_id(rowlock_client: rowlock.Client) -> None:
    table = rowlock_client.create_table("t", ["f"])
    table.put(b"r", {b"f:q": b"1"})
    with rowlock_client.snapshot("t") as snapshot:
        [mine] = [info for info in rowlock_client.sessions() if info.is_implicit and info.held[0].table == "t"]
        for by_id in (False, True):
            session = rowlock_client.session("a load", session_id=mine.session_id)
            if by_id:
                rowlock_client.end_session(session.id)
            else:
                session.end()
            assert list(table.scan(snapshot=snapshot))
            with pytest.raises(rowlock.SessionEndedError):
                rowlock_client.snapshot("t", session=session)
        rowlock_client.end_session(mine.session_id)
        with pytest.raises(rowlock.SnapshotEndedError):
            list(table.scan(snapshot=snapshot))


def test_impossible_sessions_are_refused_before_they_are_opened(rowlock_client: rowlock.Client) -> None:
    for wrong in (0, -1, float("nan")):
        with pytest.raises(rowlock.InvalidArgumentError, match="idle_s must be more than 0 seconds"):
            rowlock_client.session(idle_s=wrong)
    with pytest.raises(TypeError, match="idle_s must be a number of seconds"):
        rowlock_client.session(idle_s=True)
    with pytest.raises(TypeError, match="idle_s must be a number of seconds"):
        rowlock_client.session(idle_s="1")  # type: ignore[arg-type]
    with pytest.raises(rowlock.LimitExceededError, match="session_idle_ms_max"):
        rowlock_client.session(idle_s=86_401)
    with pytest.raises(rowlock.InvalidArgumentError, match="is not a session id"):
        rowlock_client.session(session_id="a b")
    with (
        rowlock_client.session(session_id="mine", owner="ana"),
        pytest.raises(rowlock.InvalidArgumentError, match="is open already, by ana"),
    ):
        rowlock_client.session(session_id="mine", owner="kim")
    with pytest.raises(TypeError, match=r"session must be a result of db\.session\(\)"):
        rowlock_client.snapshot("t", session="mine")  # type: ignore[arg-type]


def test_a_restart_ends_sessions_and_says_so(rowlock_server: RowlockServer, rowlock_client: rowlock.Client) -> None:
    session = rowlock_client.session("job", session_id="job-2")
    rowlock_server.kill()
    rowlock_server.restart()
    with pytest.raises(rowlock.SessionEndedError, match="or was restarted since"):
        session.renew()
    with rowlock_client.session("job", session_id="job-2") as again:
        assert again.number > session.number


def test_the_commands_show_what_an_operator_needs(rowlock_client: rowlock.Client, run: Run) -> None:
    with rowlock_client.session("nightly load", session_id="load-43", owner="ana@db7"):
        [line] = [line for line in run("sessions")[1].splitlines() if line.startswith("load-43")]
        assert line.split("\t")[1:4] == ["ana@db7", "nightly load", "open"]
        records = [json.loads(line) for line in run("sessions", "--json")[1].splitlines()]
        [record] = [each for each in records if each["session_id"] == "load-43"]
        assert (record["owner"], record["idle_ms"], record["held"]) == ("ana@db7", 300_000, [])
    assert "load-43" not in run("sessions")[1]
    assert re.search(r"^load-43\t.*\tended\t.*its owner ended it$", run("sessions", "--ended")[1], re.MULTILINE)
    assert run("sessions", "kill", "load-43")[0] == 2


def test_sessions_and_locks_of_the_asyncio_client(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client
) -> None:
    rowlock_client.create_table("t", ["f"])

    async def test() -> None:
        async with rowlock.aio.connect(rowlock_server.address) as db:
            async with db.session("job", session_id="aio", idle_s=2) as session:
                first = (await db.sessions())[-1].heartbeat_ms
                async with db.lock("t", "exclusive", session=session) as lock:
                    await lock.check()
                    assert [info.holder for info in await db.locks("t")] == ["aio"]
                    with pytest.raises(rowlock.LockUnavailableError):
                        await db.lock("t", "shared", wait_s=0, retries=0)
                while (await db.sessions())[-1].heartbeat_ms < first + 2500:
                    await asyncio.sleep(0.01)
            assert not session.is_open
            assert await db.locks() == []

    asyncio.run(test())


def test_what_is_no_text_is_a_type_error_that_names_the_argument(rowlock_client: rowlock.Client) -> None:
    db: Any = rowlock_client  # any types
    db.create_table("t", ["f"])
    calls: list[tuple[str, Callable[[], object]]] = [
        ("purpose", lambda: db.session(5)),
        ("owner", lambda: db.session(owner=b"me")),
        ("reason", lambda: db.end_session("job", reason=5)),
        ("purpose", lambda: db.bulk_write("t", purpose=5)),
        ("purpose", lambda: db.lock("t", "shared", purpose=5)),
    ]
    for argument, call in calls:
        with pytest.raises(TypeError, match=rf"^{argument} must be a str, not (int|bytes)$"):
            call()
    with pytest.raises(TypeError, match=r"^tables must be a list of names, not int$"):
        db.lock(5, "shared")


def test_what_is_no_session_is_a_type_error(rowlock_client: rowlock.Client) -> None:
    rowlock_client.create_table("t", ["f"])
    for call in (rowlock_client.bulk_write, lambda name, session: rowlock_client.lock(name, "shared", session=session)):
        with pytest.raises(TypeError, match=r"a result of db.session\(\), not 'job'"):
            call("t", session="job")  # type: ignore[call-overload]
