"""Splits and merges: the same rows in other regions, whatever happens meanwhile."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Family
from rowlock_regionserver.clock import Clock, ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    InvalidRequestError,
    NotServingRegionError,
    RegionTooBusyError,
    SnapshotEndedError,
    StoppingError,
    UnknownOutcomeError,
)
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.automatic_splits import is_too_large
from rowlock_regionserver.host.region_changes import RegionChanges, Successors
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.operations import Delete, DeleteKind, Increment, RequestId, ScanPlan, Selection
from rowlock_regionserver.region.region import Region

from tests.crash.simulated_files import Loss, SimulatedCrash, SimulatedFiles
from tests.drawn_cases import case_count, drawn_calls
from tests.unit.region.conftest import abandon
from tests.waiting import WAIT_S, wait_until

from .serving_table import CONFIG, FAMILIES, Serving, fill
from .table_of_regions import TableOfRegions, cells_of, numbered_rows

SNAPSHOT = b"snapshot is 16 b"


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Serving]:
    serving = Serving(tmp_path)
    yield serving
    serving.server.stop()


# ---- rows


def test_a_split_leaves_every_row_in_one_of_two_regions(table: Serving) -> None:
    rows = fill(table)
    table.split(b"r000013")
    assert table.bounds == [(b"", b"r000013"), (b"r000013", b"")]
    assert table.scan() == rows
    assert table.scan(ScanPlan(reverse=True)) == rows[::-1]
    assert [table.get(row) for row, _ in rows] == [[value] for _, value in rows]
    with table.regions[0].scan(ScanPlan()) as (_, answers):
        assert cells_of(answers) == rows[:13]


@pytest.mark.parametrize("again", [Serving.restart, Serving.crash])
def test_it_is_as_before_after_a_restart(table: Serving, again: Callable[[Serving], None]) -> None:
    rows = fill(table)
    table.split(b"r000013")
    table.put(b"r000007", b"after the split")
    table.put(b"r000030", b"after the split")
    again(table)
    expected = dict(rows) | {b"r000007": b"after the split", b"r000030": b"after the split"}
    assert dict(table.scan()) == expected
    again(table)
    assert dict(table.scan()) == expected
    table.merge()
    table.put(b"r000008", b"after the merge")
    again(table)
    assert table.bounds == [(b"", b"")]
    assert dict(table.scan()) == expected | {b"r000008": b"after the merge"}


def test_the_middle_is_found_from_the_files(table: Serving) -> None:
    generator = random.Random(5)
    for row in numbered_rows(100):
        table.put(row, generator.randbytes(20_000), family=b"g")
    table.server.flush("t")
    table.split(None)
    (_, middle), _ = table.bounds
    assert b"r000040" < middle < b"r000060"


def test_a_merge_has_the_rows_of_both_and_hides_what_the_files_have_of_others(table: Serving) -> None:
    rows = fill(table)
    table.split(b"r000020")
    table.change(b"r000025", Delete(DeleteKind.ROW))
    table.server.flush("t")
    assert [region.statistics().has_clipped_files for region in table.regions] == [True, True]
    table.merge()
    assert table.bounds == [(b"", b"")]
    assert table.scan() == [row for row in rows if row[0] != b"r000025"]


def test_versions_and_stamps_go_on(table: Serving) -> None:
    before = table.put(b"r5", b"1", family=b"g").timestamp
    table.put(b"r1", b"1", family=b"g")
    table.split(b"r3")
    after = table.put(b"r5", b"2", family=b"g").timestamp
    assert after > before
    table.merge()
    assert table.put(b"r5", b"3", family=b"g").timestamp > after
    assert table.get(b"r5", Selection(versions=5)) == [b"3", b"2", b"1"]


def test_a_stamp_is_later_than_before_although_the_clock_was_set_back(tmp_path: Path) -> None:
    clock = ManualClock()
    server = RegionServer.open(tmp_path, CONFIG, clock, Files(), lambda error: None)
    server.create_table("t", FAMILIES)
    table = TableOfRegions(server)
    table.put(b"r1", b"old")
    clock.set_now_ms(clock.now_ms() - 3_600_000)
    server.split_region("t", table.regions[0].region_id, b"r0")
    table.put(b"r1", b"new")
    assert table.get(b"r1") == [b"new"]
    left, right = [region.region_id for region in table.regions]
    server.merge_regions("t", left, right)
    table.put(b"r1", b"newest")
    assert table.get(b"r1") == [b"newest"]
    server.stop()


def test_a_region_is_split_by_itself_when_its_files_are_larger_than_its_table_says(tmp_path: Path) -> None:
    table = Serving(tmp_path, Config(compaction_threads=1))
    table.server.alter_table("t", set_properties={"split.region_bytes": "600000"})
    generator = random.Random(5)
    rows = {row: generator.randbytes(20_000) for row in numbered_rows(100)}
    for row, value in rows.items():
        table.put(row, value)
    table.server.flush("t")

    def has_four() -> bool:
        with contextlib.suppress(NotServingRegionError):  # The catalog names them a moment before they are served.
            return len(table.regions) == 4
        return False

    wait_until(has_four)  # The halves are still too large when they are compacted.
    assert dict(table.scan()) == rows
    table.restart()
    assert len(table.bounds) == 4
    assert dict(table.scan()) == rows
    table.server.stop()


def test_a_table_of_which_the_limit_is_0_is_not_split(table: Serving) -> None:
    table.server.alter_table("t", set_properties={"split.region_bytes": "0"})
    fill(table)
    table.server.flush("t")
    (region,) = table.regions
    assert not is_too_large(region)
    table.server.alter_table("t", set_properties={"split.region_bytes": "1"})
    assert is_too_large(region)


def test_stamps_go_on_after_a_crash_just_after_a_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new region's reservation, of what the old one had used, is durable before the catalog's commit."""
    clock = ManualClock()
    disk = SimulatedFiles(tmp_path / "disk")
    server = RegionServer.open(disk.root, CONFIG, clock, disk, lambda error: None)
    server.create_table("t", FAMILIES)
    table = TableOfRegions(server)
    table.put(b"r1", b"old")
    clock.set_now_ms(clock.now_ms() - 3_600_000)
    exchange = RegionChanges._exchange

    def exchange_and_fail(self: RegionChanges, old: Sequence[Region], made: Successors) -> None:
        exchange(self, old, made)
        raise MemoryError("before the log is synced")

    monkeypatch.setattr(RegionChanges, "_exchange", exchange_and_fail)
    with pytest.raises(UnknownOutcomeError):
        server.split_region("t", table.regions[0].region_id, b"r0")
    image = disk.power_failure(tmp_path / "image", Loss.ALL)
    abandon(server)
    again = TableOfRegions(RegionServer.open(image, CONFIG, clock, Files(), lambda error: None))
    assert len(again.bounds) == 2
    again.put(b"r1", b"new")
    assert again.get(b"r1") == [b"new"]
    again.server.stop()


# ---- what survives


def test_a_repeated_request_gets_its_answer_from_the_new_region(table: Serving) -> None:
    request = RequestId(b"client is 16 byt", 1, 1)
    first = table.change(b"r7", Increment(b"f", b"n", 5), request=request)
    table.split(b"r5")
    assert table.change(b"r7", Increment(b"f", b"n", 5), request=request).results == first.results
    table.merge()
    assert table.change(b"r7", Increment(b"f", b"n", 5), request=request).results == first.results
    table.crash()
    assert table.change(b"r7", Increment(b"f", b"n", 5), request=request).results == first.results
    assert table.change(b"r7", Increment(b"f", b"n", 1), request=RequestId(b"client is 16 byt", 2, 1)).results != ()


def test_a_snapshot_sees_its_moment_over_splits_merges_and_compactions(tmp_path: Path) -> None:
    table = Serving(tmp_path)
    rows = fill(table)
    table.server.make_snapshot("t", SNAPSHOT, 0, "")
    for row, _ in rows[::3]:
        table.put(row, b"later")
    table.split(b"r000013")
    for row, _ in rows[::4]:
        table.change(row, Delete(DeleteKind.ROW))
    table.split(b"r000029")
    assert table.scan(snapshot_id=SNAPSHOT) == rows
    table.server.flush("t")
    table.merge(1)
    table.put(b"r000013", b"last")
    table.merge()
    table.server.flush("t")
    for plan in (ScanPlan(), ScanPlan(reverse=True), ScanPlan(batch_rows=3)):
        assert table.scan(plan, SNAPSHOT) == (rows[::-1] if plan.reverse else rows)
    limited = ScanPlan(row_limit=30, ranges=((b"r000005", b"r000039"),))
    assert table.scan(limited, SNAPSHOT) == rows[5:35]
    assert table.scan() != rows
    table.server.drop_table("t")
    with pytest.raises(SnapshotEndedError):
        table.server.snapshots.check(SNAPSHOT)
    table.server.stop()


def test_an_open_scan_reads_the_old_region_to_its_end(table: Serving) -> None:
    rows = fill(table)
    with table.regions[0].scan(ScanPlan(batch_rows=5)) as (_, answers):
        found = [(cell["row"], cell["value"]) for cell in next(answers).table.to_pylist()]
        table.split(b"r000002")
        table.put(b"r000030", b"later")
        table.split(b"r000035")
        assert found + cells_of(answers) == rows
    table.server._shared.open_files.close_released()
    assert len(table.names("regions")) == 3


def test_the_files_of_the_old_regions_are_removed(table: Serving) -> None:
    fill(table)
    table.split(b"r000020")
    ids = [region.region_id for region in table.regions]
    assert table.names("regions") == sorted(map(str, ids))
    table.merge()
    assert table.names("regions") == [str(table.regions[0].region_id)]


def test_writes_wait_and_are_refused_and_none_is_lost_or_made_twice(table: Serving) -> None:
    """Writers that follow the regions as a client does count what was acknowledged."""
    rows = numbered_rows(50)
    is_over = threading.Event()

    def write(number: int) -> int:
        count = 0
        while not is_over.is_set():
            with contextlib.suppress(NotServingRegionError):
                table.change(rows[(number * 7 + count) % len(rows)], Increment(b"f", b"n", 1))
                count += 1
        return count

    with ThreadPoolExecutor(4) as pool:
        counts = [pool.submit(write, number) for number in range(4)]
        try:
            for _ in range(case_count(8, 3)):
                table.split(b"r000025")
                table.split(b"r000040")
                table.merge()
                table.merge()
        finally:
            is_over.set()
        acknowledged = sum(each.result(WAIT_S) for each in counts)
    assert sum(int.from_bytes(value, "big") for _, value in table.scan()) == acknowledged
    table.crash()
    assert sum(int.from_bytes(value, "big") for _, value in table.scan()) == acknowledged


# ---- refusals


@pytest.mark.parametrize(("row", "named"), [(b"", "name a row"), (b"r5", "r5"), (b"r1", "r1")])
def test_a_row_that_does_not_divide_the_region_is_refused(table: Serving, row: bytes, named: str) -> None:
    table.put(b"r7", b"v")
    table.split(b"r5")
    right = table.regions[1].region_id
    with pytest.raises(InvalidRequestError, match=named):
        table.server.split_region("t", right, row)
    assert table.bounds == [(b"", b"r5"), (b"r5", b"")]


def test_regions_that_are_no_neighbours_are_not_merged(table: Serving) -> None:
    for row in (b"r3", b"r6"):
        table.split(row)
    first, second, third = [region.region_id for region in table.regions]
    for left, right in ((first, third), (second, first), (first, first)):
        with pytest.raises(InvalidRequestError):
            table.server.merge_regions("t", left, right)
    with pytest.raises(NotServingRegionError):
        table.server.merge_regions("t", first, 99)


def test_an_empty_region_has_no_middle(table: Serving) -> None:
    with pytest.raises(InvalidRequestError, match="give the row"):
        table.split(None)


def test_regions_with_cells_from_before_an_alter_are_merged_when_they_are_settled(table: Serving) -> None:
    for number in range(3):
        table.put(b"r1", b"%d" % number, family=b"g")
        table.put(b"r5", b"%d" % number, family=b"g")
    table.split(b"r3")
    table.server.alter_table("t", set_families=[Family(0, b"g", versions=1)])
    with pytest.raises(RegionTooBusyError, match="major=True"):
        table.merge()
    assert table.bounds == [(b"", b"r3"), (b"r3", b"")]
    table.put(b"r1", b"still served", family=b"g")


# ---- crashes


@pytest.mark.parametrize("operation", ["split", "merge"])
def test_a_crash_at_any_call_leaves_the_old_regions_or_the_new_ones(tmp_path: Path, operation: str) -> None:
    halves, whole = [(b"", b"r3"), (b"r3", b"")], [(b"", b"")]
    before, after = (whole, halves) if operation == "split" else (halves, whole)
    rows = {b"r1": b"1", b"r2": b"logged", b"r5": b"5", b"r6": b"logged"}
    done = 0
    for call in drawn_calls(200, 4, f"crashes of a {operation}"):
        disk = SimulatedFiles(tmp_path / f"disk-{call}")
        table = Serving(disk.root, files=disk)
        if operation == "merge":
            table.split(b"r3")
        for row in (b"r1", b"r5"):
            table.put(row, rows[row])
        table.server.flush("t")
        for row in (b"r2", b"r6"):
            table.put(row, rows[row])
        disk.crash_at(call)
        acknowledged = False
        with contextlib.suppress(SimulatedCrash, UnknownOutcomeError, StoppingError):
            table.split(b"r3") if operation == "split" else table.merge()
            acknowledged = True
        has_crashed = disk.is_dead
        for loss, restarts in ((Loss.NOTHING, 1), (Loss.SOME, 1), (Loss.ALL, 2)):
            image = disk.power_failure(tmp_path / f"image-{call}-{loss.name}", loss)
            for _ in range(restarts):
                server = RegionServer.open(image, CONFIG, Clock(), Files(), lambda _: None)
                again = TableOfRegions(server)
                assert server.damaged_regions() == {}, f"call {call}, {loss.name}"
                assert dict(again.scan()) == rows, f"call {call}, {loss.name}"
                assert again.bounds == after or (again.bounds == before and not acknowledged), f"{call}, {loss.name}"
                named = {str(region.region_id) for region in again.regions}
                assert {path.name for path in (image / "regions").iterdir()} == named, f"call {call}, {loss.name}"
                done += again.bounds == after and has_crashed
                server.stop()
        with contextlib.suppress(SimulatedCrash):
            abandon(table.server)  # Its threads still run.
        if not has_crashed:
            break
    assert acknowledged
    assert call > 20, "the crashes did not reach every call"
    assert done > 3, "the operation was never found done but when it was over"
