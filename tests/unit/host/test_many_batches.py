"""Bulk writes of many batches: their order, whichever are spilled; all are taken back; many rows are replaced."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rowlock_regionserver.catalog.catalog import CatalogState
from rowlock_regionserver.catalog.live_catalog import LiveCatalog
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import DiskFullError
from rowlock_regionserver.host.bulk_write import BulkWrite
from rowlock_regionserver.host.spilling import Spilling, batches_to_spill
from rowlock_regionserver.memstore.memstore import MERGED_COUNT_MIN
from rowlock_regionserver.operations import RequestId, WriteOptions
from rowlock_regionserver.region.bulk.row_batch import BulkBatch
from rowlock_regionserver.region.bulk.staged import StagedBatch
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.mutation import BulkRecord

from tests.unit.host.bulk_store import FAMILIES, ID, ONLY_ON_REQUEST, ROWS, Store, everywhere
from tests.unit.host.several_regions import make_tables_of_several_regions
from tests.unit.region.conftest import bulk_batch
from tests.unit.region.row_batches import row_batch
from tests.waiting import WAIT_S

BATCH_COUNT = 2 * MERGED_COUNT_MIN + 1


@pytest.fixture(autouse=True)
def several_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    make_tables_of_several_regions(monkeypatch, [b"g", b"m", b"t"])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "data")
    made.server.create_table("t", FAMILIES, properties=ONLY_ON_REQUEST)
    yield made
    made.server.stop()


def split_first(store: Store) -> None:
    store.server.split_region("t", store.server.regions_of("t")[0].region_id, b"b")


def merge_first(store: Store) -> None:
    left, right, *_ = store.server.regions_of("t")
    store.server.merge_regions("t", left.region_id, right.region_id)


@pytest.mark.parametrize("change", [split_first, merge_first])
@pytest.mark.parametrize("size", [1, 3000])
def test_a_later_batch_wins_also_over_one_of_a_region_that_is_gone(store: Store, change: object, size: int) -> None:
    """Whichever of the two has more bytes, so that its region is the one to spill."""
    assert callable(change)
    ref = store.session()
    store.stage(ref, (b"a", b"older" + bytes(1500)), (b"h", b"older"))
    change(store)
    store.stage(ref, (b"a", b"later" + bytes(size)), (b"h", b"later"))
    write = store.write_of(ref)
    store.server.bulk_writes.spilling.bytes_max = write.bulk_file_bytes - 1
    store.stage(ref, (b"x", b"z"))
    assert write.contents.spills
    store.commit(ref)
    assert store.content() == {b"a": b"later" + bytes(size), b"h": b"later", b"x": b"z"}
    store.crash()
    assert store.content() == {b"a": b"later" + bytes(size), b"h": b"later", b"x": b"z"}


def staged(region_id: int, first_row: bytes, last_row: bytes) -> StagedBatch:
    return StagedBatch(region_id, BulkRecord(0, 1, 1, first_row, None), last_row, (1,))


def test_a_spill_takes_whole_batches_and_each_older_one_that_may_have_a_row_of_them() -> None:
    older = [(1, staged(7, b"a", b"b")), (1, staged(7, b"x", b"z")), (2, staged(7, b"k", b"l"))]
    later = [(3, staged(8, b"b", b"c")), (4, staged(8, b"d", b"e")), (5, staged(7, b"c", b"c"))]
    assert batches_to_spill([*older, *later], 8) == [*older[:2], *later[:2]], "both files of a batch, or none"
    assert batches_to_spill([*older[2:], *later], 8) == later[:2]
    assert batches_to_spill([*older, *later], 7) == [*older, later[0], later[2]]


def test_a_whole_batch_that_comes_after_a_part_of_it_adds_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for a spill while its client sent it again, in parts, because its region was split."""
    ref = store.session()
    make_room, is_first = Spilling.make_room, [True]

    def stage(row: bytes, value: bytes, request: RequestId) -> None:
        (region,) = store.server.regions_of("t", row, row + b"\0")
        store.server.bulk_writes.stage(ref, region, bulk_batch((row, b"f", b"q", None, value)), request)

    def send_parts_first(spilling: Spilling, write: BulkWrite, table: Table, byte_count: int) -> None:
        make_room(spilling, write, table, byte_count)
        if is_first:
            is_first.clear()
            split_first(store)
            stage(b"a", b"1", RequestId(bytes(16), 8, 7, parts_of=(7,)))
            stage(b"a", b"2", RequestId(bytes(16), 9, 7))
            stage(b"b", b"1", RequestId(bytes(16), 10, 7, parts_of=(7,)))

    monkeypatch.setattr(Spilling, "make_room", send_parts_first)
    (region,) = store.server.regions_of("t", b"a", b"b")
    whole = bulk_batch(*[(row, b"f", b"q", None, b"1") for row in (b"a", b"b")])
    store.server.bulk_writes.stage(ref, region, whole, RequestId(bytes(16), 7, 7))
    assert len(store.bulk_files) == 3
    store.crash()
    store.server.bulk_writes.stage(ref, region, whole, RequestId(bytes(16), 7, 7))
    store.commit(ref)
    assert store.content() == {b"a": b"2", b"b": b"1"}


def of_cells(row: bytes, value: bytes) -> BulkBatch:
    return bulk_batch((row, b"f", b"q", None, value))


def of_lines(row: bytes, value: bytes) -> BulkBatch:
    return row_batch([(b"f", b"q")], [(row, None, [value])])


@pytest.mark.parametrize("batch_of", [of_cells, of_lines])
@pytest.mark.parametrize("replaces", [False, True])
def test_a_commit_of_many_batches_that_fails_leaves_memory_as_it_was(
    store: Store, monkeypatch: pytest.MonkeyPatch, batch_of: object, *, replaces: bool
) -> None:
    """Small segments of a memstore are merged, but what the commit may take back is not merged with older ones."""
    assert callable(batch_of)
    for number in range(MERGED_COUNT_MIN - 1):
        ref = store.session(f"before-{number}")
        store.stage(ref, batch=batch_of(b"a%d" % number, b"old"))
        store.commit(ref)
    store.put(b"b", b"old")
    before, held = store.content(), store.server._shared.memory.bytes_held
    ref = store.session()
    for number in range(BATCH_COUNT):
        store.stage(ref, batch=batch_of(b"a%d" % number, b"new"))

    def fail(catalog: LiveCatalog, state: CatalogState) -> None:
        raise DiskFullError("no space")

    monkeypatch.setattr(LiveCatalog, "commit", fail)
    with pytest.raises(DiskFullError):
        store.commit(ref, replaces=replaces)
    monkeypatch.undo()
    assert store.content() == before
    assert store.server._shared.memory.bytes_held == held
    for region in store.server.regions_of("t"):
        region._check()
    store.commit(ref, replaces=replaces)
    after = {b"a%d" % number: b"new" for number in range(BATCH_COUNT)}
    expected = after if replaces else {**before, **after}
    assert store.content() == expected
    store.crash()
    assert store.content() == expected


def test_segments_are_merged_after_a_commit(store: Store) -> None:
    for number in range(MERGED_COUNT_MIN):
        ref = store.session(f"commit-{number}")
        store.stage(ref, batch=of_cells(b"a%d" % number, b"x"))
        store.commit(ref)
    (region,) = store.server.regions_of("t", b"a", b"b")
    segments = sum(len(each.memstore.sources()) for each in region.stores.all())
    done = threading.Event()
    batch = of_cells(b"b", bytes(Config().bulk_file_bytes_min))
    region.bulk_put(batch, None, WriteOptions(Clock().monotonic() + WAIT_S), lambda _: done.set())
    assert done.wait(WAIT_S)
    assert sum(len(each.memstore.sources()) for each in region.stores.all()) < segments


def test_tombstones_of_many_rows_are_store_files_and_not_in_memory(store: Store) -> None:
    rows = [row + b"%03d" % number for row in ROWS for number in range(30)]
    for row in rows[::3]:
        store.put(row, b"old")
    store.server.flush("t")
    for row in rows[::4]:
        store.put(row, b"old")
    before = store.content()
    store.server.make_snapshot("t", ID, 0, "")
    ref = store.session()
    store.stage(ref, *everywhere(b"new"), (rows[0], b"new"))
    assert not store.write_of(ref).contents.spills
    store.server.bulk_writes.spilling.bytes_max = 1000
    store.commit(ref, replaces=True)
    tombstone_counts = [
        each.memstore.statistics().tombstone_count
        for region in store.server.regions_of("t")
        for each in region.stores.all()
    ]
    assert not any(tombstone_counts)
    after = {**dict(everywhere(b"new")), rows[0]: b"new"}
    for _ in range(2):
        assert store.content() == after
        assert store.content(ID) == before
        store.server.flush("t")
        store.compact()
    store.crash()
    assert store.content() == after
