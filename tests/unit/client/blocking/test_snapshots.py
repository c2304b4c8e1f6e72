# Made from tests/unit/client/awaited/test_snapshots.py by tools/async_to_sync.py: change that, then `make faces`.
"""Snapshots and splits of a server that fails in between (threads)."""

from __future__ import annotations

import pytest
import rowlock
from rowlock._transport.servers import Servers
from rowlock_proto.v1 import types_pb2

from tests.unit.client.fake_errors import Mishap, error
from tests.unit.client.fake_server import FakeServer


def test_a_lost_answer_makes_no_second_snapshot(db: rowlock.Client, fake_server: FakeServer) -> None:
    fake_server.snapshot_script.extend([Mishap.ANSWER_IS_LOST, Mishap.ANSWER_IS_LOST])
    snapshot = db.snapshot("t", lease_s=2.5)
    assert snapshot.made_ms == 7
    assert [(request.snapshot_id, request.lease_ms) for request in fake_server.snapshots] == [(snapshot.id, 2500)] * 3
    assert db.snapshot("t").id != snapshot.id


def test_a_call_that_has_ended_is_not_repeated(db: rowlock.Client, fake_server: FakeServer) -> None:
    fake_server.snapshot_script.append(error(types_pb2.Error.SNAPSHOT_ENDED, "gone"))
    with pytest.raises(rowlock.SnapshotEndedError, match="gone") as caught:
        db.snapshot("t")
    assert not caught.value.can_retry
    assert len(fake_server.snapshots) == 1


def test_leaving_the_block_raises_nothing_of_its_own(db: rowlock.Client) -> None:
    """This server has no EndSnapshot; the snapshot ends with its lease."""
    with db.snapshot("t") as snapshot:
        pass
    with pytest.raises(rowlock.InvalidArgumentError):
        snapshot.end()
    with pytest.raises(ZeroDivisionError), db.snapshot("t"):
        raise ZeroDivisionError
    assert "of 't'" in repr(snapshot)


def test_a_server_of_an_earlier_version_has_no_status(
    db: rowlock.Client, servers: Servers, fake_server: FakeServer
) -> None:
    servers.protocols[fake_server.address] = 3
    with pytest.raises(rowlock.InvalidArgumentError, match="is of an earlier version and can't show its status"):
        db.status()


def test_regions_that_moved_are_looked_up_again_for_splits(db: rowlock.Client, fake_server: FakeServer) -> None:
    moved = error(types_pb2.Error.NOT_SERVING_REGION)
    busy = error(types_pb2.Error.REGION_TOO_BUSY)
    fake_server.plan_script.extend([moved, busy])
    expected = [rowlock.Split(((b"a", b"b"), (b"c", b"")), 5)]
    assert db.table("t").splits(ranges=[("a", "b"), ("c", None)], columns=["f:q"], part_bytes=9) == expected
    assert fake_server.locate_count == 2
    assert [(plan.part_bytes, plan.columns[0].family) for plan in fake_server.plans] == [(9, b"f")] * 3
    fake_server.plan_script.append(error(types_pb2.Error.FAMILY_NOT_FOUND))
    with pytest.raises(rowlock.FamilyNotFoundError):
        db.table("t").splits()


def test_a_client_that_was_closed_gives_no_splits(fake_server: FakeServer) -> None:
    with rowlock.connect(fake_server.address, timeout=5) as db:
        table = db.table("t")
    with pytest.raises(rowlock.ClosedError):
        table.splits()
