"""Regions that are split and merged while a client uses them (asyncio)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import rowlock
from rowlock.aio._transport.servers import Servers
from rowlock_proto.v1 import catalog_pb2, region_pb2, types_pb2

from tests.unit.client.fake_errors import Mishap, RefusedError, error
from tests.unit.client.fake_server import FakeServer
from tests.unit.client.test_scans import batch, requested_ranges

SNAPSHOT = bytes(range(16))
OF_ANOTHER_TABLE = rowlock.Region(2, "u", b"", b"", "")
Error = types_pb2.Error


def answered_rows(fake_server: FakeServer) -> dict[bytes, bytes]:
    return {row: columns[b"f", b"q"] for row, columns in fake_server.rows.items()}


async def test_regions_are_listed_with_their_sizes(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    fake_server.split(b"m")
    fake_server.damaged = {3}
    lower, upper = await db.regions("t")
    assert lower == rowlock.RegionInfo(
        2, "t", b"", b"m", fake_server.address, state="open", store_file_bytes=7, open_read_count=2
    )
    assert upper == rowlock.RegionInfo(
        3, "t", b"m", b"", fake_server.address, state="damaged", error="a file is damaged"
    )
    assert [region.region_id for region in await db.regions("t", start="a", stop="b")] == [2]
    assert [region.region_id for region in await db.regions("t", start=b"m")] == [3]


async def test_an_earlier_server_lists_regions_by_describing_the_table(
    db: rowlock.aio.Client, servers: Servers, fake_server: FakeServer
) -> None:
    servers.protocols[fake_server.address] = 6
    fake_server.split(b"m")
    fake_server.ListRegions = None  # type: ignore[method-assign,assignment]  # calling it would fail
    assert [region.region_id for region in await db.regions("t", stop="m")] == [2]


async def test_a_split_returns_both_regions_and_the_client_knows_them(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    await db.table("t").put("a", {"f:q": "1"})
    located = fake_server.locate_count
    lower, upper = await db.split("t", "m")
    assert [(each.region_id, each.start, each.stop) for each in (lower, upper)] == [(2, b"", b"m"), (3, b"m", b"")]
    await db.table("t").put("a", {"f:q": "2"})
    await db.table("t").put("z", {"f:q": "2"})
    assert [request.region_id for request in fake_server.requests] == [1, 2, 3]
    assert fake_server.locate_count == located
    [request] = fake_server.changes
    assert (request.table, request.lock.owner != "", request.is_repeated) == ("t", True, False)
    merged = await db.merge("t", "m")
    assert (merged.region_id, merged.start, merged.stop) == (4, b"", b"")
    await db.table("t").put("z", {"f:q": "3"})
    assert fake_server.requests[-1].region_id == 4
    assert fake_server.locate_count == located


async def test_regions_are_named_by_their_ids_or_as_values(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    lower, upper = await db.split("t", region=1)
    assert lower.stop == upper.start == b"middle"
    await db.merge("t", regions=(lower, upper))
    lower, upper = await db.split("t", b"c", region=4)
    await db.merge("t", regions=[lower.region_id, upper.region_id])
    split, merge = fake_server.changes[0], fake_server.changes[1]
    assert isinstance(split, catalog_pb2.SplitRegionRequest)
    assert (split.region_id, split.split_row) == (1, b"")
    assert isinstance(merge, catalog_pb2.MergeRegionsRequest)
    assert (list(merge.region_ids), merge.row) == ([2, 3], b"")


@pytest.mark.parametrize("mishap", [Mishap.ANSWER_IS_LOST, Mishap.REQUEST_IS_LOST])
async def test_a_split_and_a_merge_at_a_row_whose_answer_is_lost_are_repeated_and_made_once(
    db: rowlock.aio.Client, fake_server: FakeServer, mishap: Mishap
) -> None:
    fake_server.change_script.append(mishap)
    lower, upper = await db.split("t", "m")
    assert [(each.region_id, each.start) for each in (lower, upper)] == [(2, b""), (3, b"m")]
    fake_server.change_script.append(mishap)
    assert (await db.merge("t", "m")).region_id == 4
    assert list(fake_server.regions) == [4]
    assert [request.is_repeated for request in fake_server.changes] == [False, True, False, True]


async def test_a_split_without_a_row_whose_answer_is_lost_is_not_repeated(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    fake_server.change_script.append(Mishap.ANSWER_IS_LOST)
    with pytest.raises(rowlock.UnknownOutcomeError):
        await db.split("t")
    fake_server.change_script.append(Mishap.ANSWER_IS_LOST)
    with pytest.raises(rowlock.UnknownOutcomeError):
        await db.merge("t", regions=(2, 3))
    assert len(fake_server.changes) == 2


async def test_a_repetition_that_fails_leaves_the_outcome_unknown(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    fake_server.change_script.extend([Mishap.ANSWER_IS_LOST, error(Error.INVALID_ARGUMENT, "no such row")])
    with pytest.raises(rowlock.UnknownOutcomeError) as caught:
        await db.split("t", "m")
    assert isinstance(caught.value.__cause__, rowlock.InvalidArgumentError)


async def test_a_refused_split_says_why(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    fake_server.change_script.append(error(Error.INVALID_ARGUMENT, "row 'm' is the first row of region 3 already"))
    with pytest.raises(rowlock.InvalidArgumentError, match="is the first row of region 3 already"):
        await db.split("t", "m")


@pytest.mark.parametrize(
    ("message", "kind", "arguments"),
    [
        ("the row is empty", rowlock.InvalidArgumentError, {"row": b""}),
        (
            "region 2 is of table 'u', not 't'",
            rowlock.InvalidArgumentError,
            {"region": rowlock.Region(2, "u", b"", b"", "")},
        ),
        ("0 is not the id of a region", rowlock.InvalidArgumentError, {"region": 0}),
        ("a region's id must be an int, not str", TypeError, {"region": "2"}),
    ],
)
async def test_impossible_splits_are_not_sent(
    db: rowlock.aio.Client, fake_server: FakeServer, message: str, kind: type[Exception], arguments: dict[str, object]
) -> None:
    with pytest.raises(kind, match=message):
        await db.split("t", **arguments)  # type: ignore[arg-type]
    assert not fake_server.changes


@pytest.mark.parametrize(
    ("message", "kind", "arguments"),
    [
        ("the first row of the second region, or regions=", rowlock.InvalidArgumentError, {}),
        (
            "the first row of the second region, or regions=",
            rowlock.InvalidArgumentError,
            {"row": "m", "regions": (1, 2)},
        ),
        ("regions must be two neighbours, not 3", rowlock.InvalidArgumentError, {"regions": (1, 2, 3)}),
        ("regions must be a list of regions", TypeError, {"regions": 1}),
    ],
)
async def test_impossible_merges_are_not_sent(
    db: rowlock.aio.Client, fake_server: FakeServer, message: str, kind: type[Exception], arguments: dict[str, object]
) -> None:
    with pytest.raises(kind, match=message):
        await db.merge("t", **arguments)  # type: ignore[arg-type]
    assert not fake_server.changes


async def test_single_calls_follow_a_split_and_a_merge(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    table = db.table("t")
    await table.put("a", {"f:q": "1"})
    fake_server.split(b"m")
    await table.put("a", {"f:q": "2"})
    assert await table.row("z") == {}
    fake_server.split(b"b")
    fake_server.merge(b"m")
    await table.put("z", {"f:q": "3"})
    assert await table.row("a") == {b"f:q": b"2"}
    assert [row for row, _ in await table.rows(["a", "c", "z"])] == [b"a", b"c", b"z"]
    assert answered_rows(fake_server) == {b"a": b"2", b"z": b"3"}


@pytest.mark.parametrize("row_count", [4, 100])
async def test_a_batch_during_which_its_region_is_split_writes_each_row_once(
    db: rowlock.aio.Client, servers: Servers, fake_server: FakeServer, row_count: int
) -> None:
    """The parent answers the rows before the split, and refuses those after it. 100 rows go as columns."""
    servers.protocols[fake_server.address] = 7
    rows = [b"%03d" % number for number in range(row_count)]
    made: list[bytes] = []

    def before_row(row: bytes) -> None:
        made.append(row)
        if row == rows[2]:
            fake_server.before_row = made.append
            fake_server.split(rows[1])

    await db.table("t").put("x", {"f:q": "0"})
    fake_server.before_row = before_row
    async with db.table("t").batch() as batch:
        for row in rows:
            await batch.put(row, {"f:q": row, "f:r": row, "f:s": row})
    written = answered_rows(fake_server)
    del written[b"x"]
    assert written == {row: row for row in rows}
    # The parent, then both daughters; no more requests to the parent after it has refused rows.
    assert [request.region_id for request in fake_server.requests[1:]] in ([1, 2, 3], [1, 3, 2], [1, 3])
    assert fake_server.repeated_count == 0


async def test_a_batch_in_doubt_is_repeated_in_both_daughters_with_the_numbers_of_its_rows(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    await db.table("t").put("x", {"f:q": "0"})
    fake_server.script.append(Mishap.ANSWER_IS_LOST)
    rows = [b"a", b"b", b"y", b"z"]

    def before_row(row: bytes) -> None:
        if len(fake_server.requests) == 3 and 1 in fake_server.regions:  # The repetition.
            fake_server.split(b"m")

    fake_server.before_row = before_row
    async with db.table("t").batch() as batch:
        for row in rows:
            await batch.increment(row, "f:q", 1)
    assert answered_rows(fake_server) == {b"x": b"0", **dict.fromkeys(rows, (1).to_bytes(8, "big"))}
    assert fake_server.repeated_count == 4


async def test_a_bulk_load_follows_a_split(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    import pyarrow as pa

    fake_server.bulk_script.append(error(Error.NOT_SERVING_REGION))
    await db.table("t").put("x", {"f:q": "0"})
    fake_server.split(b"m")
    await db.table("t").put_arrow(pa.table({"k": ["a", "z"], "v": ["1", "2"]}), "k STRING :key, v STRING f:v")
    assert [(sent.region_id, list(sent.parts_of)) for sent in fake_server.bulks] == [(1, []), (2, []), (3, [])]


async def test_a_bulk_batch_in_doubt_is_repeated_as_parts_of_itself(
    db: rowlock.aio.Client, fake_server: FakeServer
) -> None:
    import pyarrow as pa

    await db.table("t").put("x", {"f:q": "0"})
    fake_server.bulk_script.extend([Mishap.ANSWER_IS_LOST, error(Error.NOT_SERVING_REGION)])
    fake_server.split(b"m")
    await db.table("t").put_arrow(pa.table({"k": ["a", "z"], "v": ["1", "2"]}), "k STRING :key, v STRING f:v")
    lost, refused, lower, upper = fake_server.bulks
    assert (lost.region_id, lost.sequence, list(lost.parts_of)) == (1, refused.sequence, [])
    assert [(each.region_id, list(each.parts_of)) for each in (lower, upper)] == [(2, [2]), (3, [2])]
    assert lost.sequence == 2
    assert len({lost.sequence, lower.sequence, upper.sequence}) == 3
    assert min(lower.age_ms, upper.age_ms) >= 1
    assert [each.sequence_floor for each in (lower, upper)] == [2, 2]


async def test_a_scan_follows_splits_and_merges(db: rowlock.aio.Client, fake_server: FakeServer) -> None:
    rows = [b"a", b"c", b"n", b"z"]

    def scan(request: region_pb2.ScanRequest) -> Iterator[region_pb2.ScanBatch]:
        if request.region_id not in fake_server.regions:
            raise RefusedError(error(Error.NOT_SERVING_REGION))
        start, stop = requested_ranges(request)[0]
        yield batch(
            *[row for row in rows if start <= row and (not stop or row < stop)][:: -1 if request.reverse else 1]
        )
        if request.region_id == 2:
            fake_server.merge(b"m")  # Behind the rows that were read.
            fake_server.split(b"p")

    fake_server.scan = scan
    assert [row async for row, _ in db.table("t").scan()] == rows
    fake_server.split(b"m")
    assert [row async for row, _ in db.table("t").scan()] == rows
    assert [request.region_id for request in fake_server.scans] == [1, 1, 2, 3, 5, 6]
    assert [row async for row, _ in db.table("t").scan(reverse=True)] == rows[::-1]
    fake_server.merge(b"p")
    assert [row async for row, _ in db.table("t").scan(reverse=True)] == rows[::-1]
