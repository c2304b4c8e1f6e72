"""Which way point operations take, by the clock; and where a direct connection may be opened."""

from __future__ import annotations

import pytest
from rowlock._core.direct import Announcement, announcement_of, targets
from rowlock._core.direct_choice import DirectChoice
from rowlock_proto.v1 import catalog_pb2

HERE = Announcement("127.0.0.1:7461", "/data/direct", "folder", "run")


def test_failures_are_repeated_after_a_hundred_times_their_duration_and_ever_later() -> None:
    choice = DirectChoice()
    choice.learned(HERE, "")
    assert choice.may_open(0.0)
    choice.failed("refused", began=10.0, now=10.001)
    assert choice.has_fallen_back
    assert not choice.may_open(11.0)
    assert choice.may_open(11.1)
    choice.failed("refused", began=20.0, now=20.0)
    assert not choice.may_open(21.9)
    assert choice.may_open(22.0)
    choice.failed("slow", began=30.0, now=31.0)
    assert not choice.may_open(130.9)
    assert choice.may_open(131.0)
    for _ in range(50):
        choice.failed("slow", began=0.0, now=100.0)
    assert choice.may_open(700.0)
    choice.opened()
    assert not choice.has_fallen_back
    choice.failed("refused", began=1000.0, now=1000.0)
    assert choice.may_open(1001.0)


def test_what_failed_is_asked_for_again() -> None:
    choice = DirectChoice()
    choice.learned(HERE, "")
    choice.failed("refused", 0.0, 0.0)
    assert not choice.is_known


def test_a_lost_connection_is_opened_again_at_once_from_what_is_known() -> None:
    choice = DirectChoice()
    choice.learned(HERE, "")
    choice.opened()
    choice.lost()
    assert choice.may_open(0.0)
    assert choice.is_known


def test_after_a_lost_stream_the_server_is_asked_again() -> None:
    choice = DirectChoice()
    choice.learned(None, "")
    choice.not_offered()
    assert not choice.may_open(1e12)
    choice.lost()
    assert choice.may_open(0.0)
    assert not choice.is_known


def test_scans_without_a_connection_are_tried_again_after_a_hundred_times_the_attempt_or_five_seconds() -> None:
    choice = DirectChoice()
    choice.learned(HERE, "")
    choice.opened()
    assert choice.scans.may_open(0.0)
    choice.scans.failed("too many", began=10.0, now=10.001)
    assert choice.scans.reason == "too many"
    assert not choice.has_fallen_back
    assert choice.may_open(10.0)
    assert not choice.scans.may_open(15.0)
    assert choice.scans.may_open(15.1)
    choice.scans.failed("slow", began=20.0, now=21.0)
    assert not choice.scans.may_open(120.9)
    assert choice.scans.may_open(121.0)
    choice.scans.failed("slow", began=0.0, now=100.0)
    assert choice.scans.may_open(700.0)
    choice.scans.opened()
    assert choice.scans.reason == ""


@pytest.mark.parametrize("way", ["lost", "opened"])
def test_scans_are_tried_at_once_when_a_connection_was_lost_or_opened(way: str) -> None:
    choice = DirectChoice()
    choice.scans.failed("refused", began=10.0, now=10.0)
    choice.lost() if way == "lost" else choice.opened()
    assert choice.scans.may_open(10.0)


@pytest.mark.parametrize(("folder_id", "is_used"), [("", True), ("folder", True), ("another", False)])
def test_an_announcement_of_another_folder_is_not_used(folder_id: str, is_used: bool) -> None:
    choice = DirectChoice()
    choice.learned(HERE, folder_id)
    assert (choice.announcement is not None) == is_used


@pytest.mark.parametrize(
    ("server", "found"),
    [
        ("127.0.0.1:7460", ["unix:/data/direct", "127.0.0.1:7461"]),
        ("localhost:7460", ["unix:/data/direct", "127.0.0.1:7461"]),
        ("[::1]:7460", ["unix:/data/direct", "127.0.0.1:7461"]),
        # A path on another machine says nothing here.
        ("db.example:7460", ["127.0.0.1:7461"]),
        ("10.127.0.1:7460", ["127.0.0.1:7461"]),
        # A folder may have another path here than for the server.
        ("unix:/mnt/data/socket", ["unix:/mnt/data/direct", "unix:/data/direct", "127.0.0.1:7461"]),
        ("unix:/data/socket", ["unix:/data/direct", "127.0.0.1:7461"]),
    ],
)
def test_a_socket_is_tried_only_on_the_same_machine(server: str, found: list[str]) -> None:
    assert targets(HERE, server) == found


def test_what_is_not_announced_is_not_tried() -> None:
    assert targets(Announcement("", "/data/direct", "f", "r"), "db.example:1") == []
    assert targets(Announcement("h:1", "", "f", "r"), "localhost:1") == ["h:1"]
    assert announcement_of(catalog_pb2.ServerInfoResponse()) is None
