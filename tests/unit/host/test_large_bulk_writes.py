"""Large bulk writes: spilled into store files while they are staged, and adopted by their commit, all or nothing."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from rowlock_regionserver.catalog.catalog import CatalogState
from rowlock_regionserver.catalog.live_catalog import LiveCatalog
from rowlock_regionserver.cells import Family
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.errors import (
    ConflictError,
    DiskFullError,
    InvalidRequestError,
)
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.bulk_write import BulkWrite
from rowlock_regionserver.host.spilling import Spilling
from rowlock_regionserver.inspection.verify import Verification, verify_folder
from rowlock_regionserver.region.bulk.row_batch import BulkBatch
from rowlock_regionserver.region.live_files import LiveFiles
from rowlock_regionserver.region.manifest import read_manifest
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.sessions.session import SessionRef
from rowlock_regionserver.storefile.reader import StoreFile
from rowlock_regionserver.table import Table

from tests.drawn_cases import drawn
from tests.seeds import drawn_seed
from tests.unit.host.bulk_store import FAMILIES, ID, ONLY_ON_REQUEST, ROWS, Store, everywhere
from tests.unit.host.several_regions import make_tables_of_several_regions
from tests.unit.region.conftest import bulk_batch
from tests.unit.region.row_batches import row_batch

# A bulk file is larger, so each batch but the last one is spilled.
SMALL = 100
# About a batch of each region.
ROUND = 8192


@pytest.fixture(autouse=True)
def several_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    make_tables_of_several_regions(monkeypatch, [b"g", b"m", b"t"])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "data", spills_at=SMALL)
    made.server.create_table("t", FAMILIES, properties=ONLY_ON_REQUEST)
    yield made
    made.server.stop()


def late_rows(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Makes the next commit put two rows just before it flushes for the last time. Returns those that are to come."""
    enter = Region.without_flushes
    late = [b"b", b"y"]

    def write_first(region: Region) -> contextlib.AbstractContextManager[None]:
        while late:
            store.put(late.pop(), b"late")
        return enter(region)

    monkeypatch.setattr(Region, "without_flushes", write_first)
    return late


def stage_twice(store: Store, ref: SessionRef, value: bytes) -> dict[bytes, bytes]:
    """Stages rows of all regions, then more of them, so that the first ones are spilled. Returns the rows."""
    later = [(row + b"2", value) for row in ROWS]
    store.stage(ref, *everywhere(value))
    store.stage(ref, *later)
    assert store.write_of(ref).contents.spills
    return dict([*everywhere(value), *later])


def adopted_files(store: Store) -> list[StoreFile]:
    stores = [each for region in store.server.regions_of("t") for each in region.stores.all()]
    return [file for each in stores for file in each.files if file.info.write_number_base]


def check_folder(store: Store) -> None:
    """Asserts that `rowlock-server verify` finds the folder of the stopped server intact, with nothing unnamed."""
    store.server.stop()
    found = Verification()
    verify_folder(store.folder, Files(), found)
    assert (found.damage, found.remarks) == ([], [])
    store.open()


def test_spilled_batches_are_invisible_until_the_commit_which_has_all_of_them(store: Store) -> None:
    store.put(b"a", b"old")
    ref = store.session()
    expected = stage_twice(store, ref, b"1")
    store.stage(ref, (b"a", b"2"))
    assert store.content() == {b"a": b"old"}
    result = store.commit(ref)
    assert (result.row_count, result.cell_count, result.is_repeated) == (9, 9, False)
    assert len(adopted_files(store)) >= 7
    expected[b"a"] = b"2"
    assert store.content() == expected
    assert {cell["timestamp"] for cell in store.cells()} == {result.timestamp}
    assert store.staging == []
    store.crash()
    assert store.content() == expected
    store.server.flush("t")
    assert store.bulk_files == []
    store.crash()
    assert store.content() == expected
    check_folder(store)
    store.compact()
    assert (store.content(), adopted_files(store)) == (expected, [])
    assert {cell["timestamp"] for cell in store.cells()} == {result.timestamp}
    check_folder(store)
    assert store.content() == expected


def test_what_is_in_bulk_files_is_bounded(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", spills_at=ROUND)
    store.server.create_table("t", FAMILIES, properties=ONLY_ON_REQUEST)
    ref = store.session()
    for number in range(20):
        store.stage(ref, *[(row + b"%d" % number, bytes(500)) for row in ROWS])
        write = store.write_of(ref)
        assert write.bulk_file_bytes <= ROUND
        assert len(store.bulk_files) == len(write.staged())
    assert 0 < len(write.contents.spills) < 40
    assert store.commit(ref).row_count == 80
    assert len(store.content()) == 80
    store.server.stop()


def test_lines_of_several_batches_in_one_file_get_the_numbers_of_the_commit(tmp_path: Path) -> None:
    """Their blocks have a write number for each line; a snapshot from before the commit sees none of them."""
    store = Store(tmp_path / "data")
    store.server.create_table("t", FAMILIES, properties=ONLY_ON_REQUEST)
    for row in ROWS:
        store.put(row, b"old")
    store.server.make_snapshot("t", ID, 0, "")
    before, expected = store.content(), store.content()
    ref = store.session()
    for first in range(2):
        rows = [b"a%03d" % number for number in range(first, 600, 2)]
        store.stage(ref, batch=row_batch([(b"f", b"q")], [(row, None, [b"v" * 20]) for row in rows]))
        expected.update(dict.fromkeys(rows, b"v" * 20))
    store.server.bulk_writes.spilling.bytes_max = SMALL
    store.stage(ref, (b"z", b"last"))
    [spill] = store.write_of(ref).contents.spills
    [run] = spill.runs
    [(_, info)] = run.files
    assert (run.number_count, info.block_count) == (2, 0)
    assert info.wide_block_count > 0
    store.commit(ref)
    expected[b"z"] = b"last"
    for _ in range(2):
        assert store.content(ID) == before
        assert store.content() == expected
        store.server.flush("t")
        store.compact()
    store.server.stop()


def test_a_change_before_the_commit_loses_and_one_after_it_wins(store: Store) -> None:
    ref = store.session()
    expected = stage_twice(store, ref, b"staged")
    store.put(b"a", b"before the commit")
    result = store.commit(ref)
    assert store.content() == expected
    store.put(b"a", b"after the commit")
    assert store.content() == {**expected, b"a": b"after the commit"}
    assert result.timestamp >= store.clock.now_ms()
    store.crash()
    store.put(b"h", b"after the restart")
    after = {**expected, b"a": b"after the commit", b"h": b"after the restart"}
    assert store.content() == after
    store.server.flush("t")
    store.compact()
    assert store.content() == after


def test_an_aborted_write_leaves_nothing(store: Store) -> None:
    ref = store.session()
    stage_twice(store, ref, b"1")
    store.server.bulk_writes.abort(ref, store.server.table("t"))
    assert store.bulk_files == store.staging == []
    other = store.session("other")
    stage_twice(store, other, b"1")
    store.server.clients.sessions.end(other, "aborted")
    assert store.bulk_files == store.staging == []
    check_folder(store)
    assert store.content() == {}


def test_spilled_batches_survive_a_restart_with_their_session(store: Store) -> None:
    ref = store.session()
    expected = stage_twice(store, ref, b"1")
    [folder] = (store.folder / "staging").iterdir()
    for name in ("7-000000000099.store", "1-000000000099.store.temporary"):
        (folder / name).write_bytes(b"of a spill that did not finish")
    store.crash()
    assert not list(folder.glob("*99.store*"))
    assert store.content() == {}
    store.stage(ref, (b"b", b"3"), (b"z", b"3"))
    assert store.commit(ref).row_count == 10
    assert store.content() == {**expected, b"b": b"3", b"z": b"3"}


def test_a_repeated_batch_is_staged_once_although_it_was_spilled(store: Store) -> None:
    ref = store.session()
    store.stage(ref, (b"a", b"1"), sequence=7)
    store.stage(ref, (b"a", b"2"), sequence=8)
    assert store.write_of(ref).contents.spills
    for _ in range(2):
        store.stage(ref, (b"a", b"1"), sequence=7)
        store.crash()
    assert store.commit(ref).row_count == 2
    assert store.content() == {b"a": b"2"}


def test_a_batch_that_is_repeated_while_it_waits_for_a_spill_is_staged_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the repeated one would win over a batch that came after the first one."""
    ref = store.session()
    make_room, is_first = Spilling.make_room, [True]

    def repeat_first(spilling: Spilling, write: BulkWrite, table: Table, byte_count: int) -> None:
        make_room(spilling, write, table, byte_count)
        if is_first:
            is_first.clear()
            store.stage(ref, (b"a", b"1"), sequence=7)
            store.stage(ref, (b"a", b"2"), sequence=8)

    monkeypatch.setattr(Spilling, "make_room", repeat_first)
    store.stage(ref, (b"a", b"1"), sequence=7)
    assert len(store.bulk_files) == 1
    assert store.commit(ref).row_count == 2
    assert store.content() == {b"a": b"2"}


def test_regions_that_are_split_and_merged_meanwhile_adopt_their_rows(store: Store) -> None:
    ref = store.session()
    rows = [(b"%c%d" % (letter, digit), b"1") for letter in b"abhnuxz" for digit in range(3)]
    store.stage(ref, batch=bulk_batch(*[(row, b"f", b"q", None, value) for row, value in rows if row < b"g"]))
    for row, value in rows:
        if row >= b"g":
            store.stage(ref, (row, value))
    store.stage(ref, (b"a0", b"2"), (b"z0", b"2"))
    first, *_, left, right = store.server.regions_of("t")
    store.server.split_region("t", first.region_id, b"b")
    store.server.merge_regions("t", left.region_id, right.region_id)
    expected = {**dict(rows), b"a0": b"2", b"z0": b"2"}
    store.commit(ref)
    assert any(file.info.is_clipped for file in adopted_files(store))
    assert store.content() == expected
    store.crash()
    assert store.content() == expected
    *_, last = store.server.regions_of("t")
    store.server.split_region("t", last.region_id, b"x1")
    assert any(file.info.is_clipped for file in adopted_files(store))
    assert store.content() == expected
    store.crash()
    assert store.content() == expected
    store.compact()
    assert (store.content(), adopted_files(store)) == (expected, [])
    check_folder(store)


# ---- the same as a small bulk write


def random_batch(chance: random.Random, now: int) -> BulkBatch:
    """Returns puts and deletes with and without timestamps, as cells or as rows, of rows before g."""
    kind = chance.choice(["stamped", "stamped", "explicit", "mixed"])

    def timestamp() -> int | None:
        is_stamped = kind == "stamped" or (kind == "mixed" and chance.random() < 0.5)
        return None if is_stamped else now - chance.randrange(5)

    rows = [b"a%d" % chance.randrange(6) for _ in range(chance.randrange(1, 6))]
    if chance.random() < 0.5:
        names = [(b"f", b"q"), (b"f", b"r"), (b"g", b"q")]
        of_rows = [
            (row, timestamp(), [None if chance.random() < 0.2 else b"%d" % chance.randrange(100) for _ in names])
            for row in rows
        ]
        return row_batch(names, [(row, at, [*values[:2], b"x"]) for row, at, values in of_rows], nulls_delete=True)
    return bulk_batch(
        *[
            (
                row,
                chance.choice([b"f", b"g"]),
                chance.choice([b"q", b"r"]),
                timestamp(),
                None if chance.random() < 0.3 else b"%d" % chance.randrange(100),
            )
            for row in rows
        ]
    )


@pytest.mark.parametrize(
    ("versions", "spills_at"), drawn([(1, SMALL), (3, SMALL), (1, 4000), (3, 4000)], 2, "spilled writes")
)
def test_a_large_write_is_what_a_small_one_would_have_been(tmp_path: Path, versions: int, spills_at: int) -> None:
    """Two servers get the same calls; one spills, single batches or several at a time. Nothing else differs."""
    chance = random.Random(drawn_seed())
    large, small = (
        Store(tmp_path / name, ManualClock(), spills_at=each) for name, each in (("large", spills_at), ("small", 0))
    )
    spill_count = 0
    for each in (large, small):
        families = [Family(0, b"f", versions=versions), Family(0, b"g", versions=versions)]
        each.server.create_table("t", families, properties=ONLY_ON_REQUEST)
    for turn in range(12):
        refs = [each.session(f"job-{turn}") for each in (large, small)]
        for _ in range(chance.randrange(1, 8)):
            batch = random_batch(chance, large.clock.now_ms())
            value = b"%d" % chance.randrange(100)
            is_put = chance.random() < 0.3
            for each, ref in zip((large, small), refs, strict=True):
                each.stage(ref, batch=batch)
                if is_put:
                    each.put(b"a1", value)
        spill_count += len(large.write_of(refs[0]).contents.spills)
        assert not small.write_of(refs[1]).contents.spills
        replaces = chance.random() < 0.2
        results = [each.commit(ref, replaces=replaces) for each, ref in zip((large, small), refs, strict=True)]
        assert results[0] == results[1], turn
        for step in (
            lambda each: None,
            chance.choice([Store.compact, Store.crash, lambda each: each.server.flush("t")]),
        ):
            for each in (large, small):
                step(each)
            assert large.cells() == small.cells(), turn
            assert large.content() == small.content(), turn
    assert spill_count > 3
    for each in (large, small):
        check_folder(each)
        each.server.stop()


# ---- replace, conflicts


@pytest.mark.parametrize("is_flushed", [True, False])
def test_a_large_replacement_hides_everything_older(store: Store, *, is_flushed: bool) -> None:
    for row in (*ROWS, b"b", b"y"):
        store.put(row, b"old")
    if is_flushed:
        store.server.flush("t")
    store.put(b"z", b"old")
    before = store.content()
    store.server.make_snapshot("t", ID, 0, "")
    ref = store.session()
    store.stage(ref, (b"b", b"staged"), (b"b", b"new"), (b"x", b"new"))
    assert store.write_of(ref).contents.spills
    store.commit(ref, replaces=True)
    after = {b"b": b"new", b"x": b"new"}
    for _ in range(2):
        assert store.content() == after
        assert store.content(ID) == before
        store.server.flush("t")
    store.crash()
    assert store.content() == after
    store.compact()
    assert store.content() == after
    store.put(b"a", b"again")
    assert store.content() == {**after, b"a": b"again"}


def test_a_row_that_comes_while_a_large_replacement_is_prepared_is_replaced_too(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(b"a", b"old")
    ref = store.session()
    expected = stage_twice(store, ref, b"new")
    late = late_rows(store, monkeypatch)
    store.commit(ref, replaces=True)
    assert late == []
    assert store.content() == expected


def test_a_spilled_row_that_has_changed_since_the_snapshot_refuses_the_commit(store: Store) -> None:
    for row in ROWS:
        store.put(row, b"old")
    store.server.make_snapshot("t", ID, 0, "")
    ref = store.session()
    store.stage(ref, (b"a", b"new"), (b"x", b"new"), (b"b", b"new"), (b"z", b"new"))
    assert len(store.write_of(ref).contents.spills) == 3
    store.put(b"h", b"of another row")
    for row in (b"a", b"x"):
        store.put(row, b"changed")
    with pytest.raises(ConflictError, match=r"nothing was written, take a new snapshot") as caught:
        store.commit(ref, snapshot_id=ID)
    assert caught.value.rows == [b"a", b"x"]
    store.server.flush("t")
    with pytest.raises(ConflictError) as caught:
        store.commit(ref, snapshot_id=ID)
    assert caught.value.rows == [b"a", b"x"]
    assert store.content()[b"x"] == b"changed"
    check_folder(store)
    store.commit(ref)
    assert store.content() == {
        b"a": b"new",
        b"b": b"new",
        b"h": b"of another row",
        b"p": b"old",
        **dict.fromkeys((b"x", b"z"), b"new"),
    }


def test_a_family_that_was_dropped_since_refuses_more_batches_and_the_commit(store: Store) -> None:
    ref = store.session()
    batch = bulk_batch((b"a", b"g", b"q", None, b"1"))
    store.stage(ref, batch=batch)
    store.server.alter_table("t", drop_families=[b"g"])
    with pytest.raises(InvalidRequestError, match="was dropped since; abort it"):
        store.stage(ref, (b"b", b"2"))
    with pytest.raises(InvalidRequestError, match="was dropped since; nothing was committed"):
        store.commit(ref)


# ---- what others see and do meanwhile


def test_no_reader_sees_adopted_files_before_the_commit_point(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(b"a", b"old")
    ref = store.session()
    expected = stage_twice(store, ref, b"new")
    commit, seen = LiveCatalog.commit, []

    def look_first(catalog: LiveCatalog, state: CatalogState) -> None:
        seen.append(store.content())
        commit(catalog, state)

    monkeypatch.setattr(LiveCatalog, "commit", look_first)
    store.commit(ref)
    assert seen[-1] == {b"a": b"old"}
    assert store.content() == expected


def test_a_change_that_comes_while_a_large_commit_waits_for_its_gates_is_not_lost(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is flushed before the files are adopted, or replay would take it for one that is in a file."""
    ref = store.session()
    expected = stage_twice(store, ref, b"new")
    late_rows(store, monkeypatch)
    store.commit(ref)
    monkeypatch.undo()
    expected.update({b"b": b"late", b"y": b"late"})
    assert store.content() == expected
    store.crash()
    assert store.content() == expected


def test_a_compaction_during_a_commit_keeps_its_files(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It edits the manifest between the one that names the files, on condition, and the commit."""
    for value in (b"1", b"2"):
        store.put(b"a", value)
        store.server.flush("t")
    ref = store.session()
    expected = stage_twice(store, ref, b"new")
    commit = LiveCatalog.commit

    def compact_first(catalog: LiveCatalog, state: CatalogState) -> None:
        store.compact()
        commit(catalog, state)

    monkeypatch.setattr(LiveCatalog, "commit", compact_first)
    store.commit(ref)
    monkeypatch.undo()
    assert store.content() == expected
    store.crash()
    assert store.content() == expected
    check_folder(store)


@pytest.mark.parametrize("then", ["crash", "flush", "compact"])
def test_a_commit_that_fails_leaves_the_regions_as_they_were(
    store: Store, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    store.put(b"a", b"old")
    ref = store.session()
    expected = stage_twice(store, ref, b"new")

    def fail(catalog: LiveCatalog, state: CatalogState) -> None:
        raise DiskFullError("no space")

    monkeypatch.setattr(LiveCatalog, "commit", fail)
    with pytest.raises(DiskFullError):
        store.commit(ref)
    monkeypatch.undo()
    assert store.content() == {b"a": b"old"}
    if then == "crash":
        store.crash()
    elif then == "flush":
        store.put(b"b", b"later")
        store.server.flush("t")
        folder = store.folder / "regions" / str(store.server.regions_of("t")[0].region_id)
        infos = read_manifest(Files(), folder).manifest.store_files.values()
        assert not any(info.is_adopted for of_family in infos for info in of_family)
        expected[b"b"] = b"later"
    else:
        store.compact()
    check_folder(store)
    assert store.content() == {b"a": b"old", **({b"b": b"later"} if then == "flush" else {})}
    store.commit(ref)
    assert store.content() == expected
    check_folder(store)
    assert store.content() == expected


def test_a_full_disk_at_a_manifest_refuses_the_commit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other regions' manifests are written already."""
    ref = store.session()
    expected = stage_twice(store, ref, b"new")
    prepare, prepared = LiveFiles.prepare, []

    def fail_third(live: LiveFiles, files: dict[int, list[StoreFile]]) -> None:
        prepared.append(live)
        if len(prepared) == 3:
            raise DiskFullError("no space")
        prepare(live, files)

    monkeypatch.setattr(LiveFiles, "prepare", fail_third)
    with pytest.raises(DiskFullError):
        store.commit(ref)
    monkeypatch.undo()
    assert (len(prepared), store.content()) == (3, {})
    check_folder(store)
    store.commit(ref)
    assert store.content() == expected
