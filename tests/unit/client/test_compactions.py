"""Requests for compactions, and when the wait for them is over."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rowlock._core.catalog import alter_request, create_request
from rowlock._core.compactions import CompactionWait, compact_request, compaction_ids
from rowlock.compactions import Compaction, compaction_from
from rowlock.errors import CompactionError, DeadlineError, InvalidArgumentError
from rowlock_proto.v1 import catalog_pb2

QUEUED = Compaction(1, "t", "f", 3, "minor", "queued")
DONE = replace(QUEUED, state="succeeded")
FAILED = replace(QUEUED, compaction_id=2, state="failed", error="F-7.store is damaged")


def test_properties_are_sent_as_text_and_none_drops_one() -> None:
    created = create_request("t", ["f"], "fsync", (), {"a": True, "b": 5, "c": 0.5, "d": "x"})
    assert dict(created.table.properties) == {"a": "true", "b": "5", "c": "0.5", "d": "x"}
    altered = alter_request("t", None, (), None, {"a": False, "b": None})
    assert (dict(altered.set_properties), list(altered.drop_properties)) == ({"a": "false"}, ["b"])


def test_malformed_requests_are_refused_before_they_are_sent() -> None:
    with pytest.raises(TypeError, match="the value of property 'a' must be str, bool, int or float, not list"):
        create_request("t", ["f"], "fsync", (), {"a": []})
    with pytest.raises(TypeError, match="the name of a property must be str, not int"):
        alter_request("t", None, (), None, {1: None})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="properties must be a mapping"):
        alter_request("t", None, (), None, ["a"])  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="families is empty"):
        compact_request("t", [], None, major=False)
    with pytest.raises(TypeError, match="ids must be a list"):
        compaction_ids("12")  # type: ignore[arg-type]
    for wrong in (-1, 1 << 63):
        with pytest.raises(InvalidArgumentError, match="is not the id of a compaction"):
            compaction_ids([wrong])


def test_an_unknown_kind_or_state_of_a_later_server_is_no_error() -> None:
    message = catalog_pb2.Compaction(id=1, family=b"\xff", kind=9, state=9)  # type: ignore[arg-type]
    found = compaction_from(message)
    assert (found.family, found.state, found.started_ms, found.is_over) == ("\\xff", "working", None, False)


def test_the_wait_is_over_when_all_have_succeeded() -> None:
    wait = CompactionWait("t", [1], 0.0, None)
    pauses = [wait.pause_s([QUEUED], 0.0) for _ in range(10)]
    assert pauses[0] == 0.05
    assert pauses[-1] == 1.0
    assert wait.pause_s([DONE], 0.0) is None


def test_the_wait_ends_with_the_error_of_the_first_that_did_not_succeed() -> None:
    attempted = replace(FAILED, compaction_id=4, state="attempted", error="cancelled by hand")
    wait = CompactionWait("t", [1, 2, 4], 0.0, None)
    with pytest.raises(CompactionError, match=r"region 3 of table 't' failed: F-7\.store is damaged; 1 more") as e:
        wait.pause_s([DONE, FAILED, attempted], 0.0)
    assert e.value.ids == [2, 4]
    with pytest.raises(CompactionError, match="did not start: cancelled by hand"):
        CompactionWait("t", [4], 0.0, None).pause_s([attempted], 0.0)


def test_the_wait_ends_at_its_deadline_and_the_compaction_continues() -> None:
    wait = CompactionWait("t", [1], 0.0, 0.07)
    assert wait.pause_s([QUEUED], 0.04) == pytest.approx(0.03)
    with pytest.raises(DeadlineError, match=r"did not end within 0\.07 s; it continues on the server"):
        wait.pause_s([QUEUED], 0.07)


def test_a_compaction_that_the_server_does_not_know_any_more_ends_the_wait() -> None:
    with pytest.raises(CompactionError, match="compaction 2 of table 't' is not known any more"):
        CompactionWait("t", [1, 2], 0.0, None).pause_s([DONE], 0.0)
