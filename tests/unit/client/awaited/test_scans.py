"""Scans of a server that drops connections, delays and repeats (asyncio)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
import rowlock
from rowlock._codec.row_form import FormColumn
from rowlock._core.scan_progress import CELL_SCHEMA
from rowlock.aio._transport.servers import Servers
from rowlock_proto.v1 import region_pb2

from tests.unit.client.fake_server import FakeServer
from tests.unit.client.plain_row_form import form_schema
from tests.unit.client.test_scans import batch, requested_form, requested_ranges
from tests.waiting import WAIT_S

BOTH_WAYS = True


async def test_the_row_form_has_one_arrow_row_per_row(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    fake_server.scan = lambda request: iter([batch(b"a", b"b"), batch(b"c")])
    columns = [FormColumn(b"f", b"q"), FormColumn(b"f", b"q", is_timestamp=True), FormColumn(b"f", b"absent")]
    batches = [item async for item in db.table("t").scan().form_batches(columns)]
    assert [each.schema for each in batches] == [form_schema(columns)] * 2
    assert [line for each in batches for line in each.to_pylist()] == [
        {"row": row, "0": row, "1": 1, "2": None} for row in (b"a", b"b", b"c")
    ]


async def test_columns_that_were_not_chosen_are_null_in_row_form(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    fake_server.scan = lambda request: iter([batch(b"a")])
    columns = [FormColumn(b"g", b"x", is_timestamp=True), FormColumn(b"f", b"q"), FormColumn(b"g", b"x")]
    [read] = [item async for item in db.table("t").scan(columns=["f"]).form_batches(columns)]
    assert read.schema == form_schema(columns)
    assert read.to_pylist() == [{"row": b"a", "0": None, "1": b"a", "2": None}]
    assert requested_form(fake_server.scans[0]) == [(b"f", b"q", 0)]


async def test_rows_come_as_dicts_cells_and_arrow(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    fake_server.scan = lambda request: iter([batch(b"a", b"b"), batch(b"c")])
    table = db.table("t")
    rows = [(b"a", {b"f:q": b"a"}), (b"b", {b"f:q": b"b"}), (b"c", {b"f:q": b"c"})]
    assert [item async for item in table.scan()] == rows
    assert [cell.row async for cell in table.scan().cells()] == [b"a", b"b", b"c"]
    assert await anext(table.scan().cells()) == rowlock.Cell(b"a", b"f:q", 1, b"a")
    assert (await table.scan().to_arrow()).column("value").to_pylist() == [b"a", b"b", b"c"]
    assert (await table.scan().to_arrow("k STRING :key, v STRING f:q")).to_pydict() == {
        "k": ["a", "b", "c"],
        "v": ["a", "b", "c"],
    }
    assert [item.num_rows async for item in table.scan().to_batches()] == [2, 1]
    assert [item async for item in db.table("t", encoding="utf-8").scan()] == [
        (row.decode(), {"f:q": data[b"f:q"].decode()}) for row, data in rows
    ]
    assert list((await table.scan().to_pandas())["row"]) == [b"a", b"b", b"c"]


async def test_scans_to_dicts_and_to_arrow_ask_for_larger_batches(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    fake_server.scan = lambda request: iter([batch(b"a")])
    table = db.table("t")
    for batch_bytes in (0, 5):
        assert len([row async for row, _ in table.scan(batch_bytes=batch_bytes)]) == 1
        assert len([cell async for cell in table.scan(batch_bytes=batch_bytes).cells()]) == 1
        assert len([item async for item in table.scan(batch_bytes=batch_bytes).to_batches()]) == 1
        assert len(await table.scan(batch_bytes=batch_bytes).to_arrow()) == 1
    assert [request.batch_bytes for request in fake_server.scans] == [2 << 20, 0, 4 << 20, 4 << 20, 5, 5, 5, 5]


async def test_of_several_versions_a_row_shows_the_newest_and_cells_show_all(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    fake_server.scan = lambda request: iter([batch(b"a", row_continues=True), batch(b"a", b"a", qualifier=b"r")])
    assert [item async for item in db.table("t").scan(versions=2)] == [(b"a", {b"f:q": b"a", b"f:r": b"a"})]
    assert len([item async for item in db.table("t").scan(versions=2).cells()]) == 3


async def test_an_empty_scan_has_the_schema(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    fake_server.scan = lambda request: iter([])
    assert (await db.table("t").scan().to_arrow()).schema == CELL_SCHEMA
    mapping = rowlock.Mapping("k STRING :key, v INT f:q")
    assert await db.table("t").scan().to_arrow(mapping) == mapping.schema.empty_table()
    assert [item async for item in db.table("t").scan("b", "b")] == []
    assert len(fake_server.scans) == 2


async def test_a_scan_that_finds_no_row_resumes_at_the_resume_key(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    def scan(request: region_pb2.ScanRequest) -> Iterator[region_pb2.ScanBatch]:
        if len(fake_server.scans) == 1:
            yield batch(row_reached=b"k")
            raise ConnectionError("cut")
        yield batch(b"z")

    fake_server.scan = scan
    assert [row async for row, _ in db.table("t").scan()] == [b"z"]
    assert [requested_ranges(request) for request in fake_server.scans] == [[(b"", b"")], [(b"k", b"")]]
    fake_server.scans.clear()
    assert [batch.num_rows async for batch in db.table("t").scan().to_batches("k STRING :key, v STRING f:q")] == [1]


async def test_a_scan_resumes_after_a_lost_connection_and_says_so(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    def scan(request: region_pb2.ScanRequest) -> Iterator[region_pb2.ScanBatch]:
        if len(fake_server.scans) == 1:
            yield batch(b"a", b"b", row_continues=True)
            raise ConnectionError("cut")
        yield batch(b"b", b"c")

    fake_server.scan = scan
    scanning = db.table("t").scan()
    assert [row async for row, _ in scanning] == [b"a", b"b", b"c"]
    assert scanning.resumed
    assert requested_ranges(fake_server.scans[1]) == [(b"a\0", b"")]
    fake_server.scans.clear()
    strict = db.table("t").scan(strict=True)
    assert (await anext(strict))[0] == b"a"
    with pytest.raises(rowlock.LeaseExpiredError):
        await anext(strict)


async def test_a_batch_that_does_not_come_in_time_is_a_deadline_error(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    never = threading.Event()

    def scan(request: region_pb2.ScanRequest) -> Iterator[region_pb2.ScanBatch]:
        never.wait(WAIT_S)
        yield from ()

    fake_server.scan = scan
    await db.table("t").row("row")  # Looks the region up, which has all the time it wants.
    with pytest.raises(rowlock.DeadlineError, match=r"no batch .* within 0\.3 s"):
        await anext(db.table("t", timeout=0.3).scan())
    never.set()


async def test_a_scan_whose_channel_is_closed_before_it_is_opened_is_one_of_a_closed_client(
    servers: Servers, db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    """As Client.close in another thread does it, between two steps of this one."""
    fake_server.direct_protocol = 1  # Scans go by gRPC.
    await db.table("t").row("row")
    await servers.channel(fake_server.address).close()
    with pytest.raises(rowlock.ClosedError):
        await anext(db.table("t").scan())


async def test_leaving_early_ends_the_call(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    ended = threading.Event()

    def scan(request: region_pb2.ScanRequest) -> Iterator[region_pb2.ScanBatch]:
        try:
            for number in range(1_000_000):
                yield batch(b"%07d" % number)
        finally:
            ended.set()

    fake_server.scan = scan
    async with db.table("t").scan() as scanning:
        await anext(scanning)
    assert await asyncio.to_thread(ended.wait, 60)
    assert [item async for item in scanning] == []
    ended.clear()
    async for _ in db.table("t").scan():
        break
    assert await asyncio.to_thread(ended.wait, 60)


async def test_a_scan_is_read_once(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    fake_server.scan = lambda request: iter([batch(b"a")])
    scanning = db.table("t").scan()
    assert len([item async for item in scanning]) == 1
    with pytest.raises(rowlock.InvalidArgumentError, match="read only once"):
        await scanning.to_arrow()


async def test_a_scan_that_an_error_has_ended_does_not_look_complete(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    def scan(request: region_pb2.ScanRequest) -> Iterator[region_pb2.ScanBatch]:
        yield batch(b"a", b"b", row_continues=True)
        raise ConnectionError("cut")

    fake_server.scan = scan
    scanning = db.table("t").scan(strict=True)
    with pytest.raises(rowlock.LeaseExpiredError):
        assert [item async for item in scanning]
    for _ in range(2):
        with pytest.raises(rowlock.InvalidArgumentError, match="has ended the scan of 't' before its last row"):
            await anext(scanning)
    await scanning.close()
    assert [item async for item in scanning] == []
    typed = db.table("t", mapping="k STRING :key, v STRING f:q").scan(strict=True)
    with pytest.raises(rowlock.LeaseExpiredError):
        assert [item async for item in typed]
    with pytest.raises(rowlock.InvalidArgumentError, match="has ended the scan of 't'"):
        await anext(typed)


async def test_a_limit_holds_over_the_whole_scan(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    fake_server.scan = lambda request: iter([batch(b"a", b"b"), batch(b"c")])
    assert len([item async for item in db.table("t").scan(limit=0)]) == 0
    assert fake_server.scans == []
    assert len([item async for item in db.table("t").scan(limit=2)]) == 2
    assert fake_server.scans[0].row_limit == 2


async def test_the_types_of_a_data_frame_do_not_depend_on_its_rows(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    fake_server.scan = lambda request: iter([])
    mapping = "k STRING :key, n BIGINT f:n, b BOOLEAN f:b, x DOUBLE f:x"
    for scan in (db.table("t").scan().to_pandas(mapping), db.table("t", mapping=mapping).scan().to_pandas()):
        assert [str(dtype) for dtype in (await scan).dtypes] == ["object", "Int64", "boolean", "float64"]
