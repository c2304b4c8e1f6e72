"""Scans that a point request opens: their first rows, how they go on, and how held ones end."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator

import grpc
import pytest
from rowlock._core import point
from rowlock._core.scan_opening import opening_request
from rowlock.aio._transport.scan_opening import open_scan
from rowlock.aio._transport.servers import Servers
from rowlock_proto.v1 import region_pb2, sessions_pb2, sessions_pb2_grpc, types_pb2
from rowlock_proto.v1.types_pb2 import Error
from rowlock_regionserver.config import Config
from rowlock_regionserver.server import Server

from tests.end_to_end.raw_client import (
    RawClient,
    RawConversation,
    bulk_batch,
    bulk_put,
    evidence,
    mutate,
    put,
    read_batch,
)
from tests.waiting import WAIT_S, wait_until

ROW_COUNT = 2000
ROWS = [b"row%05d" % number for number in range(ROW_COUNT)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    config = Config(scans_open_max=4, scan_held_ms=600_000)
    with Server(tmp_path_factory.mktemp("data") / "folder", config=config) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[RawClient]:
    with RawClient(server.address) as client:
        yield client
    wait_until(lambda: open_count(server) == 0)


@pytest.fixture
def talk(client: RawClient) -> Iterator[RawConversation]:
    talk = RawConversation(client)
    yield talk
    talk.cancel()


def name_of(request: pytest.FixtureRequest) -> str:
    return re.sub(r"\W+", "-", request.node.name)


@pytest.fixture
def region_id(client: RawClient, request: pytest.FixtureRequest) -> int:
    """A region of ROW_COUNT rows of 1 KB."""
    region_id = client.create_table(name_of(request), b"f", b"g")
    batch = bulk_batch([(row, b"f", b"q", 1, row * 100) for row in ROWS])
    assert bulk_put(client, region_id, batch).cell_count == ROW_COUNT
    return region_id


def opening(region_id: int, **fields: object) -> region_pb2.PointRequest:
    scan = region_pb2.ScanRequest(region_id=region_id, **fields)  # type: ignore[arg-type]  # any field
    return region_pb2.PointRequest(id=1, region_id=region_id, open_scan=scan)


def opened(talk: RawConversation, region_id: int, **fields: object) -> region_pb2.OpenedScan:
    answer = talk.ask(opening(region_id, **fields))
    assert answer.WhichOneof("answer") == "opened_scan", answer
    return answer.opened_scan


def rest_of(client: RawClient, region_id: int, held: region_pb2.OpenedScan) -> list[region_pb2.ScanBatch]:
    return list(client.regions.Scan(region_pb2.ScanRequest(region_id=region_id, held_scan=held.held_scan)))


def cells_of(batches: list[region_pb2.ScanBatch]) -> list[tuple[bytes, bytes]]:
    return [(cell["row"], cell["value"]) for batch in batches for cell in read_batch(batch).to_pylist()]


def open_count(server: Server) -> int:
    return server.statistics().engine.scans.open_count


def code_of(call: Callable[[], object]) -> int:
    with pytest.raises(grpc.RpcError) as failed:
        call()
    return evidence(failed.value).code


def test_a_short_scan_is_complete_with_the_answer(
    server: Server, client: RawClient, talk: RawConversation, region_id: int, request: pytest.FixtureRequest
) -> None:
    client.regions.Flush(region_pb2.FlushRequest(table=name_of(request)))
    for fields, rows in (
        ({"row_limit": 10}, ROWS[:10]),
        ({"row_limit": 10, "reverse": True}, ROWS[:-11:-1]),
        ({"ranges": [region_pb2.RowRange(start=ROWS[7], stop=ROWS[9])]}, ROWS[7:9]),
        ({"ranges": [region_pb2.RowRange(start=b"x")]}, []),
    ):
        answer = opened(talk, region_id, **fields)
        assert answer.is_complete
        assert answer.held_scan == 0
        assert [row for row, _ in cells_of(list(answer.batches))] == rows
        assert open_count(server) == 0


def test_of_a_limit_no_row_more_is_returned(client: RawClient, talk: RawConversation, region_id: int) -> None:
    for limit in (1, 49, 50, 300):
        answer = opened(talk, region_id, row_limit=limit)
        batches = list(answer.batches)
        if not answer.is_complete:
            batches += rest_of(client, region_id, answer)
        assert [row for row, _ in cells_of(batches)] == ROWS[:limit]
        assert sum(batch.row_count for batch in batches) == limit


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_goes_on_at_the_same_read_point_without_losing_or_repeating_a_row(
    client: RawClient, talk: RawConversation, region_id: int, reverse: bool, request: pytest.FixtureRequest
) -> None:
    answer = opened(talk, region_id, reverse=reverse)
    first = list(answer.batches)
    assert not answer.is_complete
    assert 0 < sum(batch.row_count for batch in first) < ROW_COUNT
    # Changes that the scan does not see: of rows that it has returned, that it has not, and between.
    changed = [ROWS[0], ROWS[-1], ROWS[1000], b"row01000x"]
    talk.ask(mutate(2, region_id, *[put(row, b"later") for row in changed]))
    client.regions.Flush(region_pb2.FlushRequest(table=name_of(request)))
    batches = [*first, *rest_of(client, region_id, answer)]
    assert {batch.read_point for batch in batches} == {answer.read_point}
    assert cells_of(batches) == [(row, row * 100) for row in (ROWS[::-1] if reverse else ROWS)]


def test_a_held_scan_is_taken_once(client: RawClient, talk: RawConversation, region_id: int) -> None:
    held = opened(talk, region_id)
    assert rest_of(client, region_id, held)
    assert code_of(lambda: rest_of(client, region_id, held)) == Error.LEASE_EXPIRED
    assert code_of(lambda: rest_of(client, region_id, region_pb2.OpenedScan(held_scan=5))) == Error.LEASE_EXPIRED


def test_a_scan_of_another_region_is_refused_and_freed(
    server: Server, client: RawClient, talk: RawConversation, region_id: int
) -> None:
    held = opened(talk, region_id)
    assert code_of(lambda: rest_of(client, region_id + 1, held)) == Error.INVALID_ARGUMENT
    assert open_count(server) == 0


def test_a_held_scan_is_counted_listed_and_freed_on_request(
    server: Server, client: RawClient, talk: RawConversation, region_id: int
) -> None:
    held = [opened(talk, region_id) for _ in range(4)]
    assert open_count(server) == 4
    refused = talk.ask(opening(region_id))
    assert refused.error.code == Error.REGION_TOO_BUSY
    for each in held:
        answer = opened(talk, region_id, held_scan=each.held_scan)
        assert answer.is_complete
        assert not answer.batches
    assert open_count(server) == 0
    assert opened(talk, region_id, held_scan=held[0].held_scan).is_complete  # It is gone already.
    wait_until(lambda: server.statistics().engine.scans.bytes_held == 0)


def test_a_held_scan_is_freed_with_its_connection(server: Server, client: RawClient, region_id: int) -> None:
    talk = RawConversation(client)
    held = opened(talk, region_id)
    assert open_count(server) == 1
    talk.cancel()
    wait_until(lambda: open_count(server) == 0)
    assert code_of(lambda: rest_of(client, region_id, held)) == Error.LEASE_EXPIRED


def test_a_held_scan_ends_with_its_session(
    server: Server, client: RawClient, talk: RawConversation, region_id: int
) -> None:
    sessions = sessions_pb2_grpc.SessionsStub(client.channel)  # type: ignore[no-untyped-call]  # generated code
    session = sessions.OpenSession(sessions_pb2.OpenSessionRequest(session_id="reader", owner="me")).session
    ref = types_pb2.SessionRef(session_id=session.session_id, number=session.number)
    held = opened(talk, region_id, session=ref)
    [listed] = sessions.ListSessions(sessions_pb2.ListSessionsRequest()).sessions
    assert [each.kind for each in listed.held] == [sessions_pb2.HeldItem.KIND_SCAN]
    sessions.EndSession(sessions_pb2.EndSessionRequest(session=ref))
    wait_until(lambda: open_count(server) == 0)
    assert code_of(lambda: rest_of(client, region_id, held)) == Error.SESSION_ENDED


def test_a_held_scan_that_is_ended_as_a_session_says_so(
    server: Server, client: RawClient, talk: RawConversation, region_id: int
) -> None:
    sessions = sessions_pb2_grpc.SessionsStub(client.channel)  # type: ignore[no-untyped-call]  # generated code
    held = opened(talk, region_id, owner="me")
    [listed] = sessions.ListSessions(sessions_pb2.ListSessionsRequest()).sessions
    assert (listed.owner, listed.is_implicit) == ("me", True)
    ref = types_pb2.SessionRef(session_id=listed.session_id)
    sessions.EndSession(sessions_pb2.EndSessionRequest(session=ref))
    assert open_count(server) == 0
    assert code_of(lambda: rest_of(client, region_id, held)) == Error.SESSION_ENDED


def test_a_wrong_request_is_answered_with_its_error(client: RawClient, talk: RawConversation, region_id: int) -> None:
    assert talk.ask(opening(region_id + 1000)).error.code == Error.NOT_SERVING_REGION
    assert talk.ask(opening(region_id, snapshot_id=b"x" * 16)).error.code == Error.SNAPSHOT_ENDED
    columns = [{"family": b"absent"}]
    assert talk.ask(opening(region_id, columns=columns)).error.code == Error.FAMILY_NOT_FOUND


def test_a_scan_that_no_one_goes_on_with_is_freed_by_its_lease(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("data") / "folder"
    with Server(folder, config=Config(scan_held_ms=1)) as server, RawClient(server.address) as client:
        region_id = client.create_table("t", b"f")
        batch = bulk_batch([(row, b"f", b"q", 1, row * 100) for row in ROWS])
        bulk_put(client, region_id, batch)
        talk = RawConversation(client)
        held = opened(talk, region_id)
        assert held.held_scan
        wait_until(lambda: open_count(server) == 0)
        assert server.statistics().engine.scans.lease_expired_count == 1
        assert code_of(lambda: rest_of(client, region_id, held)) == Error.LEASE_EXPIRED
        talk.cancel()


@pytest.mark.parametrize("is_direct", [False, True])
def test_a_scan_whose_task_is_cancelled_at_any_step_of_its_opening_is_not_held(
    server: Server, region_id: int, request: pytest.FixtureRequest, is_direct: bool
) -> None:
    table = name_of(request)

    async def body() -> None:
        servers = Servers((server.address,), is_direct=is_direct)
        deadline = time.monotonic() + WAIT_S
        region = await servers.region_of(table, b"row", deadline)
        await servers.point(point.get(table, [b"row"], None), WAIT_S)  # Connects.
        step_count, is_opened = 0, False
        while not is_opened:
            to_open = opening_request(table, region_pb2.ScanRequest(region_id=region_id))
            assert to_open is not None
            task = asyncio.ensure_future(open_scan(servers, region, to_open, WAIT_S))
            while to_open.answer is None:
                await asyncio.sleep(0)
            for _ in range(step_count):
                await asyncio.sleep(0)
            is_opened = task.done()
            task.cancel()
            await asyncio.wait([task])
            if is_opened:
                task.result().cancel()
            step_count += 1
            await asyncio.to_thread(wait_until, lambda: open_count(server) == 0)
        assert step_count > 1
        await servers.close()

    asyncio.run(body())


def test_a_scan_that_is_cancelled_before_its_call_is_sent_is_not_held(
    server: Server, region_id: int, request: pytest.FixtureRequest
) -> None:
    table = name_of(request)

    async def body() -> None:
        servers = Servers((server.address,), is_direct=False)
        region = await servers.region_of(table, b"row", time.monotonic() + WAIT_S)
        for _ in range(8):  # More than scans_open_max.
            to_open = opening_request(table, region_pb2.ScanRequest(region_id=region_id))
            assert to_open is not None
            (await open_scan(servers, region, to_open, WAIT_S)).cancel()
            await asyncio.to_thread(wait_until, lambda: open_count(server) == 0)
        await servers.close()

    asyncio.run(body())


@pytest.mark.parametrize("is_answered", [False, True])
@pytest.mark.parametrize("is_direct", [False, True])
def test_a_scan_whose_task_is_cancelled_while_it_opens_is_not_held(
    server: Server, region_id: int, request: pytest.FixtureRequest, is_direct: bool, is_answered: bool
) -> None:
    table = name_of(request)

    async def body() -> None:
        servers = Servers((server.address,), is_direct=is_direct)
        deadline = time.monotonic() + WAIT_S
        region = await servers.region_of(table, b"row", deadline)
        await servers.point(point.get(table, [b"row"], None), WAIT_S)  # Connects.
        for _ in range(8):  # More than scans_open_max.
            to_open = opening_request(table, region_pb2.ScanRequest(region_id=region_id))
            assert to_open is not None
            task = asyncio.ensure_future(servers.attempt_in(region, to_open, deadline))
            while not (to_open.answer is not None if is_answered else to_open.sent):
                await asyncio.sleep(0)
            assert not task.done()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        # The answer to the last of them comes after those of the others.
        await servers.point(point.get(table, [b"row"], None), WAIT_S)
        await asyncio.to_thread(wait_until, lambda: open_count(server) == 0)
        await servers.close()

    asyncio.run(body())
