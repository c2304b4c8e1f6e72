"""Splits over the wire: together they are the scan, and each has about the requested size."""

from __future__ import annotations

import asyncio

import pytest
import rowlock
from rowlock.pytest_plugin import RowlockServer

ROWS = 3000


@pytest.fixture
def table(rowlock_client: rowlock.Client) -> rowlock.Table[bytes]:
    """Half of the rows in store files of small blocks, half in memory; family g is small."""
    families = {"f": rowlock.Family(block_bytes=4096), "g": rowlock.Family(block_bytes=4096)}
    table = rowlock_client.create_table("t", families)
    for half in (0, 1):
        with table.batch() as batch:
            for number in range(half, ROWS, 2):
                batch.put(b"%05d" % number, {b"f:a": b"x" * 100, b"g:b": b"y"})
        if half == 0:
            rowlock_client.flush("t")
    return table


def rows_of(table: rowlock.Table[bytes], splits: list[rowlock.Split]) -> list[bytes]:
    return [row for split in splits for row, _ in table.scan(ranges=split.ranges)]


def test_all_splits_together_are_the_scan_and_about_equal(table: rowlock.Table[bytes]) -> None:
    whole = [row for row, _ in table.scan()]
    (one,) = table.splits()
    assert one.ranges == ((b"", b""),)
    cut = table.splits(part_bytes=one.byte_count // 8)
    assert 7 <= len(cut) <= 10
    assert sum(split.byte_count for split in cut) == one.byte_count
    assert rows_of(table, cut) == whole
    counts = [len(rows_of(table, [split])) for split in cut]
    assert max(counts) < ROWS / 4
    # Values of 100 bytes, keys of 5: at least these, at most twice as much.
    assert 105 * ROWS < one.byte_count < 105 * ROWS * 3


def test_ranges_and_prefixes_are_cut_and_small_ones_grouped(table: rowlock.Table[bytes]) -> None:
    assert rows_of(table, table.splits("00100", "00200", part_bytes=2000)) == [b"%05d" % i for i in range(100, 200)]
    by_prefix = table.splits(prefix="01", part_bytes=10_000)
    assert len(by_prefix) > 5
    assert rows_of(table, by_prefix) == [b"%05d" % i for i in range(1000, 2000)]
    single = [(b"%05d" % i, b"%05d\0" % i) for i in range(0, ROWS, 7)]
    grouped = table.splits(ranges=single, part_bytes=100_000)
    assert len(grouped) < 20
    assert [row_range for split in grouped for row_range in split.ranges] == single
    assert rows_of(table, grouped) == [b"%05d" % i for i in range(0, ROWS, 7)]


def test_only_the_requested_families_are_counted(table: rowlock.Table[bytes]) -> None:
    (both,) = table.splits()
    (small,) = table.splits(columns=["g:b"])
    (large,) = table.splits(columns=["f"])
    assert small.byte_count < large.byte_count < both.byte_count
    assert small.byte_count + large.byte_count == both.byte_count
    with pytest.raises(rowlock.FamilyNotFoundError):
        table.splits(columns=["nosuch"])


def test_an_empty_table_is_one_split_and_an_empty_range_none(rowlock_client: rowlock.Client) -> None:
    empty = rowlock_client.create_table("empty", ["f"])
    assert empty.splits() == [rowlock.Split(((b"", b""),), 0)]
    assert empty.splits("b", "b") == []
    assert empty.splits(ranges=[("a", "b"), ("c", "d")]) == [rowlock.Split(((b"a", b"b"), (b"c", b"d")), 0)]
    for part_bytes in (0, -1):
        with pytest.raises(rowlock.InvalidArgumentError, match="part_bytes"):
            empty.splits(part_bytes=part_bytes)
    for wrong in (True, 1.5):
        with pytest.raises(TypeError, match="part_bytes"):
            empty.splits(part_bytes=wrong)  # type: ignore[arg-type]  # what a caller may do
    with pytest.raises(rowlock.TableNotFoundError):
        rowlock_client.table("nosuch").splits()


def test_splits_find_a_table_that_was_truncated(rowlock_server: RowlockServer, table: rowlock.Table[bytes]) -> None:
    with rowlock.connect(rowlock_server.address) as other:
        other.truncate_table("t")
    assert table.splits() == [rowlock.Split(((b"", b""),), 0)]


def test_an_asyncio_client_gets_the_same(rowlock_server: RowlockServer, table: rowlock.Table[bytes]) -> None:
    async def run() -> list[rowlock.Split]:
        async with rowlock.aio.connect(rowlock_server.address, timeout=30) as db:
            return await db.table("t").splits("00100", part_bytes=50_000)

    assert asyncio.run(run()) == table.splits("00100", part_bytes=50_000)
