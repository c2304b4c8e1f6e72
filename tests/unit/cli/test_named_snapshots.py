from __future__ import annotations

from dataclasses import asdict

import pytest
from rowlock import SnapshotNotFoundError
from rowlock.named_snapshot import NamedSnapshot

from tests.unit.cli.recording import Console

LISTED = [
    NamedSnapshot("before", "t", 1_785_283_202_000, 2, 5, 25 << 20, 3 << 19),
    NamedSnapshot("lost", "gone", 0, 1, 0, 0, 0, error="/data/regions/7: No such file or directory"),
]


def test_they_are_shown_with_what_they_hold(console: Console) -> None:
    console.client.answers["named_snapshots"] = LISTED
    assert console.run("snapshots") == 0
    assert console.client.calls == [("named_snapshots", (), {})]
    whole, damaged = (line.split("\t") for line in console.out.splitlines())
    assert (whole[:2], whole[3:]) == (["before", "t"], ["2", "5", "25.0 MiB", "1.5 MiB"])
    assert damaged[3:] == ["1", "", "", "damaged: /data/regions/7: No such file or directory"]
    assert console.run("snapshots", "--json") == 0
    assert console.records == [asdict(each) for each in LISTED]


def test_they_are_created_restored_and_dropped(console: Console) -> None:
    console.client.answers["create_snapshot"] = LISTED[0]
    for words in (("create", "before", "t"), ("restore", "before", "new"), ("drop", "before")):
        assert console.run("snapshots", *words) == 0
        assert console.client.calls == [(f"{words[0]}_snapshot", words[1:], {})]
        assert console.out == ""
    assert console.run("snapshots", "create", "before", "t", "--json") == 0
    assert console.records == [asdict(LISTED[0])]


@pytest.mark.parametrize("words", [("create", "a"), ("restore",), ("drop",), ("remove", "a"), ("drop", "a", "b")])
def test_other_forms_are_refused(console: Console, words: tuple[str, ...]) -> None:
    assert console.run("snapshots", *words) == 2
    assert "create NAME TABLE" in console.err
    assert console.client.calls == []


def test_an_unknown_snapshot_is_an_error(console: Console) -> None:
    console.client.answers["drop_snapshot"] = SnapshotNotFoundError("there is no named snapshot 'a'")
    assert console.run("snapshots", "drop", "a") == 2
    assert "there is no named snapshot 'a'" in console.err
