"""Named snapshots: one moment of a table, which becomes a new table whatever has happened to the old one."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from rowlock_regionserver import generations
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import Clock, ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    CorruptionError,
    DataFolderError,
    DiskFullError,
    InvalidRequestError,
    LimitExceededError,
    LockUnavailableError,
    NotServingRegionError,
    SnapshotEndedError,
    SnapshotExistsError,
    SnapshotNotFoundError,
    TableExistsError,
    TableNotFoundError,
    UnknownOutcomeError,
)
from rowlock_regionserver.files import Files
from rowlock_regionserver.host import named_snapshots
from rowlock_regionserver.host.bulk_commit import CommitRequest, commit_bulk_write, regions_locked
from rowlock_regionserver.host.named_snapshot_sizes import held_by_snapshots
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.locks.lock_matrix import Operation
from rowlock_regionserver.locks.table_locks import THE_SERVER, Caller
from rowlock_regionserver.operations import (
    Delete,
    DeleteKind,
    Increment,
    Put,
    RequestId,
    RowMutation,
    ScanPlan,
    Selection,
    WriteOptions,
)
from rowlock_regionserver.region.bulk.row_batch import BulkBatch
from rowlock_regionserver.region.copied_folder import make_snapshot_folder
from rowlock_regionserver.region.flush import FlushResult
from rowlock_regionserver.region.region import Region

from tests.crash.simulated_files import Call, Loss, SimulatedCrash, SimulatedFiles
from tests.unit.region.conftest import abandon, bulk_batch
from tests.waiting import WAIT_S, wait_until

from .serving_table import CONFIG, FAMILIES, Serving, fill
from .table_of_regions import TableOfRegions, cells_of, numbered_rows

CLIENT = b"client is 16 byt"
SNAPSHOT = b"snapshot is 16 b"


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Serving]:
    serving = Serving(tmp_path)
    yield serving
    serving.server.stop()


def restored(table: Serving, name: str = "s", to: str = "restored") -> TableOfRegions:
    table.server.restore_named_snapshot(name, to)
    return TableOfRegions(table.server, to)


def put_all(table: TableOfRegions, value: bytes) -> None:
    for row in numbered_rows(40):
        table.put(row, value)


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

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            for number in range(10):
                table.server.create_named_snapshot(f"s{number}", "t")
        finally:
            is_over.set()
        writing.result(WAIT_S)
    for number in range(10):
        counts = dict(restored(table, f"s{number}", f"t{number}").scan())
        found = [int.from_bytes(counts.get(row, b""), "big") for row in rows]
        assert found == sorted(found, reverse=True)
        assert found[0] - found[-1] <= 1


def test_all_gates_are_held_at_one_moment(table: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the second region is about to be flushed, a writer begins to change the first one, and then the second."""
    table.split(b"r5")
    first, second = table.regions
    usual = Region.all_flushed

    def write() -> None:
        table.put(b"r1", b"first")
        table.put(b"r7", b"second")

    def flushed(region: Region, deadline: float) -> contextlib.AbstractContextManager[object]:
        if region is second:
            writing.append(pool.submit(write))
            wait_until(lambda: writing[0].done() or first._parts.gate.statistics().shared_waiting == 1)
        return usual(region, deadline)

    writing: list[Future[None]] = []
    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(Region, "all_flushed", flushed)
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

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            for number in range(10):
                table.server.create_named_snapshot(f"s{number}", "t")
        finally:
            is_over.set()
        writing.result(WAIT_S)
    for number in range(10):
        found = dict(restored(table, f"s{number}", f"t{number}").scan())
        assert found.get(b"r1") == found.get(b"r7")


def test_the_gates_are_taken_in_the_order_of_their_ids(table: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    table.split(b"r5")
    table.split(b"r3")
    taken: list[int] = []
    usual = Region.all_flushed

    def take(region: Region, deadline: float) -> contextlib.AbstractContextManager[object]:
        taken.append(region.region_id)
        return usual(region, deadline)

    monkeypatch.setattr(Region, "all_flushed", take)
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
        (InvalidRequestError, "no snapshot name", lambda: server.create_named_snapshot("../s", "t")),
        (InvalidRequestError, "no snapshot name", lambda: server.create_named_snapshot("", "t")),
        (SnapshotNotFoundError, "'s2'", lambda: server.restore_named_snapshot("s2", "new")),
        (TableExistsError, "'t'", lambda: server.restore_named_snapshot("s", "t")),
        (InvalidRequestError, "no table name", lambda: server.restore_named_snapshot("s", "a/b")),
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


# ---- disk


def test_dropping_removes_the_files(table: Serving) -> None:
    fill(table)
    snapshot = table.server.create_named_snapshot("s", "t")
    kept = table.names("regions")
    table.server.drop_named_snapshot("s")
    assert table.names("regions") == sorted(set(kept) - {str(each.region_id) for each in snapshot.entry.regions})
    assert not table.server.named_snapshots
    table.restart()
    table.server.create_named_snapshot("s", "t")


def test_sizes_say_what_only_snapshots_hold(table: Serving) -> None:
    fill(table)
    table.server.flush("t")
    server = table.server
    server.create_named_snapshot("a", "t")

    def sizes() -> list[tuple[int, bool, bool]]:
        """(files, whether all bytes are held, whether none is) of each snapshot, and of all together."""
        found = held_by_snapshots(table.folder, server.named_snapshots)
        parts = [(each.store_file_count, each.own_bytes, each.store_file_bytes) for each in found.sizes]
        parts.append((0, found.held_bytes, found.sizes[0].store_file_bytes))
        return [(count, part == whole, part == 0) for count, part, whole in parts]

    assert sizes() == [(2, False, True), (0, False, True)]
    server.create_named_snapshot("b", "t")
    table.compact()
    server._shared.open_files.close_released()
    assert sizes() == [(2, False, True), (2, False, True), (0, True, False)]  # Both hold the same files.
    server.drop_named_snapshot("b")
    assert sizes() == [(2, True, False), (0, True, False)]
    folder = table.folder / "regions" / str(server.named_snapshots[0].entry.regions[0].region_id)
    folder.rename(folder.with_name("elsewhere"))
    (found,) = held_by_snapshots(table.folder, server.named_snapshots).sizes
    assert str(folder) in found.error
    folder.mkdir()
    (found,) = held_by_snapshots(table.folder, server.named_snapshots).sizes
    assert "no manifest" in found.error


def put_at_once(table: Serving, batch: BulkBatch) -> None:
    options = WriteOptions(table.clock.monotonic() + WAIT_S, Durability.FSYNC)
    is_put = threading.Event()
    table.regions[0].bulk_put(batch, None, options, lambda _: is_put.set())
    assert is_put.wait(WAIT_S)


def test_the_work_does_not_depend_on_the_size_of_the_files(tmp_path: Path) -> None:
    """The same calls change the disk for few cells and for many, and none of them writes a store file."""
    calls: dict[int, list[str]] = {}
    for row_count in (3, 3000):
        disk = SimulatedFiles(tmp_path / f"disk-{row_count}")
        table = Serving(disk.root, files=disk)
        batch = bulk_batch(*[(row, b"f", b"q", None, bytes(100)) for row in numbered_rows(row_count)])
        put_at_once(table, batch)
        table.server.flush("t")
        begun = len(disk.calls)
        table.server.create_named_snapshot("s", "t")
        table.server.restore_named_snapshot("s", "restored")
        table.server.drop_named_snapshot("s")
        made = [call for call in disk.calls[begun:] if call.path.parent.name != "log"]
        calls[row_count] = [call.name for call in made]
        assert not [call for call in made if call.path.suffix == ".store" and call.name == "pwrite"]
        assert len(TableOfRegions(table.server, "restored").scan()) == row_count
        table.server.stop()
    assert calls[3] == calls[3000]
    assert calls[3].count("link") == 2


def test_an_earlier_server_refuses_a_folder_with_snapshots_and_reads_one_without(table: Serving) -> None:
    def body_for_version_1() -> bytes:
        return generations.read_newest(Files(), table.folder / "catalog", "catalog", version_max=1)[1]

    assert body_for_version_1()
    table.server.create_named_snapshot("s", "t")
    with pytest.raises(DataFolderError, match="format version 2"):
        body_for_version_1()
    table.server.drop_named_snapshot("s")
    assert b"snapshots" not in body_for_version_1()


def test_a_full_disk_leaves_nothing_and_later_it_works(tmp_path: Path) -> None:
    class FullDisk(Files):
        names: tuple[str, ...] = ()

        def link(self, source: Path, target: Path) -> None:
            self._refuse("link", target)
            super().link(source, target)

        def make_folder(self, path: Path) -> None:
            self._refuse("make_folder", path)
            super().make_folder(path)

        def create(self, path: Path) -> int:
            self._refuse(path.name.split("-")[0], path)
            return super().create(path)

        def _refuse(self, name: str, path: Path) -> None:
            if name in self.names:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    disk = FullDisk()
    table = Serving(tmp_path, files=disk)
    rows = fill(table)
    table.server.flush("t")
    table.server.create_named_snapshot("s", "t")
    folders = table.names("regions")
    for name in ("link", "make_folder", "manifest", "catalog"):
        disk.names = (name,)
        with pytest.raises(DiskFullError):
            table.server.create_named_snapshot("s2", "t")
        with pytest.raises(DiskFullError):
            table.server.restore_named_snapshot("s", "new")
        assert table.names("regions") == folders
    disk.names = ("catalog",)
    with pytest.raises(DiskFullError):
        table.server.drop_named_snapshot("s")
    disk.names = ()
    assert restored(table).scan() == rows
    table.server.create_named_snapshot("s2", "t")
    table.server.stop()


# ---- power failures


def images(disk: SimulatedFiles, folder: Path) -> Iterator[RegionServer]:
    """Yields servers on what a kill and a power failure leave, after two starts each."""
    for loss in (Loss.NOTHING, Loss.ALL):
        folder.mkdir(exist_ok=True)
        image = disk.power_failure(folder / loss.name, loss)
        RegionServer.open(image, CONFIG, Clock(), Files(), lambda _: None).stop()
        server = RegionServer.open(image, CONFIG, Clock(), Files(), lambda _: None)
        assert not server.damaged_regions()
        ids = {str(region_id) for region_id in server._catalog.state.region_ids}
        assert {path.name for path in (image / "regions").iterdir()} == ids
        yield server
        server.stop()


def test_after_the_answer_a_power_failure_changes_nothing(tmp_path: Path) -> None:
    disk = SimulatedFiles(tmp_path / "disk")
    table = Serving(disk.root, files=disk)
    rows = fill(table)
    table.split(b"r000013")
    table.server.create_named_snapshot("s", "t")
    for server in images(disk, tmp_path / "created"):
        server.restore_named_snapshot("s", "again")
        assert TableOfRegions(server, "again").scan() == rows
    table.server.restore_named_snapshot("s", "restored")
    table.server.drop_table("t")
    for server in images(disk, tmp_path / "restored"):
        assert TableOfRegions(server, "restored").scan() == rows
    table.server.drop_named_snapshot("s")
    for server in images(disk, tmp_path / "dropped"):
        assert not server.named_snapshots
        assert TableOfRegions(server, "restored").scan() == rows
    table.server.stop()


OPERATIONS: dict[str, Callable[[RegionServer], object]] = {
    "create": lambda server: server.create_named_snapshot("new", "t"),
    "restore": lambda server: server.restore_named_snapshot("s", "new"),
    "drop": lambda server: server.drop_named_snapshot("s"),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_until_the_commit_everything_is_as_before_and_no_folder_is_left(
    tmp_path: Path, operation: Callable[[RegionServer], object]
) -> None:
    """The power fails when everything is done but the commit."""
    disk = SimulatedFiles(tmp_path / "disk")
    table = Serving(disk.root, files=disk)
    rows = fill(table)
    table.split(b"r000013")
    table.server.create_named_snapshot("s", "t")
    calls: list[str] = []

    def crash(call: Call) -> None:
        calls.append(call.name)
        is_commit = call.name == "rename" and call.path.parent.name == "catalog"
        if is_commit and (operation is OPERATIONS["drop"] or "link" in calls):
            disk.is_dead = True  # Before this call.

    disk.before_call = crash
    with contextlib.suppress(SimulatedCrash, UnknownOutcomeError):
        operation(table.server)
    assert disk.is_dead, calls
    for server in images(disk, tmp_path):
        assert [snapshot.name for snapshot in server.named_snapshots] == ["s"]
        assert [found.name for found in server.tables()] == ["t"]
        server.restore_named_snapshot("s", "again")
        assert TableOfRegions(server, "t").scan() == TableOfRegions(server, "again").scan() == rows
        server.drop_table("again")
    with contextlib.suppress(SimulatedCrash):
        abandon(table.server)


# ---- reading without restoring


def readable(table: Serving, name: str = "@s") -> list[tuple[bytes, bytes]]:
    found: list[tuple[bytes, bytes]] = []
    for region in table.server.readable_regions_of(name):
        with table.server.region(region.region_id).scan(ScanPlan()) as (_, answers):
            found += cells_of(answers)
    return found


def test_a_snapshot_is_read_without_a_table(table: Serving) -> None:
    rows = fill(table)
    table.split(b"r000013")
    table.server.create_named_snapshot("s", "t")
    put_all(table, b"later")
    assert readable(table) == rows
    table.server.drop_table("t")
    table.restart()
    assert readable(table) == rows
    (_, last) = table.server.readable_regions_of("@s")
    (cells,) = last.get([b"r000030"], Selection(), may_wait=True) or []
    assert [value for _, _, _, value in cells] == [b"of r000030"]
    assert table.server.readable_entry("@s").table.name == "@s"


def test_what_is_read_by_name_can_not_be_changed(table: Serving) -> None:
    fill(table)
    server = table.server
    server.create_named_snapshot("s", "t")
    (region,) = server.readable_regions_of("@s")
    options = WriteOptions(server._shared.clock.monotonic() + WAIT_S, Durability.FSYNC)
    for call in (
        lambda: region.mutate([RowMutation(b"r1", (Put(b"f", b"q", b"v"),))], options, lambda _: None, may_wait=True),
        lambda: region.mutate_each([], options, lambda places, outcomes: None),
        lambda: region.bulk_put(bulk_batch((b"r1", b"f", b"q", None, b"v")), None, options, lambda _: None),
        lambda: region.bulk_load,
        region.flush,
        region.compaction_facts,
    ):
        with pytest.raises(InvalidRequestError, match="restore it"):
            call()
    for change in (
        lambda: server.split_region("@s", region.region_id, b"r000005"),
        lambda: server.drop_table("@s"),
        lambda: server.truncate_table("@s"),
        lambda: server.alter_table("@s", drop_families=[b"f"]),
        lambda: server.create_named_snapshot("s2", "@s"),
        lambda: server.flush("@s"),
    ):
        with pytest.raises(TableNotFoundError, match="restore it"):
            change()
    with pytest.raises(InvalidRequestError, match="no table name"):
        server.create_table("@x", FAMILIES)
    with pytest.raises(InvalidRequestError, match="no table name"):
        server.restore_named_snapshot("s", "@x")
    with pytest.raises(SnapshotNotFoundError):
        server.readable_regions_of("@other")


def test_a_leased_snapshot_of_it_reads_until_it_is_dropped(table: Serving) -> None:
    rows = fill(table)
    server = table.server
    server.create_named_snapshot("s", "t")
    server.make_snapshot("@s", SNAPSHOT, 0, "")
    server.drop_table("t")  # It ends the snapshots of this table only.
    (region,) = server.readable_regions_of("@s")
    with server.region_at(region.region_id, SNAPSHOT).scan(ScanPlan(batch_rows=5)) as (_, answers):
        found = [(cell["row"], cell["value"]) for cell in next(answers).table.to_pylist()]
        server.drop_named_snapshot("s")
        with pytest.raises(NotServingRegionError):
            region.get([b"r1"], Selection(), may_wait=True)
        assert found + cells_of(answers) == rows  # A scan that has begun reads to its end.
    with pytest.raises(SnapshotEndedError, match="was dropped"):
        server.snapshots.check(SNAPSHOT)
    del region, answers
    server._shared.open_files.close_released()
    assert table.names("regions") == []


def test_a_snapshot_that_nobody_reads_is_closed_and_opened_again(tmp_path: Path) -> None:
    clock = ManualClock()
    server = RegionServer.open(tmp_path, CONFIG, clock, Files(), lambda error: None)
    server.create_table("t", FAMILIES)
    TableOfRegions(server).put(b"r1", b"v")
    server.create_named_snapshot("s", "t")
    (region,) = server.readable_regions_of("@s")
    with region.scan(ScanPlan()) as (_, answers):
        clock.advance(1000_000)
        server._read_snapshots.close_unused()
        assert cells_of(answers) == [(b"r1", b"v")]
    clock.advance(299_000)
    assert server.region(region.region_id) is region
    server._read_snapshots.close_unused()
    clock.advance(299_000)
    server._read_snapshots.close_unused()
    assert server.region(region.region_id) is region
    clock.advance(301_000)
    server._read_snapshots.close_unused()
    with pytest.raises(NotServingRegionError):
        server.region(region.region_id)
    with pytest.raises(NotServingRegionError):
        region.get([b"r1"], Selection(), may_wait=True)
    (again,) = server.readable_regions_of("@s")
    assert again.get([b"r1"], Selection(), may_wait=True) != [()]
    server.stop()


def test_a_damaged_snapshot_is_not_read(table: Serving) -> None:
    fill(table)
    snapshot = table.server.create_named_snapshot("s", "t")
    path = next((table.folder / "regions" / str(snapshot.entry.regions[0].region_id)).glob("*.store"))
    path.unlink()
    with pytest.raises((CorruptionError, OSError), match=path.name):
        table.server.readable_regions_of("@s")
    table.server.drop_named_snapshot("s")
