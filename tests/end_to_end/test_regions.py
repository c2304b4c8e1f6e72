"""Tables of several regions over a real server: everything that a table can do, over all of them."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest
import rowlock
from rowlock.pytest_plugin import RowlockServer

SPLITS = [b"r25", b"r75", b"r50"]
BORDERS = [b"", b"r25", b"r50", b"r75"]
ROWS = [(b"r%02d" % number, {b"f:v": b"%d" % number}) for number in range(100)]


@pytest.fixture
def table(rowlock_client: rowlock.Client) -> rowlock.Table[bytes]:
    return rowlock_client.create_table("t", {"f": rowlock.Family(versions=2)}, splits=SPLITS)


def fill(table: rowlock.Table[bytes]) -> None:
    with table.batch() as batch:
        for row, data in ROWS:
            batch.put(row, data)


def starts(db: rowlock.Client, name: str = "t") -> list[bytes]:
    return [region.start for region in db.regions(name)]


def test_a_table_that_is_created_with_splits_has_their_regions(
    rowlock_client: rowlock.Client, table: rowlock.Table[bytes]
) -> None:
    regions = rowlock_client.regions("t")
    assert [(region.start, region.stop) for region in regions] == list(zip(BORDERS, [*BORDERS[1:], b""], strict=True))
    ids = [region.region_id for region in regions]
    assert ids == list(range(ids[0], ids[0] + 4))
    assert {(region.state, region.store_file_count, region.open_read_count) for region in regions} == {("open", 0, 0)}
    assert [region.region_id for region in rowlock_client.regions("t", start=b"r30", stop=b"r50")] == ids[1:2]
    assert [region.region_id for region in rowlock_client.regions("t", start="r50")] == ids[2:]
    assert [each.region.region_id for each in rowlock_client.describe("t").regions] == ids
    with pytest.raises(rowlock.TableNotFoundError):
        rowlock_client.regions("absent")


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ([b"b", b"a", b"b"], "the split 'b' of table 'u' is named twice"),
        ([b"x" * 32_000, b"y" * 32_768], "row_bytes_max"),
        ([b"%04d" % number for number in range(1000)], "1001 regions, more than regions_per_table_max = 1000"),
    ],
)
def test_impossible_splits_are_refused_and_no_table_is_made(
    rowlock_client: rowlock.Client, splits: list[bytes], message: str
) -> None:
    with pytest.raises(rowlock.InvalidArgumentError, match=message):
        rowlock_client.create_table("u", ["f"], splits=splits)
    assert rowlock_client.tables() == []


def test_single_rows_and_batches_find_their_regions(
    rowlock_client: rowlock.Client, table: rowlock.Table[bytes]
) -> None:
    fill(table)
    for row, data in ROWS[::10]:
        assert table.row(row) == data
        assert table.increment(row, b"f:n") == 1
        assert table.check_and_put(row, b"f:v", data[b"f:v"], {b"f:v": b"checked"})
    keys = [row for row, _ in ROWS]
    assert [row for row, data in table.rows(keys[::-1]) if data] == keys[::-1]
    assert table.row(b"r10")[b"f:v"] == b"checked"
    with table.batch() as batch:
        for row in keys[::20]:
            batch.delete(row)
    assert table.count() == 95
    assert {region.memstore_bytes > 0 for region in rowlock_client.regions("t")} == {True}


def test_scans_cross_regions_in_both_directions(table: rowlock.Table[bytes]) -> None:
    fill(table)
    assert list(table.scan()) == ROWS
    assert list(table.scan(reverse=True)) == ROWS[::-1]
    assert list(table.scan(b"r20", b"r80", limit=40)) == ROWS[20:60]
    assert list(table.scan(b"r20", b"r80", limit=40, reverse=True)) == ROWS[40:80][::-1]
    assert list(table.scan(b"r50", b"r75")) == ROWS[50:75]
    assert list(table.scan(ranges=[(b"r70", b"r80"), (b"r10", b"r30")])) == ROWS[10:30] + ROWS[70:80]
    splits = table.splits(part_bytes=1 << 30)
    assert len(splits) == 4
    assert [row for split in splits for row in table.scan(ranges=split.ranges)] == ROWS


def test_a_bulk_batch_is_cut_at_the_borders(rowlock_client: rowlock.Client, table: rowlock.Table[bytes]) -> None:
    cells = pa.table(
        {
            "row": pa.array([row for row, _ in ROWS[::-1]], pa.binary()),
            "family": pa.array([b"f"] * 100, pa.binary()),
            "qualifier": pa.array([b"v"] * 100, pa.binary()),
            "value": pa.array([data[b"f:v"] for _, data in ROWS[::-1]], pa.binary()),
        }
    )
    assert table.put_arrow(cells).cell_count == 100
    assert list(table.scan()) == ROWS
    with rowlock_client.bulk_write("t") as write:
        for row, _ in ROWS:
            write.put(row, {b"f:v": b"bulk"})
    assert {data[b"f:v"] for _, data in table.scan()} == {b"bulk"}
    assert table.count() == 100


def test_table_operations_reach_all_regions(rowlock_client: rowlock.Client, table: rowlock.Table[bytes]) -> None:
    fill(table)
    assert rowlock_client.flush("t").store_file_count == 4
    assert [region.store_file_count for region in rowlock_client.regions("t")] == [1] * 4
    with rowlock_client.snapshot("t") as snapshot:
        assert [region.open_read_count for region in rowlock_client.regions("t")] == [1] * 4
        assert table.delete_range(b"r20", b"r80") == 60
        assert list(table.scan(snapshot=snapshot)) == ROWS
        assert table.count() == 40
    rowlock_client.alter_table("t", set_families={"g": rowlock.Family()})
    for row, _ in ROWS[::25]:
        table.put(row, {b"g:x": b"1"})
    assert [row for row, _ in table.scan(columns=["g"])] == [b"r00", b"r25", b"r50", b"r75"]
    jobs = rowlock_client.compact("t", major=True, wait=True)
    assert len(jobs) == 8
    assert table.count() == 43
    old = {region.region_id for region in rowlock_client.regions("t")}
    rowlock_client.truncate_table("t")
    assert table.count() == 0
    assert starts(rowlock_client) == BORDERS
    assert old.isdisjoint(region.region_id for region in rowlock_client.regions("t"))
    fill(table)
    assert list(table.scan()) == ROWS
    rowlock_client.drop_table("t")
    assert rowlock_client.tables() == []


def test_all_regions_survive_a_restart(rowlock_server: RowlockServer, table: rowlock.Table[bytes]) -> None:
    fill(table)
    with rowlock.connect(rowlock_server.address) as db:
        db.flush("t")
    table.put(b"r99", {b"f:v": b"later"})
    rowlock_server.restart()
    assert list(table.scan()) == [*ROWS[:-1], (b"r99", {b"f:v": b"later"})]
    with rowlock.connect(rowlock_server.address) as db:
        assert starts(db) == BORDERS


@pytest.mark.usefixtures("rowlock_client")  # which drops the table
def test_the_asyncio_face_lists_regions_too(rowlock_server: RowlockServer) -> None:
    async def run() -> list[bytes]:
        async with rowlock.aio.connect(rowlock_server.address) as db:
            await db.create_table("t", ["f"], splits=["m"])
            return [region.start for region in await db.regions("t")]

    assert asyncio.run(run()) == [b"", b"m"]
