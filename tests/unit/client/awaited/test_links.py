"""Direct or by gRPC: which way point operations and scans take, why, and what happens when a way ends (asyncio)."""

from __future__ import annotations

import asyncio
import select
import socket
import time
from collections.abc import Iterator
from functools import partial

import pytest
import rowlock
from rowlock._core import direct_choice
from rowlock._transport.stream_sockets import StreamSocket
from rowlock.aio._transport.servers import Servers
from rowlock_proto.direct_frames import SCAN_BODY_BYTES_MAX
from rowlock_proto.v1 import direct_pb2, region_pb2, types_pb2

from tests.unit.client.fake_direct import FakeDirect
from tests.unit.client.fake_errors import Mishap, error
from tests.unit.client.fake_server import FakeServer
from tests.unit.client.test_scans import batch
from tests.waiting import wait_until


@pytest.fixture
def way() -> str:
    return "direct"


def connection_of(db: rowlock.aio.Client) -> rowlock.ConnectionStatistics:
    [connection] = db.statistics().connections
    return connection


def direct_of(fake_server: FakeServer) -> FakeDirect:
    assert fake_server.direct is not None
    return fake_server.direct


async def test_point_operations_go_over_a_direct_connection(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    table = db.table("t")
    assert db.statistics().connections == ()
    for number in range(1, 4):
        assert await table.increment("row", "f:n") == number
    assert connection_of(db) == rowlock.ConnectionStatistics(
        server=fake_server.address,
        direct=direct_of(fake_server).address,
        reason="",
        opened=1,
        direct_requests=3,
        grpc_requests=0,
    )
    assert (fake_server.direct_message_count, fake_server.grpc_message_count) == (3, 0)
    assert fake_server.info_count == 1, "what the server said when connecting is enough"


async def test_a_server_without_a_direct_port_is_not_asked_again(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    direct_of(fake_server).stop()
    fake_server.direct = None
    table = db.table("t")
    for _ in range(5):
        await table.row("row")
    connection = connection_of(db)
    assert (connection.direct, connection.grpc_requests) == (None, 5)
    assert connection.reason == "the server does not offer direct connections"
    assert fake_server.info_count == 2


async def test_a_direct_port_that_refuses_connections_is_reported_and_grpc_is_used(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    direct_of(fake_server).stop()
    table = db.table("t")
    await table.put("row", {"f:q": "1"})
    assert await table.row("row") == {b"f:q": b"1"}
    connection = connection_of(db)
    assert (connection.direct, connection.opened, connection.grpc_requests) == (None, 0, 2)
    assert direct_of(fake_server).address in connection.reason
    assert fake_server.info_count == 2, "it is asked again only once for a while"


async def test_a_direct_port_that_is_there_again_is_used_again(
    db: rowlock.aio.Client, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_choice, "_PAUSE_S_MIN", 0.0)
    monkeypatch.setattr(direct_choice, "_PAUSE_FACTOR", 0.0)
    direct_of(fake_server).stop()
    table = db.table("t")
    await table.increment("row", "f:n")
    fake_server.open_direct()
    assert await table.increment("row", "f:n") == 2
    connection = connection_of(db)
    assert (connection.direct, connection.reason) == (direct_of(fake_server).address, "")
    assert (connection.direct_requests, connection.grpc_requests) == (1, 1)


@pytest.mark.parametrize(("folder_id", "run_id"), [("another", "run"), ("", "another")])
async def test_another_server_at_the_announced_address_gets_no_request(
    db: rowlock.aio.Client, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch, folder_id: str, run_id: str
) -> None:
    """Another folder's, or one of a copy of the folder: the address was used again."""
    other = direct_pb2.DirectWelcome(data_folder_id=folder_id, incarnation_id=run_id, body_bytes_max=1000)
    direct_of(fake_server)._welcome = lambda: other
    table = db.table("t")
    assert await table.increment("row", "f:n") == 1
    assert fake_server.direct_message_count == 0
    connection = connection_of(db)
    assert (connection.direct, connection.grpc_requests) == (None, 1)
    assert "another server is there" in connection.reason


async def test_a_server_that_refuses_a_direct_connection_is_used_by_grpc(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    busy = direct_pb2.DirectWelcome(error=error(types_pb2.Error.REGION_TOO_BUSY, "too many connections"))
    direct_of(fake_server)._welcome = lambda: busy
    assert await db.table("t").increment("row", "f:n") == 1
    assert "it refuses: too many connections" in connection_of(db).reason


async def test_a_restarted_server_is_found_at_its_new_port(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    table = db.table("t")
    assert await table.increment("row", "f:n") == 1
    before = direct_of(fake_server).address
    fake_server.run_id = "second run"
    fake_server.open_direct()
    assert await table.increment("row", "f:n") == 2
    connection = connection_of(db)
    assert connection.direct == direct_of(fake_server).address != before
    assert (connection.opened, connection.reason, connection.grpc_requests) == (2, "", 0)
    assert fake_server.grpc_message_count == 0


async def test_a_server_that_took_over_the_port_of_a_restarted_one_gets_no_request(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    table = db.table("t")
    assert await table.increment("row", "f:n") == 1
    theirs = direct_of(fake_server)
    theirs._welcome = lambda: direct_pb2.DirectWelcome(
        data_folder_id="theirs", incarnation_id="theirs", body_bytes_max=1000
    )
    fake_server.direct = None  # So it is not stopped.
    fake_server.run_id = "second run"
    fake_server.open_direct()
    messages = fake_server.direct_message_count
    theirs.cut()
    assert await table.increment("row", "f:n") == 2
    assert connection_of(db).direct == direct_of(fake_server).address
    assert fake_server.direct_message_count == messages + 1
    theirs.stop()


async def test_a_change_in_doubt_is_repeated_by_grpc_and_counts_once(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    table = db.table("t")
    await table.row("row")
    direct = direct_of(fake_server)
    direct._welcome = lambda: direct_pb2.DirectWelcome(error=error(types_pb2.Error.SERVER_STOPPING, "no more"))
    fake_server.script.append(Mishap.ANSWER_IS_LOST)
    assert await table.increment("row", "f:n") == 1
    assert fake_server.repeated_count == 1
    assert [request.mutate.mutations[0].sequence for request in fake_server.requests[1:]] == [1, 1]
    assert fake_server.requests[-1].mutate.mutations[0].age_ms > 0
    connection = connection_of(db)
    assert (connection.direct_requests, connection.grpc_requests) == (2, 1)


async def test_after_a_lost_stream_an_upgraded_server_is_reached_directly(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    direct_of(fake_server).stop()
    fake_server.direct = None
    table = db.table("t")
    await table.row("row")
    fake_server.open_direct()
    fake_server.script.append(Mishap.ANSWER_IS_LOST)
    assert await table.increment("row", "f:n") == 1
    assert connection_of(db).direct == direct_of(fake_server).address


async def test_a_change_that_found_no_server_is_certainly_not_made(fake_server: FakeServer) -> None:
    async with rowlock.aio.connect(fake_server.address, timeout=60) as db:
        table = db.table("t")
        await table.row("row")
        fake_server.stop()
        with pytest.raises((rowlock.DeadlineError, rowlock.UnknownOutcomeError)):
            await table.with_options(timeout=0.3).put("row", {"f:q": "1"})
        # From here on the client knows that there is no connection.
        with pytest.raises(rowlock.DeadlineError, match="Nothing was changed"):
            await table.with_options(timeout=0.3).put("row", {"f:q": "1"})


# Scans


async def scanned(db: rowlock.aio.Client, fake_server: FakeServer) -> rowlock.ConnectionStatistics:
    """Scans the table once, and returns how that travelled."""
    fake_server.scan = lambda request: iter([batch(b"a", b"b")])
    assert [row async for row, _ in db.table("t").scan()] == [b"a", b"b"]
    return connection_of(db)


async def test_one_scan_after_another_uses_one_connection(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    await scanned(db, fake_server)
    connection = await scanned(db, fake_server)
    assert (connection.direct_scans, connection.grpc_scans, connection.scan_reason) == (2, 0, "")
    assert connection.scan_connections == 1
    assert direct_of(fake_server).accepted_count == 2


async def test_scans_at_a_time_have_connections_of_their_own(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    fake_server.scan = lambda request: iter([batch(b"a"), batch(b"b")])
    table = db.table("t")
    for _ in range(2):
        scans = [table.scan() for _ in range(3)]
        assert [(await anext(scan))[0] for scan in scans] == [b"a"] * 3
        for scan in scans:
            assert [row async for row, _ in scan] == [b"b"]
    connection = connection_of(db)
    assert (connection.direct_scans, connection.scan_connections) == (6, 3)


async def test_a_scan_with_a_limit_leaves_its_connection_to_the_next_one(
    db: rowlock.aio.Client, servers: Servers, fake_server: FakeServer
) -> None:
    fake_server.scan = lambda request: iter([batch(b"a")])
    for _ in range(2):
        assert [row async for row, _ in db.table("t").scan(limit=1)] == [b"a"]
        [link] = servers._links.values()
        [left] = link.scans.kept._kept
        assert left.is_ending
        await asyncio.to_thread(wait_until, partial(has_bytes, left))
    assert connection_of(db).scan_connections == 1


def has_bytes(left: StreamSocket) -> bool:
    return left.reader.has_bytes or bool(select.select([left.socket], [], [], 0)[0])


async def test_a_scan_that_ends_early_closes_its_connection(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    fake_server.scan = lambda request: iter([batch(b"a"), batch(b"b")])
    for _ in range(2):
        async with db.table("t").scan() as scan:
            assert (await anext(scan))[0] == b"a"
    assert connection_of(db).scan_connections == 2


async def test_a_scan_begins_again_if_the_server_has_just_closed_the_kept_connection(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    await scanned(db, fake_server)
    lost = [ConnectionResetError()]

    def answers(request: region_pb2.ScanRequest) -> Iterator[region_pb2.ScanBatch]:
        if lost:
            raise lost.pop()
        yield batch(b"a")

    fake_server.scan = answers
    scan = db.table("t").scan()
    assert [row async for row, _ in scan] == [b"a"]
    assert not lost
    connection = connection_of(db)
    assert (connection.direct_scans, connection.grpc_scans, connection.scan_connections) == (2, 0, 2)


async def test_a_kept_connection_that_the_server_has_closed_is_not_used(
    db: rowlock.aio.Client, servers: Servers, fake_server: FakeServer
) -> None:
    await scanned(db, fake_server)
    [link] = servers._links.values()
    opened = await link.open_for(link.scans, time.monotonic() + 60)
    assert opened is not None
    opened.socket.shutdown(socket.SHUT_RDWR)
    link.scans.kept.keep(opened, is_ending=False)
    assert (await scanned(db, fake_server)).scan_connections == 2


async def test_a_scan_whose_request_can_not_be_sent_on_a_kept_connection_begins_on_another_one(
    db: rowlock.aio.Client, servers: Servers, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scanned(db, fake_server)
    [link] = servers._links.values()
    for _ in range(2):
        opened = await link.open_for(link.scans, time.monotonic() + 60)
        assert opened is not None
        opened.socket.shutdown(socket.SHUT_RDWR)
        monkeypatch.setattr(type(opened), "is_ready", lambda opened: True)
        link.scans.kept.keep(opened, is_ending=False)
        connection = await scanned(db, fake_server)
    assert (connection.direct_scans, connection.grpc_scans, connection.scan_connections) == (3, 0, 3)


async def test_closing_the_client_closes_its_kept_connections(
    db: rowlock.aio.Client, servers: Servers, fake_server: FakeServer
) -> None:
    await scanned(db, fake_server)
    [link] = servers._links.values()
    await db.close()
    await asyncio.to_thread(direct_of(fake_server).wait_until_left)
    assert link.scans.kept._kept == []


async def test_an_earlier_server_is_scanned_by_grpc(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    fake_server.direct_protocol = 1
    await scanned(db, fake_server)
    connection = await scanned(db, fake_server)
    assert (connection.direct_scans, connection.grpc_scans) == (0, 2)
    assert connection.direct == direct_of(fake_server).address
    assert "takes no scans" in connection.scan_reason
    assert direct_of(fake_server).accepted_count == 2, "it is not tried again for a while"


async def test_a_server_that_refuses_a_connection_for_a_scan_is_tried_again_after_a_pause(
    db: rowlock.aio.Client, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = direct_pb2.DirectWelcome(error=error(types_pb2.Error.REGION_TOO_BUSY, "too many connections"))
    direct_of(fake_server).welcome_for_streams = lambda: busy
    connection = await scanned(db, fake_server)
    assert (connection.direct_scans, connection.grpc_scans) == (0, 1)
    assert connection.scan_reason == f"{direct_of(fake_server).address}: it refuses: too many connections"
    direct_of(fake_server).welcome_for_streams = None
    assert (await scanned(db, fake_server)).grpc_scans == 2
    monkeypatch.setattr(direct_choice.StreamChoice, "may_open", lambda choice, now: True)
    connection = await scanned(db, fake_server)
    assert (connection.direct_scans, connection.grpc_scans, connection.scan_reason) == (1, 2, "")


async def test_a_port_that_takes_no_more_connections_is_scanned_by_grpc(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    await db.table("t").row("row")
    direct_of(fake_server).stop_listening()
    connection = await scanned(db, fake_server)
    assert (connection.direct_scans, connection.grpc_scans) == (0, 1)
    assert connection.direct == direct_of(fake_server).address
    assert connection.scan_reason


async def test_a_client_that_only_scans_finds_a_restarted_server(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    await scanned(db, fake_server)
    fake_server.run_id = "second run"
    fake_server.open_direct()
    await scanned(db, fake_server)  # An event loop notices the lost connection only now.
    connection = await scanned(db, fake_server)
    assert connection.direct_scans + connection.grpc_scans == 3
    assert (connection.direct_scans >= 2, connection.opened) == (True, 2)


async def test_a_scan_with_a_large_request_goes_by_grpc(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    fake_server.scan = lambda request: iter([batch(b"a")])
    start = b"\0" * SCAN_BODY_BYTES_MAX
    assert [row async for row, _ in db.table("t").scan(start)] == [b"a"]
    connection = connection_of(db)
    assert (connection.direct_scans, connection.grpc_scans, connection.scan_reason) == (0, 1, "")


async def test_a_closed_client_opens_no_scan(db: rowlock.aio.Client, servers: Servers, fake_server: FakeServer) -> None:
    await scanned(db, fake_server)
    [link] = servers._links.values()
    opened = await link.open_for(link.scans, time.monotonic() + 60)
    assert opened is not None
    connected = opened.socket

    class Scan:
        is_cancelled = False

        def cancel(self, reason: rowlock.RowlockError | None = None) -> None:
            self.is_cancelled = True
            connected.close()

        def forget(self) -> None:
            raise AssertionError("nothing forks")

    await db.close()
    scan = Scan()
    with pytest.raises(rowlock.ClosedError):
        link.enter(scan, link.scans)
    assert scan.is_cancelled


async def test_closing_the_client_ends_its_scans(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    fake_server.scan = lambda request: iter([batch(b"a"), batch(b"b")])
    scan = db.table("t").scan()
    assert (await anext(scan))[0] == b"a"
    await db.close()
    with pytest.raises(rowlock.ClosedError):
        await anext(scan)
