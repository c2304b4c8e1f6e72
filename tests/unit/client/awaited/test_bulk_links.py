"""Direct or by gRPC: which way streams of bulk batches take, why, and which connections they use (asyncio)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest
import rowlock
from rowlock._core import direct_choice
from rowlock.aio._transport.servers import Servers
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


async def written(db: rowlock.aio.Client, *keys: str) -> rowlock.ConnectionStatistics:
    """Writes rows, each in a batch of its own, and returns how that travelled."""
    result = await db.table("t").put_arrow([rows(key) for key in keys], MAPPING)
    assert result.row_count == len(keys)
    [connection] = db.statistics().connections
    return connection


async def test_one_stream_after_another_uses_one_connection(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    await written(db, "a", "b", "c", "d", "e")
    connection = await written(db, "f")
    assert (connection.direct_bulk_streams, connection.grpc_bulk_streams, connection.bulk_reason) == (2, 0, "")
    assert connection.bulk_connections == 1
    assert direct_of(fake_server).accepted_count == 2
    assert [key for message in fake_server.bulks for key in keys_of(message)] == [b"a", b"b", b"c", b"d", b"e", b"f"]


async def test_a_large_batch_arrives_whole(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    data = pa.table({"k": [b"%07d" % number for number in range(20_000)], "v": [bytes(500)] * 20_000})
    result = await db.table("t").put_arrow(data, "k BINARY :key, v BINARY f:v")
    assert result.row_count == 20_000
    assert [key for message in fake_server.bulks for key in keys_of(message)] == data["k"].to_pylist()


async def test_a_lost_answer_makes_the_stream_go_on_with_another_connection(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    fake_server.bulk_script.extend([Mishap.NONE, Mishap.ANSWER_IS_LOST])
    connection = await written(db, "a", "b", "c")
    assert (connection.direct_bulk_streams, connection.grpc_bulk_streams) == (2, 0)
    assert connection.bulk_connections == 2
    assert {message.sequence for message in fake_server.bulks} == {1, 2, 3}


async def test_batches_without_an_answer_are_not_in_doubt_when_the_server_has_ended_the_stream(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    busy = error(types_pb2.Error.REGION_TOO_BUSY, "no memory for the batch")
    fake_server.bulk_ends.extend([None, busy, busy])
    connection = await written(db, "a", "b")
    assert (connection.direct_bulk_streams, connection.grpc_bulk_streams) == (3, 0)
    assert [message.age_ms for message in fake_server.bulks] == [0, 0, 0, 0]
    assert [message.sequence for message in fake_server.bulks] == [1, 2, 2, 2]


async def test_a_refused_batch_leaves_the_connection_to_the_next_stream(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    fake_server.bulk_script.append(error(types_pb2.Error.FAMILY_NOT_FOUND, "no such family"))
    with pytest.raises(rowlock.BulkError, match="no such family"):
        await db.table("t").put_arrow(rows("a"), MAPPING)
    assert (await written(db, "a")).bulk_connections == 1


async def test_a_stream_without_an_answer_takes_its_connection_with_it(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    fake_server.bulk_script.append(Mishap.NO_ANSWER)
    with pytest.raises(rowlock.BulkError, match="no answer came"):
        await db.table("t", timeout=0.3).put_arrow(rows("a"), MAPPING)
    connection = await written(db, "b")
    assert connection.bulk_connections == connection.direct_bulk_streams > 1


async def test_a_kept_connection_that_the_server_has_closed_is_not_used(
    db: rowlock.aio.Client, servers: Servers, fake_server: FakeServer
) -> None:
    await written(db, "a")
    direct_of(fake_server).cut()
    await asyncio.to_thread(direct_of(fake_server).wait_until_left)
    connection = await written(db, "b")
    assert (connection.direct_bulk_streams, connection.bulk_connections) == (2, 2)
    assert len(fake_server.bulks) == 2


async def test_a_connection_that_the_server_closes_between_two_batches_is_replaced(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    direct = direct_of(fake_server)

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(3):
            yield rows(f"{number}")
            wait_until(lambda count=number + 1: direct.bulk_answer_count == count)  # type: ignore[misc]
            direct.end_of_bulk()

    assert (await db.table("t").put_arrow(batches(), MAPPING)).row_count == 3
    [connection] = db.statistics().connections
    assert (connection.direct_bulk_streams, connection.grpc_bulk_streams) == (3, 0)
    assert [(message.sequence, message.age_ms) for message in fake_server.bulks] == [(1, 0), (2, 0), (3, 0)]


async def test_an_earlier_server_gets_batches_by_grpc_and_scans_directly(
    db: rowlock.aio.Client, servers: Servers, fake_server: FakeServer
) -> None:
    fake_server.direct_protocol = 2
    await written(db, "a")
    connection = await written(db, "b")
    assert (connection.direct_bulk_streams, connection.grpc_bulk_streams) == (0, 2)
    assert "takes no bulk batches" in connection.bulk_reason
    assert direct_of(fake_server).accepted_count == 2, "it is not tried again for a while"
    [link] = servers._links.values()
    assert await link.open_for(link.scans, time.monotonic() + 60) is not None


async def test_a_server_that_refuses_a_connection_is_tried_again_after_a_pause(
    db: rowlock.aio.Client, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = direct_pb2.DirectWelcome(error=error(types_pb2.Error.REGION_TOO_BUSY, "too many connections"))
    direct_of(fake_server).welcome_for_streams = lambda: busy
    connection = await written(db, "a")
    assert (connection.direct_bulk_streams, connection.grpc_bulk_streams) == (0, 1)
    assert connection.bulk_reason == f"{direct_of(fake_server).address}: it refuses: too many connections"
    direct_of(fake_server).welcome_for_streams = None
    assert (await written(db, "b")).grpc_bulk_streams == 2
    monkeypatch.setattr(direct_choice.StreamChoice, "may_open", lambda choice, now: True)
    connection = await written(db, "c")
    assert (connection.direct_bulk_streams, connection.grpc_bulk_streams, connection.bulk_reason) == (1, 2, "")


async def test_a_client_that_only_sends_batches_finds_a_restarted_server(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    await written(db, "a")
    fake_server.run_id = "second run"
    fake_server.open_direct()
    await written(db, "b")  # An event loop notices the lost connection only now.
    before = await written(db, "c")
    after = await written(db, "d")
    assert after.opened == 2
    assert after.direct_bulk_streams == before.direct_bulk_streams + 1
    assert [key for message in fake_server.bulks for key in keys_of(message)] == [b"a", b"b", b"c", b"d"]


async def test_a_batch_that_is_too_large_for_the_server_is_not_sent_and_the_others_are(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    fake_server.body_bytes_max = 100_000
    large = pa.RecordBatch.from_pydict({"k": ["b"], "v": ["x" * 200_000]})
    with pytest.raises(rowlock.BulkError, match=r"row 'b' takes .* more than request_bytes_max = 100000") as caught:
        await db.table("t").put_arrow([rows("a"), large], MAPPING)
    assert isinstance(caught.value.__cause__, rowlock.LimitExceededError)
    assert caught.value.applied == [range(1)]
    assert [keys_of(message) for message in fake_server.bulks][-1] == [b"a"]


async def test_a_stream_of_a_closed_client_says_so(
    db: rowlock.aio.Client, servers: Servers, fake_server: FakeServer
) -> None:
    await written(db, "a")
    [link] = servers._links.values()
    await db.close()
    await asyncio.to_thread(direct_of(fake_server).wait_until_left)
    assert link.bulk.kept._kept == []
    with pytest.raises(rowlock.ClosedError):
        await db.table("t").put_arrow(rows("b"), MAPPING)
