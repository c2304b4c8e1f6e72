"""Regions of a real server that are split and merged while clients use them."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle

import pyarrow as pa
import pytest
import rowlock
from rowlock._transport import methods
from rowlock.pytest_plugin import RowlockServer
from rowlock_proto.v1 import catalog_pb2

from tests.waiting import wait_until

ROWS = [(b"r%03d" % number, {b"f:v": b"%d" % number}) for number in range(200)]
BORDERS = [b"r050", b"r100", b"r150"]


@pytest.fixture
def table(rowlock_client: rowlock.Client) -> rowlock.Table[bytes]:
    made = rowlock_client.create_table("t", {"f": rowlock.Family(versions=1)})
    with made.batch() as batch:
        for row, data in ROWS:
            batch.put(row, data)
    return made


@pytest.fixture
def other(rowlock_server: RowlockServer) -> rowlock.Client:
    """A client that does not learn of splits and merges that `rowlock_client` makes."""
    return rowlock.connect(rowlock_server.address)


def bounds(db: rowlock.Client) -> list[tuple[bytes, bytes]]:
    return [(region.start, region.stop) for region in db.regions("t")]


def ids_and_bounds(db: rowlock.Client) -> list[tuple[int, bytes, bytes]]:
    """Without the sizes, which a compaction in the background changes."""
    return [(region.region_id, region.start, region.stop) for region in db.regions("t")]


def test_a_region_is_split_at_a_row_and_merged_again(
    rowlock_client: rowlock.Client, table: rowlock.Table[bytes]
) -> None:
    [old] = rowlock_client.regions("t")
    lower, upper = rowlock_client.split("t", b"r100")
    assert bounds(rowlock_client) == [(b"", b"r100"), (b"r100", b"")]
    assert list(table.scan()) == ROWS
    assert list(table.scan(b"r090", b"r110", reverse=True)) == ROWS[90:110][::-1]
    merged = rowlock_client.merge("t", b"r100")
    assert bounds(rowlock_client) == [(b"", b"")]
    assert len({old.region_id, lower.region_id, upper.region_id, merged.region_id}) == 4
    assert list(table.scan()) == ROWS


def test_a_region_is_split_in_the_middle_of_its_data(rowlock_client: rowlock.Client) -> None:
    table = large_table(rowlock_client)
    rows = list(table.scan())
    lower, upper = rowlock_client.split("t")
    assert b"r050" < upper.start < b"r150"
    assert lower.stop == upper.start
    again = rowlock_client.split("t", region=upper)
    assert [region.region_id for region in rowlock_client.regions("t")] == [
        lower.region_id,
        *(region.region_id for region in again),
    ]
    assert list(table.scan()) == rows
    assert rowlock_client.merge("t", regions=again).start == upper.start
    assert list(table.scan()) == rows


def large_table(db: rowlock.Client, properties: Mapping[str, object] | None = None) -> rowlock.Table[bytes]:
    """Returns a table with many blocks, all in store files."""
    draw = random.Random(7)
    families = {"f": rowlock.Family(block_bytes=4096, compression="none")}
    table = db.create_table("t", families, properties=properties)
    with table.batch() as batch:
        for row, _ in ROWS:
            batch.put(row, {b"f:v": draw.randbytes(1000)})
    db.flush("t")
    return table


def test_everything_survives_restarts(rowlock_server: RowlockServer, rowlock_client: rowlock.Client) -> None:
    table = rowlock_client.create_table("t", ["f"])
    for row, data in ROWS[::10]:
        table.put(row, data)
    rowlock_client.split("t", b"r100")
    table.put(b"r005", {b"f:v": b"after"})
    table.put(b"r195", {b"f:v": b"after"})
    expected = sorted([*ROWS[::10], (b"r005", {b"f:v": b"after"}), (b"r195", {b"f:v": b"after"})])
    rowlock_server.restart()
    with rowlock.connect(rowlock_server.address) as db:
        assert list(db.table("t").scan()) == expected
        db.merge("t", b"r100")
        db.table("t").delete(b"r005")
    rowlock_server.restart()
    with rowlock.connect(rowlock_server.address) as db:
        assert bounds(db) == [(b"", b"")]
        assert list(db.table("t").scan()) == [each for each in expected if each[0] != b"r005"]


@pytest.mark.parametrize("is_merged", [False, True])
def test_a_client_that_knows_the_old_regions_follows(
    rowlock_client: rowlock.Client, table: rowlock.Table[bytes], other: rowlock.Client, *, is_merged: bool
) -> None:
    stale = other.table("t")

    def change() -> None:
        for border in BORDERS:
            (rowlock_client.merge if is_merged else rowlock_client.split)("t", border)

    if is_merged:
        for border in BORDERS:
            rowlock_client.split("t", border)
    uses: list[Callable[[], object]] = [
        lambda: stale.row(b"r120"),
        lambda: stale.put(b"r120", {b"f:v": b"120"}),
        lambda: stale.increment(b"r120", b"f:n"),
        lambda: stale.rows([row for row, _ in ROWS]),
        lambda: put_batch(stale),
        lambda: put_cells(stale),
        lambda: list(stale.scan()),
        lambda: stale.splits(part_bytes=100),
        lambda: stale.count(),
    ]
    for use in uses:
        assert list(stale.scan(columns=["f:v"])) == ROWS
        change()
        use()
        assert list(stale.scan(columns=["f:v"])) == ROWS
        undo = rowlock_client.split if is_merged else rowlock_client.merge
        for border in BORDERS:
            undo("t", border)
    assert stale.counter(b"r120", b"f:n") == 1
    other.close()


def test_changes_of_a_client_that_knows_the_old_regions_need_no_look_up(
    rowlock_client: rowlock.Client, table: rowlock.Table[bytes], other: rowlock.Client
) -> None:
    stale = other.table("t")
    stale.put(b"r120", {b"f:v": b"120"})
    known = other._servers.regions.find("t", b"r120")
    for border in BORDERS:
        rowlock_client.split("t", border)
    rowlock_client.merge("t", BORDERS[0])
    for row in (b"r120", b"r010", b"r199"):
        stale.increment(row, b"f:n", 7)
        assert stale.check_and_put(row, "f:n", (7).to_bytes(8, "big"), {b"f:n": (8).to_bytes(8, "big")})
        assert other._servers.regions.find("t", row) is known
    assert [table.counter(row, b"f:n") for row in (b"r010", b"r120", b"r199")] == [8] * 3
    assert stale.counter(b"r120", b"f:n") == 8  # A read is refused, and then the client looks the region up.
    assert other._servers.regions.find("t", b"r120") is not known
    other.close()


def put_batch(table: rowlock.Table[bytes]) -> None:
    with table.batch() as batch:
        for row, data in ROWS:
            batch.put(row, data)


def put_cells(table: rowlock.Table[bytes]) -> None:
    table.put_arrow(
        pa.table(
            {
                "row": pa.array([row for row, _ in ROWS], pa.binary()),
                "family": pa.array([b"f"] * len(ROWS), pa.binary()),
                "qualifier": pa.array([b"v"] * len(ROWS), pa.binary()),
                "value": pa.array([data[b"f:v"] for _, data in ROWS], pa.binary()),
            }
        )
    )


def test_a_snapshot_reads_the_same_after_splits_and_merges(
    rowlock_client: rowlock.Client, table: rowlock.Table[bytes], other: rowlock.Client
) -> None:
    rowlock_client.split("t", b"r100")
    with rowlock_client.snapshot("t") as snapshot:
        assert table.delete_range(b"r080", b"r120") == 40
        for change, border in (
            (rowlock_client.split, b"r050"),
            (rowlock_client.merge, b"r100"),
            (rowlock_client.split, b"r110"),
            (rowlock_client.merge, b"r050"),
        ):
            change("t", border)
            rowlock_client.flush("t")
            rowlock_client.compact("t", major=True, wait=True)
            for reader in (table, other.table("t")):
                assert list(reader.scan(snapshot=snapshot)) == ROWS
                assert list(reader.scan(b"r040", b"r115", snapshot=snapshot.id, reverse=True)) == ROWS[40:115][::-1]
                assert list(reader.scan(limit=60, start=b"r045", snapshot=snapshot)) == ROWS[45:105]
        assert table.count() == 160
    other.close()


def test_an_open_scan_reads_to_its_end(rowlock_client: rowlock.Client, table: rowlock.Table[bytes]) -> None:
    scan = table.scan(batch_bytes=1000, strict=True)
    found = [next(scan) for _ in range(10)]
    rowlock_client.split("t", b"r100")
    rowlock_client.split("t", b"r050")
    rowlock_client.merge("t", b"r100")
    found += scan
    assert found == ROWS
    assert not scan.resumed


def test_changes_count_once_while_regions_are_split_and_merged(
    rowlock_client: rowlock.Client, table: rowlock.Table[bytes], rowlock_server: RowlockServer
) -> None:
    """Increments, batches and bulk batches of several clients; no row is counted twice, and none is lost."""
    is_over = threading.Event()
    counts: list[int] = []
    failures: list[BaseException] = []

    def increments() -> None:
        with rowlock.connect(rowlock_server.address) as db:
            counter, count = db.table("t"), 0
            for row, _ in cycle(ROWS[::7]):
                if is_over.is_set():
                    break
                counter.increment(row, b"f:n")
                count += 1
            counts.append(count)

    def batches() -> None:
        with rowlock.connect(rowlock_server.address) as db:
            counter, count = db.table("t"), 0
            while not is_over.is_set():
                with counter.batch() as batch:
                    for row, _ in ROWS[::3]:
                        batch.increment(row, b"f:n", 1)
                        count += 1
                put_cells(counter)
            counts.append(count)

    def watched(work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                failures.append(error)

        return threading.Thread(target=run)

    threads = [watched(work) for work in (increments, increments, batches)]
    for thread in threads:
        thread.start()
    try:
        for border in BORDERS * 3:
            rowlock_client.split("t", border)
            rowlock_client.split("t", border + b"x")
            rowlock_client.merge("t", border)
            rowlock_client.merge("t", border + b"x")
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert failures == []
    numbers = [int.from_bytes(data[b"f:n"], "big") for _, data in table.scan(columns=["f:n"])]
    assert sum(numbers) == sum(counts) > 0
    assert list(table.scan(columns=["f:v"])) == ROWS


def test_a_bulk_write_is_committed_over_splits_in_between(
    rowlock_client: rowlock.Client, table: rowlock.Table[bytes]
) -> None:
    with rowlock_client.bulk_write("t") as write:
        for row, _ in ROWS:
            write.put(row, {b"f:v": b"bulk"})
        write.write(pa.table({"k": ["r300"], "v": ["bulk"]}), "k STRING :key, v STRING f:v")
        rowlock_client.split("t", b"r100")
        write.put(b"r301", {b"f:v": b"bulk"})
        rowlock_client.split("t", b"r050")
        rowlock_client.merge("t", b"r100")
    assert {data[b"f:v"] for _, data in table.scan()} == {b"bulk"}
    assert table.count() == 202


def test_regions_are_split_by_size(rowlock_client: rowlock.Client) -> None:
    table = large_table(rowlock_client, {"split.region_bytes": 100_000})
    wait_until(lambda: len(rowlock_client.regions("t")) > 1)
    assert [row for row, _ in table.scan()] == [row for row, _ in ROWS]
    with pytest.raises(rowlock.InvalidArgumentError, match="must be a whole number of bytes"):
        rowlock_client.alter_table("t", properties={"split.region_bytes": "10GiB"})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda db: db.split("t", b"r100"), "row 'r100' is the first row of region [0-9]+ of table 't' already"),
        (lambda db: db.split("t", b"r050", region=db.regions("t")[1]), "row 'r050' is not in region [0-9]+"),
        (lambda db: db.split("t", region=1 << 40), "table 't' has no region 1099511627776"),
        (lambda db: db.split("t", b"x" * 32_768), "row_bytes_max"),
        (lambda db: db.merge("t", b"r050"), "no region of table 't' begins with row 'r050'"),
        (lambda db: db.merge("t", regions=(db.regions("t")[0],) * 2), "can't be merged with itself"),
        (lambda db: db.merge("t", regions=db.regions("t")[::2]), "does not begin where region"),
        (lambda db: db.merge("t", regions=(1 << 40, 1)), "table 't' has no region 1099511627776"),
    ],
)
def test_impossible_changes_are_refused_and_change_nothing(
    rowlock_client: rowlock.Client,
    table: rowlock.Table[bytes],
    call: Callable[[rowlock.Client], object],
    message: str,
) -> None:
    rowlock_client.split("t", b"r100")
    rowlock_client.split("t", b"r150")
    before = ids_and_bounds(rowlock_client)
    with pytest.raises(rowlock.InvalidArgumentError, match=message):
        call(rowlock_client)
    assert ids_and_bounds(rowlock_client) == before
    assert list(table.scan()) == ROWS


def test_a_region_without_a_middle_row_is_not_split(rowlock_client: rowlock.Client) -> None:
    rowlock_client.create_table("t", ["f"])
    with pytest.raises(rowlock.InvalidArgumentError):
        rowlock_client.split("t")
    rowlock_client.table("t").put("only", {"f:v": "1"})
    with pytest.raises(rowlock.InvalidArgumentError):
        rowlock_client.split("t")
    with pytest.raises(rowlock.TableNotFoundError):
        rowlock_client.split("absent")
    with pytest.raises(rowlock.TableNotFoundError):
        rowlock_client.merge("absent", "m")


def test_a_locked_table_is_not_split(rowlock_server: RowlockServer, table: rowlock.Table[bytes]) -> None:
    with rowlock.connect(rowlock_server.address, lock_wait_s=0, lock_retries=0) as db:
        with db.lock("t", "exclusive") as lock:
            with pytest.raises(rowlock.LockUnavailableError, match="it is held"):
                db.split("t", b"r100")
            db.split("t", b"r100", session=lock.session)
        [lower, _] = db.regions("t")
        with db.lock("t", "shared", region=lower.region_id):
            with pytest.raises(rowlock.LockUnavailableError):
                db.merge("t", b"r100")
            db.split("t", b"r150")
        assert len(db.regions("t")) == 3


def test_calls_on_regions_that_are_repeated_are_answered(
    rowlock_client: rowlock.Client, table: rowlock.Table[bytes]
) -> None:

    servers = rowlock_client._servers

    def split(row: bytes, region_id: int = 0) -> Sequence[int]:
        request = catalog_pb2.SplitRegionRequest(table="t", split_row=row, region_id=region_id, is_repeated=True)
        return [region.region_id for region in servers.call(methods.SPLIT_REGION, request, 60).regions]

    def merge(row: bytes) -> int:
        request = catalog_pb2.MergeRegionsRequest(table="t", row=row, is_repeated=True)
        return servers.call(methods.MERGE_REGIONS, request, 60).region.region_id

    [old] = rowlock_client.regions("t")
    first = split(b"r100", old.region_id)
    assert split(b"r100") == split(b"r100", old.region_id) == first
    merged = merge(b"r100")
    assert merge(b"r100") == merged
    assert [region.region_id for region in rowlock_client.regions("t")] == [merged]
    without_row = catalog_pb2.SplitRegionRequest(table="t", is_repeated=True)
    with pytest.raises(rowlock.InvalidArgumentError, match="a split that is repeated must name split_row"):
        servers.call(methods.SPLIT_REGION, without_row, 60)
    by_ids = catalog_pb2.MergeRegionsRequest(table="t", region_ids=[merged, 1], is_repeated=True)
    with pytest.raises(rowlock.InvalidArgumentError, match="a merge that is repeated must name `row`"):
        servers.call(methods.MERGE_REGIONS, by_ids, 60)
    for ids, row in (([], b""), ([merged], b""), ([merged, 1, 2], b""), ([merged, 1], b"r100")):
        odd = catalog_pb2.MergeRegionsRequest(table="t", region_ids=ids, row=row)
        with pytest.raises(rowlock.InvalidArgumentError, match="a merge names two regions by their ids, or `row`"):
            servers.call(methods.MERGE_REGIONS, odd, 60)
