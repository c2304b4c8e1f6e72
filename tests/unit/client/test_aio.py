"""The asyncio client against a server that loses, refuses and delays; and the names of both faces."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pyarrow as pa
import pytest
import rowlock
from rowlock._core.bulk_parts import Bulk
from rowlock._core.bulk_send import BulkSend
from rowlock.aio._transport import bulk_stream
from rowlock.aio._transport.bulk_stream import BulkCall
from rowlock.aio._transport.servers import Servers
from rowlock.schema import Region
from rowlock_proto.v1 import region_pb2, types_pb2

from tests.unit.client.fake_errors import Mishap
from tests.unit.client.fake_server import FakeServer
from tests.unit.client.pauses import in_each_pause
from tests.unit.client.test_scans import batch
from tests.waiting import WAIT_S

BOTH_WAYS = True
Error = types_pb2.Error


def run(server: FakeServer, body: Callable[[rowlock.aio.Client], Awaitable[object]], timeout: float = 5) -> None:
    async def with_client() -> None:
        async with rowlock.aio.connect(server.address, timeout=timeout) as db:
            await body(db)

    asyncio.run(with_client())


@pytest.mark.parametrize(
    ("threaded", "awaited"),
    [
        (rowlock.Client, rowlock.aio.Client),
        (rowlock.Table, rowlock.aio.Table),
        (rowlock.Batch, rowlock.aio.Batch),
        (rowlock.Scan, rowlock.aio.Scan),
    ],
)
def test_both_faces_have_the_same_names_and_arguments(threaded: type, awaited: type) -> None:
    def names(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert names(threaded) == names(awaited)
    for name in names(threaded):
        if callable(getattr(threaded, name)):
            ours, theirs = inspect.signature(getattr(threaded, name)), inspect.signature(getattr(awaited, name))
            assert list(ours.parameters.values()) == list(theirs.parameters.values()), name


def test_waiting_requests_of_tasks_share_a_message(fake_server: FakeServer) -> None:
    async def body(db: rowlock.aio.Client) -> None:
        table = db.table("t")
        await asyncio.gather(*(table.put(f"row{number}", {"f:q": "1"}) for number in range(100)))

    run(fake_server, body)
    assert len(fake_server.rows) == 100
    assert len(fake_server.message_sizes) < 50
    assert fake_server.locate_count == 1


def test_a_cancelled_call_leaves_the_stream_to_the_others(fake_server: FakeServer) -> None:
    async def body(db: rowlock.aio.Client) -> None:
        table = db.table("t", timeout=30)
        fake_server.script.append(Mishap.NO_ANSWER)
        task = asyncio.create_task(table.put("row", {"f:q": "1"}))
        await asyncio.to_thread(fake_server.wait_until, lambda server: len(server.requests) == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await table.put("row", {"f:q": "2"})

    run(fake_server, body)
    assert fake_server.stream_count == 1
    assert fake_server.floors[-1] == 2


def test_a_scan_that_is_cancelled_while_it_waits_does_not_look_complete(fake_server: FakeServer) -> None:
    is_over = threading.Event()

    def scan(request: region_pb2.ScanRequest) -> Iterator[region_pb2.ScanBatch]:
        is_over.wait(WAIT_S)
        yield from ()

    async def body(db: rowlock.aio.Client) -> None:
        async with db.table("t").scan() as scanning:
            task = asyncio.ensure_future(anext(scanning))
            await asyncio.to_thread(fake_server.wait_until, lambda server: len(server.scans) == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            with pytest.raises(rowlock.InvalidArgumentError, match="an interruption has ended the scan"):
                await anext(scanning)
        is_over.set()

    fake_server.scan = scan
    run(fake_server, body)


def test_a_put_arrow_that_is_cancelled_while_its_input_is_read_releases_its_numbers(
    fake_server: FakeServer,
) -> None:
    has_begun, may_go_on, has_gone_on = threading.Event(), threading.Event(), threading.Event()

    def slow() -> Iterator[pa.RecordBatch]:
        has_begun.set()
        assert may_go_on.wait(WAIT_S)
        yield pa.record_batch({"k": ["x"], "v": ["1"]})

    def next_of(send: BulkSend, now: float) -> Bulk | None:
        try:
            return pull(send, now)
        finally:
            has_gone_on.set()

    async def body(db: rowlock.aio.Client) -> None:
        task = asyncio.create_task(db.table("t").put_arrow(slow(), "k STRING :key, v STRING f:v"))
        assert await asyncio.to_thread(has_begun.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        may_go_on.set()
        assert await asyncio.to_thread(has_gone_on.wait, 60)
        await db.table("t").put("row", {"f:q": "1"})
        (put,) = fake_server.requests[-1].mutate.mutations
        assert put.sequence == fake_server.floors[-1], "a number below is waited for"

    pull = BulkSend.next
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(BulkSend, "next", next_of)
        run(fake_server, body)


def test_put_arrow_to_a_server_that_accepts_no_batch_ends_in_time(
    fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(message: bytes) -> None:
        await asyncio.Event().wait()

    def open_call(servers: Servers, region: Region) -> BulkCall:
        call = opened(servers, region)
        monkeypatch.setattr(call, "write", never)
        return call

    fake_server.direct_protocol = 2  # Batches go by gRPC.
    opened = bulk_stream.open_call
    monkeypatch.setattr(bulk_stream, "open_call", open_call)

    async def body(db: rowlock.aio.Client) -> None:
        data = pa.table({"k": ["x"], "v": ["1"]})
        async with asyncio.timeout(60):
            with pytest.raises(rowlock.BulkError, match="no batch was accepted") as caught:
                await db.table("t", timeout=0.2).put_arrow(data, "k STRING :key, v STRING f:v")
        assert [span for span, _ in caught.value.unknown] == [range(1)]

    run(fake_server, body)


def test_a_closed_client_says_so_and_wakes_waiting_callers(fake_server: FakeServer) -> None:
    async def body() -> None:
        db = await rowlock.aio.connect(fake_server.address, timeout=30)
        fake_server.script.append(Mishap.NO_ANSWER)
        task = asyncio.create_task(db.table("t").put("row", {"f:q": "1"}))
        await asyncio.to_thread(fake_server.wait_until, lambda server: len(server.requests) == 1)
        await db.close()
        await db.close()
        with pytest.raises(rowlock.UnknownOutcomeError, match="closed"):
            await task
        with pytest.raises(rowlock.ClosedError):
            await db.table("t").row("row")
        with pytest.raises(rowlock.ClosedError):
            await db.tables()

    asyncio.run(body())


Calling = Callable[[rowlock.aio.Client], Awaitable[object]]


@pytest.mark.parametrize(
    ("call", "is_under_way", "expected"),
    [
        (lambda db: db.tables(), lambda server: server.list_count == 1, rowlock.ClosedError),
        (lambda db: db.drop_table("t"), lambda server: len(server.dropped) == 1, rowlock.UnknownOutcomeError),
        (lambda db: db.table("t").scan().to_arrow(), lambda server: len(server.scans) == 1, rowlock.ClosedError),
        (
            lambda db: db.table("t").put_arrow(pa.table({"k": ["x"], "v": ["1"]}), "k STRING :key, v STRING f:v"),
            lambda server: len(server.bulks) == 1,
            rowlock.BulkError,
        ),
    ],
    ids=["call", "admin change", "scan", "put_arrow"],
)
@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_call_that_is_closed_in_the_middle_is_not_cancelled(
    fake_server: FakeServer,
    call: Calling,
    is_under_way: Callable[[FakeServer], bool],
    expected: type[Exception],
    is_cancelled: bool,
) -> None:
    def scan(request: region_pb2.ScanRequest) -> Iterator[region_pb2.ScanBatch]:
        assert fake_server.goes_on.wait(WAIT_S)
        yield batch(b"a")

    async def body() -> None:
        db = await rowlock.aio.connect(fake_server.address, timeout=60)
        task = asyncio.ensure_future(call(db))
        await asyncio.to_thread(fake_server.wait_until, is_under_way)
        if is_cancelled:
            task.cancel()
        await db.close()
        with pytest.raises(asyncio.CancelledError if is_cancelled else expected) as caught:
            await task
        if isinstance(caught.value, rowlock.BulkError):
            assert [span for span, _ in caught.value.unknown] == [range(1)]

    fake_server.scan = scan
    fake_server.bulk_script.append(Mishap.NO_ANSWER)
    fake_server.goes_on.clear()
    try:
        asyncio.run(body())
    finally:
        fake_server.goes_on.set()


def test_changes_in_doubt_stay_so_when_the_client_is_closed_before_a_repetition(
    fake_server: FakeServer,
) -> None:
    async def change(table: rowlock.aio.Table[bytes]) -> object:
        fake_server.script.append(Mishap.ANSWER_IS_LOST)
        return await table.increment("row", "f:n")

    async def send(table: rowlock.aio.Table[bytes]) -> object:
        fake_server.script.append(Mishap.ANSWER_IS_LOST)
        async with table.batch() as changes:
            await changes.put("a", {"f:q": "1"})
            await changes.put("b", {"f:q": "1"})
        return None

    async def write(table: rowlock.aio.Table[bytes]) -> object:
        fake_server.bulk_script.extend([Mishap.NONE, Mishap.ANSWER_IS_LOST])
        data = [pa.record_batch({"k": [key], "v": ["1"]}) for key in "ab"]
        return await table.put_arrow(data, "k STRING :key, v STRING f:v")

    async def met_by(call: Callable[[rowlock.aio.Table[bytes]], Awaitable[object]]) -> rowlock.RowlockError:
        async with rowlock.aio.connect(fake_server.address, timeout=60) as db:
            closing: list[asyncio.Task[None]] = []
            with pytest.MonkeyPatch.context() as patched:
                in_each_pause(patched, lambda: closing.append(asyncio.create_task(db.close())))
                with pytest.raises(rowlock.RowlockError) as caught:
                    await call(db.table("t"))
            await asyncio.gather(*closing)
        return caught.value

    changed = asyncio.run(met_by(change))
    assert isinstance(changed, rowlock.UnknownOutcomeError)
    assert isinstance(changed.__cause__, rowlock.ClosedError)
    sent = asyncio.run(met_by(send))
    assert isinstance(sent, rowlock.BatchError)
    assert [row for row, _ in sent.unknown] == [b"a", b"b"]
    written = asyncio.run(met_by(write))
    assert isinstance(written, rowlock.BulkError)
    assert (written.applied, [span for span, _ in written.unknown]) == ([range(1)], [range(1, 2)])


def test_an_object_that_was_not_awaited_says_so(fake_server: FakeServer) -> None:
    async def body(db: rowlock.aio.Client) -> None:
        for unfinished in (rowlock.aio.connect(fake_server.address), db.snapshot("t")):
            with pytest.raises(AttributeError, match=r"await it, or .* 'async with' \(it has no attribute 'tables'\)"):
                unfinished.tables()  # type: ignore[union-attr]
            with pytest.raises(TypeError, match=r"await it, .* 'async with'\Z"), unfinished:  # type: ignore[union-attr]
                pass
            assert not hasattr(unfinished, "row")
        with pytest.raises(TypeError, match="not <a snapshot that is being made: await it"):
            db.table("t").scan(snapshot=db.snapshot("t"))  # type: ignore[arg-type]

    run(fake_server, body)


def test_scans_are_typed_as_async_iterators(fake_server: FakeServer) -> None:
    async def body(db: rowlock.aio.Client) -> None:
        rows: AsyncIterator[tuple[bytes, dict[bytes, bytes]]] = aiter(db.table("t").scan("b", "b"))
        assert [row async for row in rows] == []

    run(fake_server, body)
