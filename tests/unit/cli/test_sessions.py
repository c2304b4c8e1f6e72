"""The commands sessions and locks, against a recording client; what they show is what the documentation shows."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from rowlock.errors import SessionEndedError
from rowlock.session_info import HeldItem, LockInfo, SessionInfo

from tests.unit.cli.recording import Console

_DOCS = Path(__file__).parents[3] / "docs"
NOW_MS = 1785287445_000  # 2026-07-29 01:10:45 UTC
LOAD = SessionInfo(
    "load-42",
    7,
    "ana@db7 pid 811 load.py",
    "nightly load",
    "open",
    started_ms=NOW_MS - 643_000,
    heartbeat_ms=NOW_MS - 41_000,
    idle_ms=300_000,
    held=(
        HeldItem("lock", "flights", "exclusive lock of flights"),
        HeldItem("bulk write", "flights", "bulk write of flights (31.2 MiB)"),
    ),
)
READING = SessionInfo(
    "9c1f0a2e77d04c1b",
    0,
    "kim@etl pid 77 etl.py",
    "reading",
    "open",
    started_ms=NOW_MS,
    heartbeat_ms=NOW_MS - 3000,
    idle_ms=3_600_000,
    held=(HeldItem("snapshot", "flights", "snapshot of flights"),),
)
ENDED = replace(LOAD, state="ended", ended_ms=NOW_MS, reason="its owner ended it", held=LOAD.held[:1])
HELD = LockInfo(
    "flights",
    None,
    "exclusive",
    True,
    "load-42",
    LOAD.owner,
    "nightly load",
    number=1042,
    since_ms=LOAD.started_ms,
    heartbeat_ms=LOAD.heartbeat_ms,
)
WAITING = LockInfo(
    "flights",
    12,
    "exclusive",
    False,
    "call-1893",
    READING.owner,
    "split a region",
    number=0,
    since_ms=NOW_MS,
    waits_for=("load-42",),
    waits_until_ms=NOW_MS + 9000,
)


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are shown in UTC, at one moment."""
    monkeypatch.setattr(time, "time", lambda: NOW_MS / 1000)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def assert_shown_in(page: str, text: str) -> None:
    assert text in (_DOCS / page).read_text(), text


def test_a_terminal_shows_sessions_as_the_page_does(console: Console) -> None:
    console.attach_terminal()
    console.client.answers["sessions"] = [LOAD, READING]
    assert console.run("sessions") == 0
    assert console.out.splitlines()[1].split() == [
        *("load-42", "open", "2026-07-29", "01:00:02", "0:00:41", "0:05:00", "nightly", "load"),
    ]
    assert_shown_in("sessions.md", "$ rowlock sessions\n" + console.out)


def test_an_ended_session_says_when_and_why(console: Console) -> None:
    console.attach_terminal()
    console.client.answers["sessions"] = [ENDED]
    assert console.run("sessions", "--ended") == 0
    assert console.out.splitlines()[2] == (
        "    ana@db7 pid 811 load.py: ended 2026-07-29 01:10:45, its owner ended it; released: exclusive lock of "
        "flights"
    )


def test_a_terminal_shows_locks_as_the_page_does(console: Console) -> None:
    console.attach_terminal()
    console.client.answers["locks"] = [HELD, WAITING]
    assert console.run("locks", "flights") == 0
    assert console.out.splitlines()[-1].endswith("blocked by load-42")
    assert_shown_in("locks.md", "$ rowlock locks flights\n" + console.out)
    assert console.run("locks", "flights", "--extended") == 0
    assert [line.split()[-3:] for line in console.out.splitlines()[:2]] == [
        ["heartbeat", "refused", "in"],
        ["01:00:02", "1042", "0:00:41"],
    ]
    assert console.out.splitlines()[3].split()[-2:] == ["01:10:45", "0:00:09"]


def test_programs_get_one_line_each(console: Console) -> None:
    console.client.answers["sessions"] = [LOAD, ENDED]
    assert console.run("sessions") == 0
    open_line, ended_line = [line.split("\t") for line in console.out.splitlines()]
    assert open_line == [
        *("load-42", LOAD.owner, "nightly load", "open", "2026-07-29 01:00:02", "0:00:41", "0:05:00"),
        "exclusive lock of flights, bulk write of flights (31.2 MiB)",
    ]
    assert ended_line[3:] == [
        *("ended", "2026-07-29 01:00:02", "2026-07-29 01:10:45", "0:05:00"),
        "its owner ended it; released: exclusive lock of flights",
    ]
    console.client.answers["locks"] = [HELD, WAITING]
    assert console.run("locks", "--extended") == 0
    held, waiting = [line.split("\t") for line in console.out.splitlines()]
    assert held == [
        *("flights", "", "exclusive", "held", "load-42", LOAD.owner, "2026-07-29 01:00:02", "nightly load", ""),
        *("1042", "0:00:41", ""),
    ]
    assert waiting[4:] == [
        *("call-1893", READING.owner, "2026-07-29 01:10:45", "split a region", "load-42", "", "", "0:00:09"),
    ]
    assert console.run("locks") == 0
    assert [len(line.split("\t")) for line in console.out.splitlines()] == [9, 9]


def test_a_terminal_is_told_that_there_are_none_and_a_program_gets_nothing(console: Console) -> None:
    console.client.answers["sessions"] = console.client.answers["locks"] = []
    for words in (["sessions"], ["locks"], ["locks", "--json"]):
        assert console.run(*words) == 0
        assert console.out == ""
    console.attach_terminal()
    assert console.run("sessions") == 0
    assert console.out == "no sessions\n"
    assert console.run("locks") == 0
    assert console.out == "no locks\n"


def test_ending_a_session_that_is_not_open_says_where_the_open_ones_are(console: Console) -> None:
    console.client.answers["end_session"] = SessionEndedError("open a new one", reason="its owner ended it")
    assert console.run("sessions", "end", "load-42") == 2
    assert console.err == (
        "rowlock: session 'load-42' is not open: its owner ended it; 'rowlock sessions' lists the open ones\n"
    )
