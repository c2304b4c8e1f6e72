"""The asyncio client against a server that loses, refuses and delays; and that it has the same names."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pyarrow as pa
import pytest
import rowlock
from rowlock._core.bulk_send import Bulk, BulkSend
from rowlock.aio._transport import bulk_stream
from rowlock.aio._transport.bulk_stream import BulkCall
from rowlock.aio._transport.servers import Servers
from rowlock.schema import Region
from rowlock_proto.v1 import region_pb2, types_pb2

from tests.unit.client.fake_server import FakeServer, Mishap, error
from tests.unit.client.pauses import in_each_pause
from tests.unit.client.test_scans import batch

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


def test_calls_are_awaited(fake_server: FakeServer) -> None:
    async def body(db: rowlock.aio.Client) -> None:
        assert await db.tables() == ["t"]
        table = db.table("t", encoding="utf-8")
        await table.put("row", {"f:q": "value"})
        assert await table.row("row") == {"f:q": "value"}
        assert await table.rows(["row", "no"]) == [("row", {"f:q": "value"}), ("no", {})]
        assert await table.increment("row", "f:n", 2) == 2
        assert await table.counter("row", "f:n") == 2
        assert await table.mutate_row("row", [rowlock.Append("f:q", "s"), rowlock.Increment("f:n")]) == ["values", 3]
        async with table.batch(size=2) as changes:
            await changes.put("a", {"f:q": "1"})
            await changes.put("b", {"f:q": "2"})
            await changes.put("c", {"f:q": "3"})
        assert changes.applied_count == 3
        result = await table.put_arrow(pa.table({"k": ["x"], "v": ["1"]}), "k STRING :key, v STRING f:v")
        assert result.row_count == 1

    run(fake_server, body)
    assert set(fake_server.rows) == {b"row", b"a", b"b", b"c"}


def test_what_is_not_text_is_str_in_a_table_with_an_encoding(fake_server: FakeServer) -> None:
    async def body(db: rowlock.aio.Client) -> None:
        table = db.table("t", encoding="utf-8")
        await table.put("row", {"f:a": b"\xff"})
        assert await table.row("row") == {"f:a": "\udcff"}
        assert await table.row("row", include_timestamp=True) == {"f:a": ("\udcff", 1)}
        assert await table.rows(["row"]) == [("row", {"f:a": "\udcff"})]
        assert await table.cells("row", "f:a") == [("\udcff", 1)]
        seen = await table.check_and_put("row", "f:a", "\udcff", {"f:b": "1"})
        assert (seen.applied, seen.current) == (True, "\udcff")
        assert await table.append("row", "f:a", "x") == "\udcffx"
        number = await table.increment("counts", "f:n", 128)
        assert rowlock.counter_value((await table.row("counts"))["f:n"]) == number
        assert await table.counter("counts", "f:n") == number

    run(fake_server, body)
    assert fake_server.rows[b"row"][b"f", b"a"] == b"\xffx"


def test_a_conditional_delete_takes_a_list_of_columns_and_not_one(fake_server: FakeServer) -> None:
    async def body(db: rowlock.aio.Client) -> None:
        with pytest.raises(TypeError, match="a list of columns, not one"):
            await db.table("t").check_and_delete("row", "f:q", "1", "ab")

    run(fake_server, body)
    assert fake_server.requests == []


@pytest.mark.parametrize("mishap", [Mishap.ANSWER_IS_LOST, Mishap.REQUEST_IS_LOST])
def test_a_change_is_sent_again_over_a_new_stream_and_applies_once(fake_server: FakeServer, mishap: Mishap) -> None:
    async def body(db: rowlock.aio.Client) -> None:
        fake_server.script.extend([mishap, mishap])
        assert await db.table("t").increment("row", "f:n", 5) == 5

    run(fake_server, body)
    assert fake_server.stream_count == 3
    assert fake_server.repeated_count == (2 if mishap is Mishap.ANSWER_IS_LOST else 0)


def test_what_tasks_have_waiting_travels_together(fake_server: FakeServer) -> None:
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


def test_deadlines_hold(fake_server: FakeServer) -> None:
    async def body(db: rowlock.aio.Client) -> None:
        patient = db.table("t", timeout=60)
        await patient.row("row")
        table = db.table("t", timeout=1)
        fake_server.script.extend([Mishap.NO_ANSWER, Mishap.NO_ANSWER])
        with pytest.raises(rowlock.UnknownOutcomeError):
            await table.put("row", {"f:q": "1"})
        with pytest.raises(rowlock.DeadlineError):
            await table.row("row")
        fake_server.script.append(error(Error.REGION_TOO_BUSY, "busy", retry_after_ms=600_000))
        with pytest.raises(rowlock.RegionTooBusyError):
            await patient.put("row", {"f:q": "1"})

    run(fake_server, body)


def test_a_region_that_moved_is_looked_up_again(fake_server: FakeServer) -> None:
    async def body(db: rowlock.aio.Client) -> None:
        await db.table("t").row("row")
        fake_server.region_id = 2
        await db.table("t").row("row")

    run(fake_server, body)
    assert fake_server.locate_count == 2


def test_an_admin_change_whose_answer_is_lost_is_never_sent_again(fake_server: FakeServer) -> None:
    async def body(db: rowlock.aio.Client) -> None:
        with pytest.raises(rowlock.UnknownOutcomeError):
            await db.drop_table("t")

    run(fake_server, body)
    assert fake_server.dropped == ["t"]


def test_scans_are_async_iterators(fake_server: FakeServer) -> None:
    def scan(request: region_pb2.ScanRequest) -> Iterator[region_pb2.ScanBatch]:
        if len(fake_server.scans) == 1:
            yield batch(b"a", b"b", row_continues=True)
            raise ConnectionError("cut")
        yield batch(b"b", b"c")

    async def body(db: rowlock.aio.Client) -> None:
        fake_server.scan = scan
        table = db.table("t")
        scanning = table.scan()
        assert [row async for row, _ in scanning] == [b"a", b"b", b"c"]
        assert scanning.resumed
        assert (await table.scan().to_arrow("k STRING :key")).to_pydict() == {"k": ["b", "c"]}
        assert [cell.row async for cell in table.scan().cells()] == [b"b", b"c"]
        async with table.scan() as left_early:
            assert (await anext(aiter(left_early)))[0] == b"b"
        assert [row async for row in left_early] == []
        with pytest.raises(rowlock.InvalidArgumentError, match="read once"):
            await left_early.to_arrow()

    run(fake_server, body)


def test_put_arrow_goes_on_after_a_loss(fake_server: FakeServer) -> None:
    async def body(db: rowlock.aio.Client) -> None:
        fake_server.bulk_script.extend([Mishap.NONE, Mishap.ANSWER_IS_LOST])
        data = [pa.record_batch({"k": [key], "v": ["1"]}) for key in "abc"]
        assert (await db.table("t").put_arrow(data, "k STRING :key, v STRING f:v")).row_count == 3

    run(fake_server, body)
    assert [message.sequence for message in fake_server.bulks][-2:] == [2, 3]


@pytest.mark.parametrize(
    "failure",
    [OSError("no such disk"), asyncio.InvalidStateError("odd"), rowlock.ServerUnavailableError("cut")],
    ids=lambda failure: type(failure).__name__,
)
def test_put_arrow_of_an_input_that_fails_tells_what_it_wrote(fake_server: FakeServer, failure: Exception) -> None:
    def failing(count: int) -> Iterator[pa.RecordBatch]:
        for number in range(count):
            yield pa.record_batch({"k": [str(number)], "v": ["1"]})
        raise failure

    async def body(db: rowlock.aio.Client) -> None:
        with pytest.raises(rowlock.BulkError) as caught:
            await db.table("t").put_arrow(failing(5), "k STRING :key, v STRING f:v")
        assert caught.value.__cause__ is failure
        assert sorted(caught.value.applied, key=lambda span: span.start) == [range(n, n + 1) for n in range(5)]
        with pytest.raises((rowlock.BulkError, type(failure))):
            await db.table("t").put_arrow(failing(0), "k STRING :key, v STRING f:v")

    run(fake_server, body)


def test_what_on_progress_raises_is_the_caller_s_and_no_failure_of_the_stream(fake_server: FakeServer) -> None:
    def progress(row_count: int) -> None:
        raise failure

    async def body(db: rowlock.aio.Client) -> None:
        data = [pa.record_batch({"k": [key], "v": ["1"]}) for key in "ab"]
        with pytest.raises(rowlock.ServerUnavailableError) as caught:
            await db.table("t").put_arrow(data, "k STRING :key, v STRING f:v", on_progress=progress)
        assert caught.value is failure

    failure = rowlock.ServerUnavailableError("another server")
    run(fake_server, body)


def test_a_put_arrow_that_is_cancelled_while_its_input_is_read_leaves_no_number_waited_for(
    fake_server: FakeServer,
) -> None:
    has_begun, may_go_on, has_gone_on = threading.Event(), threading.Event(), threading.Event()

    def slow() -> Iterator[pa.RecordBatch]:
        has_begun.set()
        assert may_go_on.wait(60)
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
        sequences = db._servers.sequences
        assert sequences.floor() == sequences.take()

    pull = BulkSend.next
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(BulkSend, "next", next_of)
        run(fake_server, body)


def test_put_arrow_to_a_server_that_takes_no_batch_ends_in_time(
    fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(message: region_pb2.BulkBatch) -> None:
        await asyncio.Event().wait()

    def open_call(servers: Servers, region: Region) -> BulkCall:
        call = opened(servers, region)
        monkeypatch.setattr(call, "write", never)
        return call

    opened = bulk_stream.open_call
    monkeypatch.setattr(bulk_stream, "open_call", open_call)

    async def body(db: rowlock.aio.Client) -> None:
        data = pa.table({"k": ["x"], "v": ["1"]})
        async with asyncio.timeout(60):
            with pytest.raises(rowlock.BulkError, match="no batch was taken") as caught:
                await db.table("t", timeout=0.2).put_arrow(data, "k STRING :key, v STRING f:v")
        assert [span for span, _ in caught.value.unknown] == [range(1)]

    run(fake_server, body)


def test_a_closed_client_says_so_and_wakes_who_waits(fake_server: FakeServer) -> None:
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
    ("call", "is_under_way", "told"),
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
    told: type[Exception],
    is_cancelled: bool,
) -> None:
    def scan(request: region_pb2.ScanRequest) -> Iterator[region_pb2.ScanBatch]:
        assert fake_server.goes_on.wait(60)
        yield batch(b"a")

    async def body() -> None:
        db = await rowlock.aio.connect(fake_server.address, timeout=60)
        task = asyncio.ensure_future(call(db))
        await asyncio.to_thread(fake_server.wait_until, is_under_way)
        if is_cancelled:
            task.cancel()
        await db.close()
        with pytest.raises(asyncio.CancelledError if is_cancelled else told) as caught:
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


def test_changes_in_doubt_stay_so_when_the_client_is_closed_before_they_are_sent_again(
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


def test_a_flush_may_take_longer_than_other_calls(fake_server: FakeServer) -> None:
    async def body() -> None:
        async with rowlock.aio.connect(fake_server.address, timeout=5) as db:
            await db.flush("t")
            with pytest.raises(rowlock.UnknownOutcomeError, match="may still be at it"):
                await db.drop_table("t")
            fake_server.goes_on.clear()
            with pytest.raises(rowlock.DeadlineError, match=r"not done within 0\.2 s .* a later flush"):
                await db.flush("t", timeout=0.2)
            fake_server.goes_on.set()

    asyncio.run(body())
    assert [round(work_s or 0, -1) for work_s in fake_server.work_s] == [600, 600, 0]


def test_what_was_not_awaited_says_so(fake_server: FakeServer) -> None:
    async def body(db: rowlock.aio.Client) -> None:
        for unfinished in (rowlock.aio.connect(fake_server.address), db.snapshot("t")):
            with pytest.raises(AttributeError, match=r"await it, or .* 'async with' \('tables' was asked of it\)"):
                unfinished.tables()  # type: ignore[union-attr]
            with pytest.raises(TypeError, match=r"await it, .* 'async with'\Z"), unfinished:  # type: ignore[union-attr]
                pass
            assert not hasattr(unfinished, "row")
        with pytest.raises(rowlock.InvalidArgumentError, match="not <a snapshot that is being made: await it"):
            db.table("t").scan(snapshot=db.snapshot("t"))  # type: ignore[arg-type]

    run(fake_server, body)


def test_scans_are_typed_as_async_iterators(fake_server: FakeServer) -> None:
    async def body(db: rowlock.aio.Client) -> None:
        rows: AsyncIterator[tuple[bytes, dict[bytes, bytes]]] = aiter(db.table("t").scan("b", "b"))
        assert [row async for row in rows] == []

    run(fake_server, body)
