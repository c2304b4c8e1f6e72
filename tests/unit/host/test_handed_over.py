"""What is written, flushed and compacted between a split's first step and its commit: the new regions have it."""

from __future__ import annotations

import contextlib
import errno
import math
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.errors import DiskFullError, NotServingRegionError, StoppingError, UnknownOutcomeError
from rowlock_regionserver.files import Files
from rowlock_regionserver.generations import generation_numbers, generation_path
from rowlock_regionserver.host.region_changes import RegionChanges
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.operations import Delete, DeleteKind, Increment, Put, RequestId
from rowlock_regionserver.region.linked_files import LinkedFiles, LiveStoreFiles
from rowlock_regionserver.region.manifest import NAME, read_manifest
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.region.store_file_names import store_file_path
from rowlock_regionserver.storefile.info import StoreFileInfo

from tests.crash.simulated_files import Call, Loss, SimulatedCrash, SimulatedFiles
from tests.drawn_cases import TRIES_ALL, drawn_calls
from tests.unit.region.conftest import abandon

from .serving_table import CONFIG, Serving, after_flushes, fill
from .table_of_regions import TableOfRegions

CLIENT = b"client is 16 byt"
LAST = {b"r2": b"last", b"r6": b"last"}


def written_last(table: Serving) -> contextlib.AbstractContextManager[None]:
    """Returns a context that writes rows after each flush: no store file has them when writes begin to wait."""

    def write() -> None:
        for row, value in LAST.items():
            table.put(row, value)

    return after_flushes(write)


def unnamed(folder: Path, regions: Sequence[Region]) -> set[str]:
    """Returns the files of region folders that no manifest names, and the folders that are no region's."""
    found = {path.name for path in (folder / "regions").iterdir()} - {str(region.region_id) for region in regions}
    for region in regions:
        path, files = folder / "regions" / str(region.region_id), Files()
        manifest = read_manifest(files, path).manifest
        named = {generation_path(path, NAME, number) for number in generation_numbers(files, path, NAME)}
        for family, infos in manifest.store_files.items():
            named.update(store_file_path(path, family, info.number) for info in infos)
        found |= {str(each.relative_to(folder)) for each in set(path.iterdir()) - named}
    return found


def test_a_flush_that_waits_while_its_region_is_split_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was sealed last counts as unflushed in the old region."""
    table = Serving(tmp_path)
    fill(table)
    (old,) = table.regions
    retire, found = RegionChanges._retire, list[object]()

    def write_and_seal() -> None:
        table.put(b"r2", b"last")
        with old.without_flushes(), old.sealed(math.inf):
            pass  # A flush that failed leaves what it has sealed, too.

    def flush_and_retire(changes: RegionChanges, region: Region, reason: str) -> None:
        before = set((tmp_path / "regions" / str(old.region_id)).iterdir())
        with pytest.raises(NotServingRegionError, match="closed"):
            region._flusher.flush()  # It has passed the check of the region, and waits for the lock.
        found.append(set((tmp_path / "regions" / str(old.region_id)).iterdir()) - before)
        retire(changes, region, reason)

    monkeypatch.setattr(RegionChanges, "_retire", flush_and_retire)
    with after_flushes(write_and_seal):
        table.split(b"r3")
    assert found == [set()]
    table.server.stop()


@pytest.mark.parametrize("operation", ["split", "merge"])
def test_a_crash_at_any_call_loses_nothing_that_was_written_last(tmp_path: Path, operation: str) -> None:
    halves, whole = [(b"", b"r3"), (b"r3", b"")], [(b"", b"")]
    before, after = (whole, halves) if operation == "split" else (halves, whole)
    done = 0
    for call in drawn_calls(200, 5, f"handed over by a {operation}"):
        disk = SimulatedFiles(tmp_path / f"disk-{call}")
        table = Serving(disk.root, files=disk)
        if operation == "merge":
            table.split(b"r3")
        for row in (b"r1", b"r5"):
            table.put(row, b"flushed")
        table.server.flush("t")
        expected = {b"r1": b"flushed", b"r5": b"flushed"}
        acknowledged: dict[bytes, bytes] = {}
        is_done = False
        disk.crash_at(call)
        ended = (SimulatedCrash, UnknownOutcomeError, StoppingError, NotServingRegionError)
        with contextlib.suppress(*ended), written_last(table):
            table.split(b"r3") if operation == "split" else table.merge()
            is_done = True
        if is_done:
            acknowledged = LAST
        for loss, restarts in ((Loss.NOTHING, 1), (Loss.SOME, 1), (Loss.ALL, 2)):
            image = disk.power_failure(tmp_path / f"image-{call}-{loss.name}", loss)
            for restart in range(restarts):
                server = RegionServer.open(image, CONFIG, Clock(), Files(), lambda _: None)
                again = TableOfRegions(server)
                where = f"call {call}, {loss.name}, restart {restart}"
                assert server.damaged_regions() == {}, where
                found = dict(again.scan())
                assert found.items() >= (expected | acknowledged).items(), where
                assert found.items() <= (expected | LAST).items(), where
                assert again.bounds == after or (again.bounds == before and not is_done), where
                # The catalog's commit comes after all writes of the rows.
                assert again.bounds == before or found == expected | LAST, where
                assert unnamed(image, again.regions) == set(), where
                done += again.bounds == after
                server.stop()
        has_crashed = disk.is_dead
        with contextlib.suppress(SimulatedCrash):
            abandon(table.server)  # Its threads still run.
        if not has_crashed:
            break
    assert is_done
    assert call > 20, "the crashes did not reach every call"
    assert done > (4 if TRIES_ALL else 3), "the operation was never found done but when it was over"


def refused(table: Serving, disk: SimulatedFiles) -> None:
    """Splits at r3 while there is no space for the catalog, with rows that were written last."""
    links: list[Path] = []

    def full(call: Call) -> None:
        links.extend([call.path] if call.name == "link" else [])
        if call.name == "pwrite" and call.path.parent.name == "catalog" and links:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(call.path))

    disk.before_call = full
    with written_last(table), pytest.raises(DiskFullError):
        table.split(b"r3")
    disk.before_call = lambda call: None
    assert links


def test_an_old_region_whose_split_is_refused_is_not_flushed(tmp_path: Path) -> None:
    disk = SimulatedFiles(tmp_path / "disk")
    table = Serving(disk.root, files=disk)
    table.put(b"r1", b"flushed")
    refused(table, disk)
    (region,) = table.regions
    assert region.flushed_write_number < region._parts.mvcc.last
    assert unnamed(disk.root, table.regions) == set()
    assert table.server.flush("t").cell_count == len(LAST)
    assert region.flushed_write_number == region._parts.mvcc.last
    table.crash()
    assert dict(table.scan()) == {b"r1": b"flushed"} | LAST
    table.server.stop()


def test_after_a_crash_a_refused_split_has_changed_nothing_and_later_it_works(tmp_path: Path) -> None:
    disk = SimulatedFiles(tmp_path / "disk")
    table = Serving(disk.root, files=disk)
    table.put(b"r1", b"flushed")
    request = RequestId(CLIENT, 1, 1)
    refused(table, disk)
    count = table.change(b"r6", Increment(b"f", b"n", 1), request=request).results
    table.crash()
    assert dict(table.scan()).items() >= ({b"r1": b"flushed"} | LAST).items()
    with written_last(table):
        table.split(b"r3")
    assert table.bounds == [(b"", b"r3"), (b"r3", b"")]
    assert table.change(b"r6", Increment(b"f", b"n", 1), request=request).results == count
    assert unnamed(disk.root, table.regions) == set()
    table.server.stop()


def test_new_regions_have_no_file_that_was_compacted_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Serving(tmp_path)
    rows = fill(table)
    table.server.flush("t")
    table.change(b"r000007", Delete(DeleteKind.ROW))
    table.change(b"r000030", Put(b"f", b"q", b"later"))
    follow = LinkedFiles.follow
    compacted: list[Region] = []

    def follow_and_compact(linked: LinkedFiles, olds: Sequence[LiveStoreFiles]) -> dict[int, tuple[StoreFileInfo, ...]]:
        infos = follow(linked, olds)
        if not compacted:
            compacted.extend(table.regions)
            table.compact()
        return infos

    monkeypatch.setattr(LinkedFiles, "follow", follow_and_compact)
    table.split(b"r000020")
    assert compacted
    assert unnamed(tmp_path, table.regions) == set()
    assert [(file.cell_count, file.is_base) for file in table.file_facts()] == [(39, True), (39, True)]  # of the file
    expected = dict(rows) | {b"r000030": b"later"}
    del expected[b"r000007"]
    assert dict(table.scan()) == expected
    table.crash()
    assert dict(table.scan()) == expected
    table.server.stop()
