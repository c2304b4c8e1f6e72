"""The folders of named snapshots: sizes, full disks, power failures, and what earlier servers see."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rowlock_regionserver import generations
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.errors import (
    DataFolderError,
    DiskFullError,
    UnknownOutcomeError,
)
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.named_snapshot_sizes import held_by_snapshots
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.operations import (
    WriteOptions,
)
from rowlock_regionserver.region.bulk.row_batch import BulkBatch

from tests.crash.simulated_files import Call, Loss, SimulatedCrash, SimulatedFiles
from tests.unit.region.conftest import abandon, bulk_batch
from tests.waiting import WAIT_S

from .restored_table import restored
from .serving_table import CONFIG, Serving, fill
from .table_of_regions import TableOfRegions, numbered_rows


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Serving]:
    serving = Serving(tmp_path)
    yield serving
    serving.server.stop()


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

        def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
            if flags & os.O_CREAT:
                self._refuse(path.name.split("-")[0], path)
            return super().open(path, flags, mode)

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
