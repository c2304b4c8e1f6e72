"""The soak finds what it is there to find: a broken promise of a bulk write or of a session is a problem."""

from __future__ import annotations

import contextlib
import dataclasses
import random
from pathlib import Path

import pytest
import rowlock
from rowlock.pytest_plugin import RowlockServer

from tests.soak.chores import families
from tests.soak.drawn_cells import CellDraw
from tests.soak.expiring_sessions import ExpiringSessions
from tests.soak.writer import Writer

_TABLE = "soak"
_TIME_TO_LIVE_MS = 3_600_000


def filled_writer(client: rowlock.Client) -> Writer:
    client.create_table(_TABLE, families(_TIME_TO_LIVE_MS), durability="os")
    writer = Writer(client, _TABLE, 0, 60, _TIME_TO_LIVE_MS, seed=1)
    writer.fill()
    client.split(_TABLE, writer.rows[30])
    return writer


def expiring(client: rowlock.Client, folder: Path, writer: Writer) -> tuple[ExpiringSessions, list[str]]:
    problems: list[str] = []
    generator = random.Random(1)
    draw = CellDraw(generator, _TIME_TO_LIVE_MS)
    return ExpiringSessions(client, folder, _TABLE, writer.rows, draw, problems.append, generator), problems


def write_until(writer: Writer, client: rowlock.Client, what: str) -> None:
    while not writer.bulk_writes.counts[what]:
        writer.bulk_writes.write(client)


def test_bulk_writes_of_all_kinds_keep_their_promises(rowlock_client: rowlock.Client) -> None:
    writer = filled_writer(rowlock_client)
    for what in ("over several regions", "that replace a range", "aborted", "with a repeated identity"):
        write_until(writer, rowlock_client, f"bulk writes {what}")
    assert [*writer.problems, *writer.bulk_writes.problems] == []


def test_an_aborted_bulk_write_that_becomes_visible_is_found(
    rowlock_client: rowlock.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = filled_writer(rowlock_client)
    monkeypatch.setattr(rowlock.BulkWrite, "abort", rowlock.BulkWrite.commit)
    write_until(writer, rowlock_client, "bulk writes aborted")
    assert any(problem.startswith("an aborted bulk write") for problem in writer.problems)


def test_an_identity_that_is_forgotten_is_found(
    rowlock_client: rowlock.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = filled_writer(rowlock_client)
    opened = rowlock_client.bulk_write
    monkeypatch.setattr(
        rowlock_client,
        "bulk_write",
        lambda table, identity, **options: opened(table, identity=None, **options),
    )
    write_until(writer, rowlock_client, "bulk writes with a repeated identity")
    assert writer.bulk_writes.problems == ["a commit answered is_repeated=False, expected True"]
    assert any(problem.startswith("a repeated identity") for problem in writer.problems)


def test_a_replacement_that_hides_nothing_is_found(
    rowlock_client: rowlock.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = filled_writer(rowlock_client)
    opened = rowlock_client.bulk_write
    monkeypatch.setattr(
        rowlock_client, "bulk_write", lambda table, replace, **options: opened(table, replace=False, **options)
    )
    write_until(writer, rowlock_client, "bulk writes that replace a range")
    assert any(problem.startswith("a bulk write that replaces") for problem in writer.problems)


def test_sessions_that_expire_leave_nothing(rowlock_server: RowlockServer, rowlock_client: rowlock.Client) -> None:
    writer = filled_writer(rowlock_client)
    sessions, problems = expiring(rowlock_client, rowlock_server.folder, writer)
    while not all(sessions.counts[f"sessions that expired with a {kind}"] for kind in ("lock", "bulk write")):
        sessions.turn()
    writer.scan((writer.prefix, writer.prefix + b"\xff"))
    assert [*problems, *writer.problems] == []


def test_what_an_ended_session_leaves_is_found(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = filled_writer(rowlock_client)
    sessions, problems = expiring(rowlock_client, rowlock_server.folder, writer)
    with rowlock_client.session("leaves a lock and staged rows", session_id="leaving") as session:
        rowlock_client.lock(_TABLE, "shared", region=rowlock_client.regions(_TABLE)[0].region_id, session=session)
        write = rowlock_client.bulk_write(_TABLE, session=session)
        write.put(writer.rows[0], {b"f:a": b""})
        # Judged as if it had ended: it holds all of it.
        monkeypatch.setattr(
            rowlock_client, "sessions", lambda ended: _as_if_expired(rowlock_server.address, session.id)
        )
        monkeypatch.setattr(rowlock_client, "lock", lambda table, mode, purpose: contextlib.nullcontext())
        sessions._judge(session.id, ("lock", "bulk write"))
    assert sorted(problems) == [
        "session leaving has ended, and its bulk write is still staged",
        "session leaving has ended, and its lock is still there",
    ]


def _as_if_expired(address: str, session_id: str) -> list[rowlock.SessionInfo]:
    with rowlock.connect(address) as other:
        [info] = [each for each in other.sessions() if each.session_id == session_id]
    return [dataclasses.replace(info, state="ended", reason="it had no heartbeat for 1 s")]
