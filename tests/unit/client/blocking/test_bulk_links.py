# Made from tests/unit/client/awaited/test_bulk_links.py by tools/async_to_sync.py: change that, then `make faces`.
"""Direct or by gRPC: which way streams of bulk batches take, why, and which connections they use (threads)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa
import pytest
import rowlock
from rowlock._core import direct_choice
from rowlock._transport.servers import Servers
from rowlock_proto.v1 import direct_pb2, types_pb2

from tests.unit.client.fake_direct import FakeDirect
from tests.unit.client.fake_errors import Mishap, error
from tests.unit.client.fake_server import FakeServer
from tests.unit.client.test_bulk import MAPPING, keys_of, rows
from tests.waiting import wait_until


@pytest.fixture
def way() -> str:
    return "direct"


def direct_of(fake_server: FakeServer) -> FakeDirect:
    assert fake_server.direct is not None
    return fake_server.direct


def written(db: rowlock.Client, *keys: str) -> rowlock.ConnectionStatistics:
    """Writes rows, each in a batch of its own, and returns how that travelled."""
    result = db.table("t").put_arrow([rows(key) for key in keys], MAPPING)
    assert result.row_count == len(keys)
    [connection] = db.statistics().connections
    return connection


def test_one_stream_after_another_uses_one_connection(db: rowlock.Client, fake_server: FakeServer) -> None:
    written(db, "a", "b", "c", "d", "e")
    connection = written(db, "f")
    assert (connection.direct_bulk_streams, connection.grpc_bulk_streams, connection.bulk_reason) == (2, 0, "")
    assert connection.bulk_connections == 1
    assert direct_of(fake_server).accepted_count == 2
    assert [key for message in fake_server.bulks for key in keys_of(message)] == [b"a", b"b", b"c", b"d", b"e", b"f"]


def test_a_large_batch_arrives_whole(db: rowlock.Client, fake_server: FakeServer) -> None:
    data = pa.table({"k": [b"%07d" % number for number in range(20_000)], "v": [bytes(500)] * 20_000})
    result = db.table("t").put_arrow(data, "k BINARY :key, v BINARY f:v")
    assert result.row_count == 20_000
    assert [key for message in fake_server.bulks for key in keys_of(message)] == data["k"].to_pylist()


def test_a_lost_answer_makes_the_stream_go_on_with_another_connection(
    db: rowlock.Client, fake_server: FakeServer
) -> None:
    fake_server.bulk_script.extend([Mishap.NONE, Mishap.ANSWER_IS_LOST])
    connection = written(db, "a", "b", "c")
    assert (connection.direct_bulk_streams, connection.grpc_bulk_streams) == (2, 0)
    assert connection.bulk_connections == 2
    assert {message.sequence for message in fake_server.bulks} == {1, 2, 3}


def test_batches_without_an_answer_are_not_in_doubt_when_the_server_has_ended_the_stream(
    db: rowlock.Client, fake_server: FakeServer
) -> None:
    busy = error(types_pb2.Error.REGION_TOO_BUSY, "no memory for the batch")
    fake_server.bulk_ends.extend([None, busy, busy])
    connection = written(db, "a", "b")
    assert (connection.direct_bulk_streams, connection.grpc_bulk_streams) == (3, 0)
    assert [message.age_ms for message in fake_server.bulks] == [0, 0, 0, 0]
    assert [message.sequence for message in fake_server.bulks] == [1, 2, 2, 2]


def test_a_refused_batch_leaves_the_connection_to_the_next_stream(db: rowlock.Client, fake_server: FakeServer) -> None:
    fake_server.bulk_script.append(error(types_pb2.Error.FAMILY_NOT_FOUND, "no such family"))
    with pytest.raises(rowlock.BulkError, match="no such family"):
        db.table("t").put_arrow(rows("a"), MAPPING)
    assert written(db, "a").bulk_connections == 1


def test_a_stream_without_an_answer_takes_its_connection_with_it(db: rowlock.Client, fake_server: FakeServer) -> None:
    fake_server.bulk_script.append(Mishap.NO_ANSWER)
    with pytest.raises(rowlock.BulkError, match="no answer came"):
        db.table("t", timeout=0.3).put_arrow(rows("a"), MAPPING)
    connection = written(db, "b")
    assert connection.bulk_connections == connection.direct_bulk_streams > 1


def test_a_kept_connection_that_the_server_has_closed_is_not_used(
    db: rowlock.Client, servers: Servers, fake_server: FakeServer
) -> None:
    written(db, "a")
    direct_of(fake_server).cut()
    direct_of(fake_server).wait_until_left()
    connection = written(db, "b")
    assert (connection.direct_bulk_streams, connection.bulk_connections) == (2, 2)
    assert len(fake_server.bulks) == 2


def test_a_connection_that_the_server_closes_between_two_batches_is_replaced(
    db: rowlock.Client, fake_server: FakeServer
) -> None:
    direct = direct_of(fake_server)

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(3):
            yield rows(f"{number}")
            wait_until(lambda count=number + 1: direct.bulk_answer_count == count)  # type: ignore[misc]
            direct.end_of_bulk()

    assert db.table("t").put_arrow(batches(), MAPPING).row_count == 3
    [connection] = db.statistics().connections
    assert (connection.direct_bulk_streams, connection.grpc_bulk_streams) == (3, 0)
    assert [(message.sequence, message.age_ms) for message in fake_server.bulks] == [(1, 0), (2, 0), (3, 0)]


def test_an_earlier_server_gets_batches_by_grpc_and_scans_directly(
    db: rowlock.Client, servers: Servers, fake_server: FakeServer
) -> None:
    fake_server.direct_protocol = 2
    written(db, "a")
    connection = written(db, "b")
    assert (connection.direct_bulk_streams, connection.grpc_bulk_streams) == (0, 2)
    assert "takes no bulk batches" in connection.bulk_reason
    assert direct_of(fake_server).accepted_count == 2, "it is not tried again for a while"
    [link] = servers._links.values()
    assert link.open_for(link.scans, time.monotonic() + 60) is not None


def test_a_server_that_refuses_a_connection_is_tried_again_after_a_pause(
    db: rowlock.Client, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = direct_pb2.DirectWelcome(error=error(types_pb2.Error.REGION_TOO_BUSY, "too many connections"))
    direct_of(fake_server).welcome_for_streams = lambda: busy
    connection = written(db, "a")
    assert (connection.direct_bulk_streams, connection.grpc_bulk_streams) == (0, 1)
    assert connection.bulk_reason == f"{direct_of(fake_server).address}: it refuses: too many connections"
    direct_of(fake_server).welcome_for_streams = None
    assert written(db, "b").grpc_bulk_streams == 2
    monkeypatch.setattr(direct_choice.StreamChoice, "may_open", lambda choice, now: True)
    connection = written(db, "c")
    assert (connection.direct_bulk_streams, connection.grpc_bulk_streams, connection.bulk_reason) == (1, 2, "")


def test_a_client_that_only_sends_batches_finds_a_restarted_server(db: rowlock.Client, fake_server: FakeServer) -> None:
    written(db, "a")
    fake_server.run_id = "second run"
    fake_server.open_direct()
    written(db, "b")  # An event loop notices the lost connection only now.
    before = written(db, "c")
    after = written(db, "d")
    assert after.opened == 2
    assert after.direct_bulk_streams == before.direct_bulk_streams + 1
    assert [key for message in fake_server.bulks for key in keys_of(message)] == [b"a", b"b", b"c", b"d"]


def test_a_batch_that_is_too_large_for_the_server_is_not_sent_and_the_others_are(
    db: rowlock.Client, fake_server: FakeServer
) -> None:
    fake_server.body_bytes_max = 100_000
    large = pa.RecordBatch.from_pydict({"k": ["b"], "v": ["x" * 200_000]})
    with pytest.raises(rowlock.BulkError, match=r"row 'b' takes .* more than request_bytes_max = 100000") as caught:
        db.table("t").put_arrow([rows("a"), large], MAPPING)
    assert isinstance(caught.value.__cause__, rowlock.LimitExceededError)
    assert caught.value.applied == [range(1)]
    assert [keys_of(message) for message in fake_server.bulks][-1] == [b"a"]


def test_a_stream_of_a_closed_client_says_so(db: rowlock.Client, servers: Servers, fake_server: FakeServer) -> None:
    written(db, "a")
    [link] = servers._links.values()
    db.close()
    direct_of(fake_server).wait_until_left()
    assert link.bulk.kept._kept == []
    with pytest.raises(rowlock.ClosedError):
        db.table("t").put_arrow(rows("b"), MAPPING)
