"""The commands compact and compactions, against a recording client."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import pytest
from rowlock.compactions import Compaction

from tests.unit.cli.recording import Console

QUEUED = Compaction(7, "t", "f", 3, "major", "queued", requested_by_hand=True, why="requested by hand", queued_ms=1000)
WORKING = replace(
    QUEUED, state="working", worker="compaction-1", started_ms=2000, bytes_total=3 << 20, bytes_read=1 << 20
)
DONE = replace(
    WORKING, state="succeeded", ended_ms=4500, bytes_read=3 << 20, bytes_written=1 << 20, files_in=5, files_out=1
)
FAILED = replace(WORKING, state="failed", ended_ms=95_000, error="F-7.store is damaged at byte 5")
ATTEMPTED = replace(QUEUED, state="attempted", ended_ms=3000, error="cancelled by hand")


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that commands made; none takes any time. Times are shown in UTC."""
    made: list[float] = []
    monkeypatch.setattr(time, "sleep", made.append)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    return made


def numbered(*found: Compaction) -> list[Compaction]:
    return [replace(each, compaction_id=number) for number, each in enumerate(found, start=1)]


def test_compactions_are_listed_those_at_work_first_then_the_newest(console: Console) -> None:
    newest = replace(DONE, ended_ms=99_000)
    console.client.answers["compactions"] = numbered(DONE, QUEUED, WORKING, newest, FAILED)
    assert console.run("compactions", "t") == 0
    assert console.client.calls == [("compactions", ("t",), {})]
    assert [line.split("\t")[0] for line in console.out.splitlines()] == ["3", "2", "4", "5", "1"]
    assert console.err == ""


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (QUEUED, "queued\t1970-01-01 00:00:01\t\t\t\trequested by hand"),
        (
            DONE,
            "succeeded\t1970-01-01 00:00:04\t2.5 s\t5 to 1 files, 3.0 MiB to 1.0 MiB\tcompaction-1\trequested by hand",
        ),
        (
            FAILED,
            "failed\t1970-01-01 00:01:35\t1 min 33 s\t\tcompaction-1\t"
            "requested by hand: F-7.store is damaged at byte 5",
        ),
        (ATTEMPTED, "attempted\t1970-01-01 00:00:03\t\t\t\trequested by hand: cancelled by hand"),
    ],
)
def test_a_line_says_what_it_did_and_why(console: Console, found: Compaction, line: str) -> None:
    console.client.answers["compactions"] = [found]
    assert console.run("compactions") == 0
    assert console.out == f"7\tt\tf\t3\tmajor\t{line}\n"


def test_a_working_compaction_shows_its_progress(console: Console) -> None:
    console.client.answers["compactions"] = [WORKING]
    assert console.run("compactions") == 0
    assert "\t33 % of 3.0 MiB\tcompaction-1\t" in console.out


def test_a_terminal_gets_columns_reasons_and_counts(console: Console) -> None:
    console.attach_terminal()
    console.client.answers["compactions"] = numbered(replace(DONE, table="flights", why="10 deltas"), QUEUED, FAILED)
    assert console.run("compactions") == 0
    assert console.out.splitlines() == [
        "id  table    family  region  kind   state      since                took        "
        "progress                          worker",
        " 2  t        f            3  major  queued     1970-01-01 00:00:01",
        "    requested by hand",
        " 3  t        f            3  major  failed     1970-01-01 00:01:35  1 min 33 s"
        "                                    compaction-1",
        "    requested by hand: F-7.store is damaged at byte 5",
        " 1  flights  f            3  major  succeeded  1970-01-01 00:00:04  2.5 s       "
        "5 to 1 files, 3.0 MiB to 1.0 MiB  compaction-1",
        "    10 deltas",
        "0 working, 1 queued, 1 succeeded, 1 failed, 0 attempted",
    ]


def test_without_compactions_a_terminal_gets_the_counts_only(console: Console) -> None:
    console.attach_terminal()
    console.client.answers["compactions"] = []
    assert console.run("compactions") == 0
    assert console.out == "0 working, 0 queued, 0 succeeded, 0 failed, 0 attempted\n"


def test_json_has_all_fields(console: Console) -> None:
    console.client.answers["compactions"] = [DONE]
    assert console.run("compactions", "--json") == 0
    [record] = console.records
    assert (record["compaction_id"], record["bytes_read"], record["ended_ms"]) == (7, 3 << 20, 4500)
    assert set(record) == set(Compaction.__slots__)


def test_watch_prints_each_change_once(console: Console, pauses: Sequence[float]) -> None:
    console.client.answers["compactions"] = deque([[QUEUED], [QUEUED], [DONE], KeyboardInterrupt()])
    assert console.run("compactions", "t", "--watch", "--json") == 130
    assert [record["state"] for record in console.records] == ["queued", "succeeded"]
    assert pauses == [1.0] * 3
    assert console.err == "interrupted\n"


def test_watch_on_a_terminal_shows_the_newest_state(console: Console) -> None:
    console.attach_terminal()
    console.client.answers["compactions"] = deque([[QUEUED], [DONE], KeyboardInterrupt()])
    assert console.run("compactions", "--watch") == 130
    assert "3.0 MiB to 1.0 MiB" in console.out
    assert console.err.endswith("interrupted\n")


def test_cancel_shows_what_was_cancelled(console: Console) -> None:
    console.client.answers["cancel_compactions"] = [ATTEMPTED]
    assert console.run("compactions", "--cancel", "7") == 0
    assert console.client.calls == [("cancel_compactions", ([7],), {})]
    assert "cancelled by hand" in console.out
    assert console.run("compactions", "--cancel", "7", "--cancel", "8") == 2
    assert "there is no compaction 8; 'rowlock compactions' lists them" in console.err
    assert console.run("compactions", "t", "--cancel", "7") == 2
    assert "--cancel takes ids" in console.err
    assert console.run("compactions", "--cancel", "abc") == 2
    assert "'--cancel': 'abc' is not an integer. " in console.err


def test_compact_requests_and_shows_what_is_queued(console: Console) -> None:
    console.client.answers["compact"] = [QUEUED]
    words = ("compact", "t", "--family", "f", "--major", "--property", "compaction.files_max=9")
    assert console.run(*words) == 0
    assert console.client.calls == [
        ("compact", ("t",), {"major": True, "families": ["f"], "properties": {"compaction.files_max": "9"}})
    ]
    assert console.out.startswith("7\tt\tf\t3\tmajor\tqueued\t")


def test_wait_returns_when_all_are_over(console: Console, pauses: Sequence[float]) -> None:
    console.client.answers |= {"compact": [QUEUED], "compactions": deque([[QUEUED], [WORKING], [DONE]])}
    assert console.run("compact", "t", "--wait") == 0
    assert console.client.calls[1:] == [("compactions", (), {"ids": [7]})] * 3
    assert len(pauses) == 2
    assert "succeeded" in console.out


def test_wait_shows_a_bar_on_a_terminal(console: Console) -> None:
    console.attach_terminal()
    console.client.answers |= {"compact": [QUEUED], "compactions": deque([[QUEUED], [WORKING], [DONE]])}
    assert console.run("compact", "t", "--wait") == 0
    assert "MiB" in console.err


@pytest.mark.parametrize(
    ("ended", "message"),
    [
        (FAILED, "compaction 7 of table t failed: F-7.store is damaged at byte 5"),
        (ATTEMPTED, "compaction 7 of table t did not start: cancelled by hand"),
    ],
)
def test_wait_ends_with_an_error_if_one_did_not_succeed(console: Console, ended: Compaction, message: str) -> None:
    console.client.answers |= {"compact": [QUEUED], "compactions": [ended]}
    assert console.run("compact", "t", "--wait") == 2
    assert message in console.err
    assert ended.state in console.out


def test_wait_notices_a_restart_of_the_server(console: Console) -> None:
    console.client.answers |= {"compact": [QUEUED], "compactions": []}
    assert console.run("compact", "t", "--wait") == 2
    assert "compaction 7 is not known any more: the server was restarted" in console.err


def test_an_interrupted_wait_says_that_the_compaction_continues(console: Console) -> None:
    console.client.answers |= {"compact": [QUEUED], "compactions": deque([[WORKING], KeyboardInterrupt()])}
    assert console.run("compact", "t", "--wait") == 130
    assert console.err == (
        "the compaction continues on the server; 'rowlock compactions --cancel 7' cancels it\ninterrupted\n"
    )
