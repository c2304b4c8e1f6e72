"""Named snapshots: one moment of a table, which becomes a new table whatever has happened to the old one."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    CorruptionError,
    DiskFullError,
    InvalidRequestError,
    LimitExceededError,
    LockUnavailableError,
    SnapshotExistsError,
    SnapshotNotFoundError,
    TableExistsError,
    TableNotFoundError,
)
from rowlock_regionserver.files import Files
from rowlock_regionserver.host import named_snapshots
from rowlock_regionserver.host.bulk_commit import CommitRequest, commit_bulk_write, regions_locked
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.locks.lock_matrix import Operation
from rowlock_regionserver.locks.table_locks import THE_SERVER, Caller
from rowlock_regionserver.operations import (
    Delete,
    DeleteKind,
    Increment,
    RequestId,
    Selection,
)
from rowlock_regionserver.region.copied_folder import make_snapshot_folder
from rowlock_regionserver.region.flush import FlushResult
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.region.region_cut import RegionCut

from tests.unit.region.conftest import bulk_batch
from tests.waiting import WAIT_S, wait_until

from .restored_table import put_all, restored
from .serving_table import CONFIG, FAMILIES, Serving, fill
from .table_of_regions import TableOfRegions

CLIENT = b"client is 16 byt"


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Serving]:
    serving = Serving(tmp_path)
    yield serving
    serving.server.stop()


def take_snapshots_beside(table: Serving, write: Callable[[], None], is_over: threading.Event) -> None:
    """Takes the snapshots s0 to s9 while another thread writes until `is_over` is set."""
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            for number in range(10):
                table.server.create_named_snapshot(f"s{number}", "t")
        finally:
            is_over.set()
        writing.result(WAIT_S)


# ---- the moment


def test_a_restored_table_has_the_rows_of_the_moment(table: Serving) -> None:
    rows = fill(table)
    table.split(b"r000013")
    table.put(b"r000005", b"unflushed")
    expected = sorted((dict(rows) | {b"r000005": b"unflushed"}).items())
    table.server.create_named_snapshot("s", "t")
    put_all(table, b"later")
    table.change(b"r000030", Delete(DeleteKind.ROW))
    copy = restored(table)
    assert copy.scan() == expected
    assert copy.bounds == [(b"", b"r000013"), (b"r000013", b"")]
    assert [copy.get(row) for row, _ in expected] == [[value] for _, value in expected]
    table.restart()
    assert TableOfRegions(table.server, "restored").scan() == expected


def test_a_restored_table_goes_on_from_the_numbers_of_cells_that_are_gone(table: Serving) -> None:
    table.put(b"r1", b"v")
    table.change(b"r1", Delete(DeleteKind.ROW))
    table.server.flush("t")
    table.compact()
    assert table.scan() == []
    table.server.create_named_snapshot("s", "t")
    last = table.regions[0]._parts.mvcc.last
    assert restored(table).regions[0]._parts.mvcc.last >= last > 0


def change_all(table: Serving) -> None:
    put_all(table, b"later")
    table.server.flush("t")
    table.compact()


CHANGES: dict[str, Callable[[Serving], object]] = {
    "truncated": lambda table: table.server.truncate_table("t"),
    "dropped": lambda table: table.server.drop_table("t"),
    "compacted": lambda table: change_all(table),
    "split": lambda table: table.split(b"r000025"),
    "merged": lambda table: table.merge(),
    "altered": lambda table: table.server.alter_table("t", drop_families=[b"f"]),
    "restarted": lambda table: table.restart(),
    "killed": lambda table: table.crash(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_happens_to_the_table_the_snapshot_stays(table: Serving, change: Callable[[Serving], object]) -> None:
    rows = fill(table)
    table.split(b"r000013")
    table.server.create_named_snapshot("s", "t")
    change(table)
    table.server._shared.open_files.close_released()
    assert restored(table).scan() == rows
    table.restart()
    assert restored(table, to="again").scan() == rows


def test_a_restored_table_and_its_snapshot_are_independent(table: Serving) -> None:
    rows = fill(table)
    table.server.create_named_snapshot("s", "t")
    first, second = restored(table, to="first"), restored(table, to="second")
    put_all(first, b"changed")
    table.server.flush("first")
    table.server.drop_table("t")
    table.server.drop_named_snapshot("s")
    assert second.scan() == rows
    table.server.drop_table("first")
    table.crash()
    assert TableOfRegions(table.server, "second").scan() == rows
    assert table.names("regions") == [str(region.region_id) for region in table.server.regions_of("second")]


def test_what_comes_after_the_flush_is_in_the_snapshot(table: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    flush = RegionServer.flush_region

    def flush_and_write(server: RegionServer, region: Region) -> FlushResult:
        result = flush(server, region)
        table.put(b"r7", b"later")
        return result

    with monkeypatch.context() as patched:
        patched.setattr(RegionServer, "flush_region", flush_and_write)
        table.server.create_named_snapshot("s", "t")
    assert restored(table).scan() == [(b"r7", b"later")]


def test_what_comes_after_the_cut_is_not_in_it_and_does_not_wait_for_the_folders(
    table: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.put(b"r7", b"v")
    table.split(b"r5")

    def write_and_make(*arguments: object) -> None:
        table.put(b"r1", b"later")
        table.put(b"r7", b"later")
        table.server.flush("t")
        table.compact()
        make_snapshot_folder(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(named_snapshots, "make_snapshot_folder", write_and_make)
    table.server.create_named_snapshot("s", "t")
    assert restored(table).scan() == [(b"r7", b"v")]


def test_no_snapshot_has_a_write_without_one_that_was_acknowledged_before_it(table: Serving) -> None:
    """A writer adds to a row of the last region before one of the first, so the last has as much or one more."""
    table.split(b"r3")
    table.split(b"r5")
    rows = [b"r7", b"r4", b"r1"]
    is_over = threading.Event()

    def write() -> None:
        while not is_over.is_set():
            for row in rows:
                table.change(row, Increment(b"f", b"n", 1))

    take_snapshots_beside(table, write, is_over)
    for number in range(10):
        counts = dict(restored(table, f"s{number}", f"t{number}").scan())
        found = [int.from_bytes(counts.get(row, b""), "big") for row in rows]
        assert found == sorted(found, reverse=True)
        assert found[0] - found[-1] <= 1


@pytest.mark.parametrize("cut_region", [0, 1])
def test_writes_go_on_while_the_cut_is_flushed_and_are_not_in_it(
    table: Serving, monkeypatch: pytest.MonkeyPatch, cut_region: int
) -> None:
    """Writes, deletes, a flush that has to wait and a compaction come between the moment and the flush of a region."""
    rows = fill(table)
    table.split(b"r000013")
    table.put(b"r000013", b"unflushed")
    expected = sorted((dict(rows) | {b"r000013": b"unflushed"}).items())
    usual = Region.cut

    def write_and_cut(region: Region, write_number: int) -> RegionCut:
        assert region._flusher._lock.locked(), "a flush may begin"
        if region is table.regions[cut_region]:
            put_all(table, b"later")
            table.change(b"r000030", Delete(DeleteKind.ROW))
            flushing.append(pool.submit(table.server.flush, "t"))
            table.compact()
        return usual(region, write_number)

    flushing: list[Future[FlushResult]] = []
    with ThreadPoolExecutor(1) as pool, monkeypatch.context() as patched:
        patched.setattr(Region, "cut", write_and_cut)
        table.server.create_named_snapshot("s", "t")
        flushing[0].result(WAIT_S)
    assert restored(table).scan() == expected


def test_a_cut_that_could_not_be_flushed_loses_nothing(table: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    table.put(b"r1", b"before")

    def cut(region: Region, write_number: int) -> RegionCut:
        raise DiskFullError("no space is left")

    def write_after_the_flush(server: RegionServer, region: Region) -> FlushResult:
        result = flush(server, region)
        table.put(b"r1", b"sealed")
        return result

    flush = RegionServer.flush_region
    with monkeypatch.context() as patched:
        patched.setattr(Region, "cut", cut)
        patched.setattr(RegionServer, "flush_region", write_after_the_flush)
        with pytest.raises(DiskFullError):
            table.server.create_named_snapshot("s", "t")
    table.put(b"r2", b"active")
    expected = [(b"r1", b"sealed"), (b"r2", b"active")]
    assert table.scan() == expected
    table.server.create_named_snapshot("s", "t")
    assert restored(table).scan() == expected
    table.crash()
    assert TableOfRegions(table.server, "t").scan() == TableOfRegions(table.server, "restored").scan() == expected


def test_all_gates_are_held_at_one_moment(table: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the second region is about to be sealed, a writer begins to change the first one, and then the second."""
    table.split(b"r5")
    first, second = table.regions
    usual = Region.sealed

    def write() -> None:
        table.put(b"r1", b"first")
        table.put(b"r7", b"second")

    def sealed(region: Region, deadline: float) -> contextlib.AbstractContextManager[int]:
        if region is second:
            writing.append(pool.submit(write))
            wait_until(lambda: writing[0].done() or first._parts.gate.statistics().shared_waiting == 1)
        return usual(region, deadline)

    writing: list[Future[None]] = []
    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(Region, "sealed", sealed)
        table.server.create_named_snapshot("s", "t")
        writing[0].result(WAIT_S)
    assert restored(table).scan() == []


def test_a_bulk_write_is_in_a_snapshot_everywhere_or_nowhere(table: Serving) -> None:
    table.split(b"r5")
    is_over = threading.Event()

    def write() -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            ref = table.server.clients.sessions.open(f"job-{number}", "ana").ref
            table.server.bulk_writes.open(ref, table.server.table("t"))
            for row in (b"r1", b"r7"):
                batch = bulk_batch((row, b"f", b"q", None, b"%d" % number))
                table.server.bulk_writes.stage(ref, table.region_of(row), batch, None)
            request = CommitRequest(ref, "t")
            commit_bulk_write(table.server, request, Caller("ana", ref), regions_locked(table.server, request))

    take_snapshots_beside(table, write, is_over)
    for number in range(10):
        found = dict(restored(table, f"s{number}", f"t{number}").scan())
        assert found.get(b"r1") == found.get(b"r7")


def test_the_gates_are_taken_in_the_order_of_their_ids(table: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    table.split(b"r5")
    table.split(b"r3")
    taken: list[int] = []
    usual = Region.sealed

    def take(region: Region, deadline: float) -> contextlib.AbstractContextManager[int]:
        taken.append(region.region_id)
        return usual(region, deadline)

    monkeypatch.setattr(Region, "sealed", take)
    table.server.create_named_snapshot("s", "t")
    assert [region.region_id for region in table.regions] != sorted(taken) == taken


# ---- what a restored table begins with


def test_write_numbers_versions_and_stamps_go_on(tmp_path: Path) -> None:
    clock = ManualClock()
    server = RegionServer.open(tmp_path, CONFIG, clock, Files(), lambda error: None)
    server.create_table("t", FAMILIES)
    table = TableOfRegions(server)
    for value in (b"1", b"2"):
        table.put(b"r1", value, family=b"g")
        clock.set_now_ms(clock.now_ms() + 1)
    table.put(b"r2", b"deleted")
    table.change(b"r2", Delete(DeleteKind.ROW))
    server.create_named_snapshot("s", "t")
    clock.set_now_ms(clock.now_ms() - 3_600_000)
    server.restore_named_snapshot("s", "new")
    new = TableOfRegions(server, "new")
    new.put(b"r1", b"3", family=b"g")
    assert new.get(b"r1", Selection(versions=5)) == [b"3", b"2", b"1"]
    new.put(b"r2", b"again")
    assert new.get(b"r2") == [b"again"]
    server.stop()


def test_limits_from_before_an_alter_are_kept(table: Serving) -> None:
    for value in (b"1", b"2", b"3"):
        table.put(b"r1", value, family=b"g")
    table.server.flush("t")
    table.server.alter_table("t", [Family(0, b"g", versions=1)])
    table.server.alter_table("t", [Family(0, b"g", versions=3)])
    table.server.create_named_snapshot("s", "t")
    assert table.get(b"r1", Selection(versions=5)) == [b"3"]
    assert restored(table).get(b"r1", Selection(versions=5)) == [b"3"]


def test_the_table_keeps_its_families_properties_and_durability(table: Serving) -> None:
    table.server.alter_table(
        "t",
        [Family(0, b"h", time_to_live_ms=5)],
        [b"f"],
        Durability.OS,
        set_properties={"mapping": "id STRING :key", "split.region_bytes": "0"},
    )
    source = table.server.table_entry("t")
    table.server.create_named_snapshot("s", "t")
    table.server.drop_table("t")
    restored(table)
    entry = table.server.table_entry("restored")
    assert replace(entry.table, name="t", table_id=source.table.table_id) == source.table
    assert entry.next_family_number == source.next_family_number
    assert entry.table.table_id != source.table.table_id


def test_a_request_to_the_old_table_is_unknown_to_the_restored_one(table: Serving) -> None:
    request = RequestId(CLIENT, 1, 1)
    table.change(b"r1", Increment(b"f", b"n", 5), request=request)
    table.server.create_named_snapshot("s", "t")
    copy = restored(table)
    copy.change(b"r1", Increment(b"f", b"n", 5), request=request)
    assert copy.get(b"r1") == [(10).to_bytes(8, "big")]


def test_rows_outside_of_the_clips_of_files_stay_hidden(table: Serving) -> None:
    rows = fill(table)
    table.server.flush("t")
    table.split(b"r000013")
    table.change(b"r000015", Delete(DeleteKind.ROW))
    table.server.flush("t")
    table.compact(table.regions[1:])
    table.merge()  # The left half's file still has the deleted row, outside of its clip.
    table.server.create_named_snapshot("s", "t")
    expected = [row for row in rows if row[0] != b"r000015"]
    copy = restored(table)
    assert copy.scan() == expected
    table.restart()
    assert TableOfRegions(table.server, "restored").scan() == expected


def test_an_empty_table_can_be_restored(table: Serving) -> None:
    table.server.create_named_snapshot("s", "t")
    copy = restored(table)
    copy.put(b"r1", b"v")
    table.crash()
    assert TableOfRegions(table.server, "restored").scan() == [(b"r1", b"v")]


# ---- refusals


def test_refusals_name_what_is_wrong_and_change_nothing(table: Serving) -> None:
    server = table.server
    server.create_named_snapshot("s", "t")
    folders = table.names("regions")
    refused: list[tuple[type[Exception], str, Callable[[], object]]] = [
        (SnapshotExistsError, "drop it first", lambda: server.create_named_snapshot("s", "t")),
        (TableNotFoundError, "nothere", lambda: server.create_named_snapshot("s2", "nothere")),
        (InvalidRequestError, "not a snapshot name", lambda: server.create_named_snapshot("../s", "t")),
        (InvalidRequestError, "not a snapshot name", lambda: server.create_named_snapshot("", "t")),
        (SnapshotNotFoundError, "'s2'", lambda: server.restore_named_snapshot("s2", "new")),
        (TableExistsError, "'t'", lambda: server.restore_named_snapshot("s", "t")),
        (InvalidRequestError, "not a table name", lambda: server.restore_named_snapshot("s", "a/b")),
        (SnapshotNotFoundError, "'s2'", lambda: server.drop_named_snapshot("s2")),
    ]
    for kind, named, call in refused:
        with pytest.raises(kind, match=named):
            call()
    assert [snapshot.name for snapshot in server.named_snapshots] == ["s"]
    assert [found.name for found in server.tables()] == ["t"]
    assert table.names("regions") == folders


def test_there_is_a_limit(tmp_path: Path) -> None:
    table = Serving(tmp_path, Config(named_snapshots_max=2, disk_free_bytes_min=0))
    for name in "ab":
        table.server.create_named_snapshot(name, "t")
    with pytest.raises(LimitExceededError, match="named_snapshots_max is 2"):
        table.server.create_named_snapshot("c", "t")
    table.server.drop_named_snapshot("a")
    table.server.create_named_snapshot("c", "t")
    table.server.stop()


def test_it_is_refused_while_another_holds_the_lock_of_the_table(table: Serving) -> None:
    impatient = replace(THE_SERVER, wait_ms=0)
    with table.server.clients.locked(Operation.ALTER, "t", THE_SERVER), pytest.raises(LockUnavailableError):
        table.server.create_named_snapshot("s", "t", impatient)
    table.server.create_named_snapshot("s", "t", impatient)
    with table.server.clients.locked(Operation.CREATE, "new", THE_SERVER), pytest.raises(LockUnavailableError):
        table.server.restore_named_snapshot("s", "new", impatient)
    table.server.restore_named_snapshot("s", "new", impatient)


def test_a_table_with_a_damaged_region_is_refused(table: Serving) -> None:
    fill(table)
    table.split(b"r000020")
    (left, right) = [region.region_id for region in table.regions]
    table.server.stop()
    (path,) = [path for path in (table.folder / "regions" / str(right)).iterdir() if path.name.startswith("manifest-")]
    path.write_bytes(path.read_bytes()[:-1])
    table.server = table.open()
    with pytest.raises(CorruptionError, match=path.name):
        table.server.create_named_snapshot("s", "t")
    assert not table.server.named_snapshots
    assert table.names("regions") == [str(left), str(right)]


@pytest.mark.parametrize("harm", [os.unlink, lambda path: os.truncate(path, 10)])
def test_a_damaged_snapshot_is_refused_and_leaves_nothing(table: Serving, harm: Callable[[Path], None]) -> None:
    fill(table)
    table.split(b"r000020")
    table.server.flush("t")
    snapshot = table.server.create_named_snapshot("s", "t")
    table.server.drop_table("t")
    folder = table.folder / "regions" / str(snapshot.entry.regions[1].region_id)
    path = next(path for path in folder.iterdir() if path.suffix == ".store")
    harm(path)
    folders = table.names("regions")
    with pytest.raises(CorruptionError, match=path.name):
        table.server.restore_named_snapshot("s", "new")
    assert (table.names("regions"), table.server.tables()) == (folders, [])
    table.server.drop_named_snapshot("s")
    assert table.names("regions") == []
