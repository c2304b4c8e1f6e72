"""Each step of replacing regions by others: what comes just before it, just after it, and when it fails."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.errors import DiskFullError, NotServingRegionError, UnknownOutcomeError
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.region_changes import RegionChanges
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.host.snapshots import Snapshots
from rowlock_regionserver.operations import (
    Delete,
    DeleteKind,
    Increment,
    Put,
    RequestId,
    RowMutation,
    RowResult,
    ScanPlan,
    Selection,
    WriteOptions,
)
from rowlock_regionserver.region.copied_changes import CopiedChanges
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.region.succession import Succession

from tests.crash.simulated_files import Call, Loss, SimulatedCrash, SimulatedFiles
from tests.unit.region.conftest import abandon
from tests.waiting import WAIT_S, wait_until

from .serving_table import CONFIG, Serving, after_flushes, fill
from .table_of_regions import TableOfRegions

CLIENT = b"client is 16 byt"
SNAPSHOT = b"snapshot is 16 b"


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Serving]:
    serving = Serving(tmp_path)
    yield serving
    serving.server.stop()


def split_while(table: Serving, monkeypatch: pytest.MonkeyPatch, begin: Callable[[], Future[Any]]) -> None:
    """Splits at r5. While the gate is held, begins a write, and continues when the write waits."""
    (region,) = table.regions

    def finish_meanwhile(copied: CopiedChanges, last: int, stamps_until: int) -> None:
        begun.append(begin())
        wait_until(lambda: begun[0].done() or region._parts.gate.statistics().shared_waiting == 1)
        finish(copied, last, stamps_until)

    begun: list[Future[Any]] = []
    finish = CopiedChanges.finish
    with monkeypatch.context() as patched:
        patched.setattr(CopiedChanges, "finish", finish_meanwhile)
        table.split(b"r5")
    assert len(begun) == 1


# ---- steps 1 to 4


def test_what_was_written_after_the_flush_is_in_the_new_regions(table: Serving) -> None:
    def write() -> None:
        table.put(b"r1", b"later")
        table.put(b"r7", b"later")

    table.put(b"r7", b"v")
    with after_flushes(write):
        table.split(b"r5")
    assert table.scan() == [(b"r1", b"later"), (b"r7", b"later")]
    table.crash()
    assert table.scan() == [(b"r1", b"later"), (b"r7", b"later")]


@pytest.mark.parametrize(("large_writes", "flushes"), [(0, 1), (2, 3), (100, 5)])
def test_it_is_flushed_again_until_little_is_left(table: Serving, large_writes: int, flushes: int) -> None:
    written: list[bytes] = []

    def write() -> None:
        written.append(b"%d" % len(written) * (100_000 if len(written) < large_writes else 1))
        table.put(b"r1", written[-1])

    table.put(b"r7", b"v")
    with after_flushes(write):
        table.split(b"r5")
    assert len(written) == flushes
    assert table.scan() == [(b"r1", written[-1]), (b"r7", b"v")]


@pytest.mark.parametrize("merges", [False, True])
def test_until_the_commit_the_old_regions_are_whole_and_the_new_ones_can_be_removed(
    tmp_path: Path, *, merges: bool
) -> None:
    """The power fails when everything is done but the commit."""
    disk = SimulatedFiles(tmp_path / "disk")
    table = Serving(disk.root, files=disk)
    rows = dict(fill(table))
    if merges:
        table.split(b"r000020")
    bounds = table.bounds
    has_made_folder: list[Path] = []

    def crash(call: Call) -> None:
        if call.name == "make_folder":
            has_made_folder.append(call.path)
        if call.name == "rename" and call.path.parent.name == "catalog" and has_made_folder:
            disk.is_dead = True  # Before this call.

    disk.before_call = crash
    with contextlib.suppress(SimulatedCrash, UnknownOutcomeError):
        table.merge() if merges else table.split(b"r000020")
    assert disk.is_dead, f"it made {[str(call) for call in disk.calls]}"
    for loss in (Loss.NOTHING, Loss.ALL):
        image = disk.power_failure(tmp_path / loss.name, loss)
        again = TableOfRegions(RegionServer.open(image, CONFIG, Clock(), Files(), lambda _: None))
        assert not again.server.damaged_regions()
        assert again.bounds == bounds
        assert dict(again.scan()) == rows
        assert {path.name for path in (image / "regions").iterdir()} == {
            str(region.region_id) for region in again.regions
        }
        again.server.stop()
    with contextlib.suppress(SimulatedCrash):
        abandon(table.server)


def test_after_the_answer_a_power_failure_changes_nothing(tmp_path: Path) -> None:
    disk = SimulatedFiles(tmp_path / "disk")
    table = Serving(disk.root, files=disk)
    rows = dict(fill(table))
    table.split(b"r000013")
    table.split(b"r000025")
    table.merge()
    bounds = table.bounds
    for loss in (Loss.NOTHING, Loss.ALL):
        image = disk.power_failure(tmp_path / loss.name, loss)
        again = TableOfRegions(RegionServer.open(image, CONFIG, Clock(), Files(), lambda _: None))
        assert not again.server.damaged_regions()
        assert again.bounds == bounds
        assert dict(again.scan()) == rows
        again.server.stop()
    table.server.stop()


@pytest.mark.parametrize("merges", [False, True])
def test_a_full_disk_changes_nothing_and_later_it_works(tmp_path: Path, *, merges: bool) -> None:
    disk = SimulatedFiles(tmp_path / "disk")
    table = Serving(disk.root, files=disk)
    rows = dict(fill(table))
    if merges:
        table.split(b"r000020")
    bounds, ids = table.bounds, table.names("regions")
    links: list[Path] = []

    def full(call: Call) -> None:
        links.extend([call.path] if call.name == "link" else [])
        if call.name == "pwrite" and call.path.parent.name == "catalog" and links:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(call.path))

    disk.before_call = full
    with pytest.raises(DiskFullError):
        table.merge() if merges else table.split(b"r000020")
    disk.before_call = lambda call: None
    assert (table.bounds, table.names("regions")) == (bounds, ids)
    table.put(b"r000007", b"later")
    table.merge() if merges else table.split(b"r000020")
    assert dict(table.scan()) == rows | {b"r000007": b"later"}
    assert len(table.bounds) == (1 if merges else 2)
    table.server.stop()


def test_gates_are_taken_in_the_order_of_their_ids(table: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    table.split(b"r5")
    table.split(b"r3")
    assert [region.region_id for region in table.regions] == [4, 5, 3]
    taken: list[int] = []

    def noted(owner: type[Region | Succession], name: str) -> None:
        usual: Callable[..., contextlib.AbstractContextManager[object]] = getattr(owner, name)

        def take(region: Region | Succession, deadline: float) -> contextlib.AbstractContextManager[object]:
            taken.append(region._parts.region_id)
            return usual(region, deadline)

        monkeypatch.setattr(owner, name, take)

    noted(Region, "without_writes")
    table.server.make_snapshot("t", SNAPSHOT, 0, "")
    assert taken == [3, 4, 5]
    taken.clear()
    noted(Succession, "handed_over")
    table.merge(1)
    assert taken == [3, 5]


def test_a_merge_of_a_quiet_region_and_a_busy_one_has_the_newest_of_both(table: Serving) -> None:
    table.split(b"r5")
    for number in range(20):
        table.put(b"r7", b"%d" % number)
    table.merge()
    assert table.scan() == [(b"r7", b"19")]
    table.put(b"r7", b"after the merge")
    table.put(b"r1", b"after the merge")
    assert table.scan() == [(b"r1", b"after the merge"), (b"r7", b"after the merge")]


def test_a_merged_region_goes_on_from_the_number_of_one_whose_cells_are_gone(table: Serving) -> None:
    table.split(b"r5")
    for number in range(20):
        table.put(b"r7", b"%d" % number)
    table.change(b"r7", Delete(DeleteKind.ROW))
    table.server.flush("t")
    table.compact()
    assert table.scan() == []
    last = max(region._parts.mvcc.last for region in table.regions)
    table.merge()
    (merged,) = table.regions
    assert merged._parts.mvcc.last >= last


def test_a_merged_region_has_the_answers_of_both(table: Serving) -> None:
    table.split(b"r5")
    requests = {b"r1": RequestId(CLIENT, 1, 1), b"r7": RequestId(CLIENT, 2, 1)}
    increment = Increment(b"f", b"n", 5)
    first = {row: table.change(row, increment, request=request).results for row, request in requests.items()}
    table.merge()
    assert {row: table.change(row, increment, request=request).results for row, request in requests.items()} == first


# ---- steps 5 and 6


def test_a_change_that_waited_is_made_by_the_new_region_once(table: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    table.put(b"r1", b"old")
    (old,) = table.regions
    request, increment = RequestId(CLIENT, 1, 1), Increment(b"f", b"n", 5)
    with ThreadPoolExecutor(1) as pool:
        begun: list[Future[RowResult]] = []

        def begin() -> Future[RowResult]:
            begun.append(pool.submit(table.change, b"r7", increment, request=request))
            return begun[0]

        split_while(table, monkeypatch, begin)
        first = begun[0].result(WAIT_S)
    assert len(table.get(b"r7")) == 1
    assert old._parts.mvcc.last < table.region_of(b"r7")._parts.mvcc.last
    assert table.change(b"r7", increment, request=request).results == first.results
    table.crash()
    assert table.change(b"r7", increment, request=request).results == first.results
    assert len(table.get(b"r7")) == 1


def test_changes_that_waited_are_refused_if_no_new_region_has_all_their_rows(
    table: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    (old,) = table.regions
    mutations = [RowMutation(row, (Put(b"f", b"q", b"by a region that has ended"),)) for row in (b"r1", b"r7")]
    options = WriteOptions(table.clock.monotonic() + WAIT_S, Durability.FSYNC)
    with ThreadPoolExecutor(1) as pool:
        begun: list[Future[bool]] = []

        def begin() -> Future[bool]:
            begun.append(pool.submit(old.mutate, mutations, options, lambda outcomes: None, may_wait=True))
            return begun[0]

        split_while(table, monkeypatch, begin)
        with pytest.raises(NotServingRegionError):
            begun[0].result(WAIT_S)
    assert table.scan() == []
    table.put(b"r7", b"new")
    assert table.scan() == [(b"r7", b"new")]


def test_a_change_that_comes_late_is_not_passed_on_before_snapshots_have_moved(
    table: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It passed the first check before the region ended, and finds the gate closed."""
    table.put(b"r7", b"old")
    (old,) = table.regions
    table.server.make_snapshot("t", SNAPSHOT, 0, "")
    move, refused = Snapshots.move, list[object]()

    def write_and_move(snapshots: Snapshots, olds: Sequence[Region], new: Sequence[Region]) -> None:
        monkeypatch.setattr(old, "_check_writable", lambda: None)
        mutation = RowMutation(b"r7", (Put(b"f", b"q", b"late"),))
        options = WriteOptions(table.clock.monotonic() + WAIT_S, Durability.FSYNC)
        with pytest.raises(NotServingRegionError):
            old.mutate([mutation], options, refused.append, may_wait=False)
        refused.append("late")
        move(snapshots, olds, new)

    monkeypatch.setattr(Snapshots, "move", write_and_move)
    table.split(b"r5")
    assert refused == ["late"]
    assert table.get(b"r7") == [b"old"]


def test_the_old_region_takes_no_read_once_a_new_one_can_be_written(
    table: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.put(b"r7", b"old")
    (old,) = table.regions
    retire = RegionChanges._retire
    refused: list[str] = []

    def look(changes: RegionChanges, region: Region, reason: str) -> None:
        table.put(b"r7", b"new")
        for read in (
            lambda: old.get([b"r7"], Selection(), may_wait=True),
            lambda: old.scan(ScanPlan()),
            lambda: old.parts(ScanPlan(), 1),
        ):
            with pytest.raises(NotServingRegionError) as raised:
                read()
            refused.append(raised.value.message)
        retire(changes, region, reason)

    monkeypatch.setattr(RegionChanges, "_retire", look)
    table.split(b"r5")
    assert len(refused) == 3
    assert table.get(b"r7") == [b"new"]


def test_a_major_compaction_keeps_what_a_moved_snapshot_sees(table: Serving) -> None:
    rows = fill(table)
    table.server.make_snapshot("t", SNAPSHOT, 0, "")
    table.split(b"r000020")
    for row, _ in rows:
        table.put(row, b"later")
    table.server.flush("t")
    table.compact()
    assert table.scan(snapshot_id=SNAPSHOT) == rows
    table.merge()
    for row, _ in rows[::2]:
        table.change(row, Delete(DeleteKind.ROW))
    table.server.flush("t")
    table.compact()
    assert table.scan(snapshot_id=SNAPSHOT) == rows
    assert table.scan() == [(row, b"later") for row, _ in rows[1::2]]
    table.server.snapshots.end(SNAPSHOT)
    assert [region._parts.mvcc.statistics().registered_readers for region in table.regions] == [0]


def test_without_a_snapshot_a_new_region_keeps_no_old_versions(table: Serving) -> None:
    rows = fill(table)
    table.server.make_snapshot("t", SNAPSHOT, 0, "")
    table.split(b"r000020")
    for row, _ in rows:
        table.put(row, b"later")
    table.server.flush("t")
    table.server.snapshots.end(SNAPSHOT)
    table.compact()
    assert [file.cell_count for file in table.file_facts()] == [20, 20]


def test_a_merge_does_not_bring_back_what_a_neighbour_has_compacted_away(table: Serving) -> None:
    """The left region's file still has the row, outside of its clip."""
    rows = fill(table)
    table.server.flush("t")
    table.split(b"r000013")
    table.change(b"r000015", Delete(DeleteKind.ROW))
    table.server.flush("t")
    table.compact(table.regions[1:])
    table.merge()
    expected = [row for row in rows if row[0] != b"r000015"]
    assert table.scan() == expected
    table.crash()
    assert table.scan() == expected
    table.compact()
    assert table.scan() == expected


def test_a_merged_region_has_no_base(table: Serving) -> None:
    """Each base was the oldest file of its own region only, and would be taken for the oldest of all."""
    fill(table)
    table.split(b"r000020")
    table.server.flush("t")
    table.compact()
    assert [file.is_base for file in table.file_facts()] == [True, True]
    table.merge()
    assert [file.is_base for file in table.file_facts()] == [False, False]
