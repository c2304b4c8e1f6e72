"""Compactions of a region without a server: what stays readable, and what a failure at any step leaves."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from rowlock_regionserver.cells import Family
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.compaction import compactor
from rowlock_regionserver.compaction.job import CompactionJob, Entry, StoreId, Work
from rowlock_regionserver.compaction.picker import Kind, Plan, pick
from rowlock_regionserver.compaction.progress import CompactionCancelledError, CompactionResult, Progress
from rowlock_regionserver.compaction.settings import CompactionSettings
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import CorruptionError, DiskFullError, NotServingRegionError, OutOfMemoryError
from rowlock_regionserver.files import Files
from rowlock_regionserver.operations import Delete, DeleteKind, Put, ScanPlan
from rowlock_regionserver.region.background_pacing import (
    COMPACTION,
    COMPACTION_BEHIND,
    BackgroundPacing,
    Pace,
    Permit,
)
from rowlock_regionserver.region.compacting import _inputs_and_older
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.region.stores import Store
from rowlock_regionserver.storefile.format import HEADER_BYTES, WIDE_BLOCK_MAGIC
from rowlock_regionserver.storefile.reader import StoreFile

from tests.waiting import WAIT_S

from .lone_region import LoneRegion

F = 1  # the number of family f, of one version
# Without pauses nothing waits for a permit, so a test may flush inside a compaction.
CONFIG = Config(log_segment_bytes=1 << 20, long_work_pause_percent=0)


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[LoneRegion]:
    region = LoneRegion(tmp_path, CONFIG)
    yield region
    region.stop()
    assert not region.fatal


class Disk(Files):
    """A disk with less free space than asked, or that refuses to rename files of these names."""

    free: int | None = None
    refused: str | None = None
    refused_with = errno.ENOSPC
    unreadable: Path | None = None
    unreadable_for = errno.EIO

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        if path == self.unreadable:
            raise OSError(self.unreadable_for, "the disk failed", str(path))
        return super().open(path, flags, mode)

    def free_bytes(self, path: Path) -> int:
        return super().free_bytes(path) if self.free is None else self.free

    def rename(self, source: Path, target: Path) -> None:
        if self.refused is not None and target.match(self.refused):
            raise OSError(self.refused_with, "No space left on device", str(target))
        super().rename(source, target)


class ActingProgress(Progress):
    """Runs an action once, in the middle of the compaction."""

    def __init__(self, action: Callable[[], object]) -> None:
        super().__init__()
        self._action: Callable[[], object] | None = action

    def check(self) -> None:
        action, self._action = self._action, None
        if action is not None:
            action()
        super().check()


def written(lone: LoneRegion, *values: bytes) -> None:
    """Writes three rows with each of the values, and flushes after each value."""
    for value in values:
        for row in (b"a", b"b", b"c"):
            lone.change(row, Put(b"f", b"q", value))
        lone.flush()


def numbers(region: Region) -> list[int]:
    """The numbers of the store files of family f, newest first."""
    (facts,) = [facts for facts in region.compaction_facts() if facts.family.name == b"f"]
    return [file.number for file in facts.files]


def plan_of(*files: int, kind: Kind = Kind.MAJOR) -> Plan:
    return Plan(kind, files, "a test", (files,))


def compacted(lone: LoneRegion, kind: Kind = Kind.MAJOR, progress: Progress | None = None) -> CompactionResult:
    """Compacts all files of family f into one."""
    return lone.region.compact(F, plan_of(*numbers(lone.region), kind=kind), progress or Progress())


def stored(lone: LoneRegion) -> list[str]:
    return sorted(path.name for path in lone.parts.live_files.folder.glob("1-*"))


@pytest.mark.parametrize(("file_count", "pace"), [(3, COMPACTION), (4, COMPACTION_BEHIND)])
def test_a_compaction_for_which_many_files_wait_does_not_pause_for_longer(
    lone: LoneRegion, monkeypatch: pytest.MonkeyPatch, file_count: int, pace: Pace
) -> None:
    asked: list[Pace] = []
    permit = BackgroundPacing.permit

    def noting(pacing: BackgroundPacing, pace: Pace) -> Permit:
        asked.append(pace)
        return permit(pacing, pace)

    written(lone, *[b"%d" % number for number in range(file_count)])
    monkeypatch.setattr(BackgroundPacing, "permit", noting)
    monkeypatch.setattr(compactor, "_INPUTS_BEHIND", 3)
    compacted(lone)
    assert asked == [pace]


def test_a_major_compaction_makes_one_base_of_all_files(lone: LoneRegion) -> None:
    written(lone, b"1", b"2", b"3")
    before, inputs = lone.scan(), numbers(lone.region)
    progress = Progress()
    result = compacted(lone, progress=progress)
    (facts, _) = lone.region.compaction_facts()
    assert [file.is_base for file in facts.files] == [True]
    assert (result.file_count_in, result.file_count_out, result.cells_in, result.cells_out) == (3, 1, 9, 3)
    assert progress.bytes_read == progress.bytes_total == result.bytes_in
    assert lone.scan() == before
    assert stored(lone) == [f"1-{numbers(lone.region)[0]:012d}.store"]
    assert numbers(lone.region)[0] > max(inputs)


def test_a_minor_compaction_makes_one_delta_of_neighbours(lone: LoneRegion) -> None:
    written(lone, b"1", b"2", b"3", b"4")
    before = lone.scan()
    newest, *middle, oldest = numbers(lone.region)
    lone.region.compact(F, plan_of(*middle, kind=Kind.MINOR), Progress())
    assert numbers(lone.region)[::2] == [newest, oldest]
    assert not any(file.is_base for facts in lone.region.compaction_facts() for file in facts.files)
    assert lone.scan() == before
    lone.crash()
    assert lone.scan() == before
    assert len(numbers(lone.region)) == 3


def test_a_minor_compaction_keeps_the_tombstones_of_older_files(lone: LoneRegion) -> None:
    written(lone, b"1")
    lone.change(b"a", Delete(DeleteKind.ROW))
    lone.flush()
    lone.change(b"b", Delete(DeleteKind.COLUMN, b"f", b"q"))
    lone.flush()
    before = lone.scan()
    assert [cell[0] for cell in before] == [b"c"]
    *deltas, _ = numbers(lone.region)
    lone.region.compact(F, plan_of(*deltas, kind=Kind.MINOR), Progress())
    assert len(numbers(lone.region)) == 2
    assert lone.scan() == before
    assert compacted(lone).cells_out == 1, "a major compaction keeps what tombstones hide, or the tombstones"
    assert lone.scan() == before


def test_the_files_are_the_same_after_a_crash(lone: LoneRegion) -> None:
    written(lone, b"1", b"2", b"3")
    compacted(lone)
    written(lone, b"4")
    before, files = lone.scan(), numbers(lone.region)
    lone.crash()
    assert (lone.scan(), numbers(lone.region)) == (before, files)
    facts = lone.region.compaction_facts()[0]
    assert [file.is_base for file in facts.files] == [False, True]


def test_a_scan_reads_its_moment_to_the_end_though_its_files_are_replaced(tmp_path: Path) -> None:
    # Windows so small that most of the rows are read after the compaction.
    lone = LoneRegion(tmp_path, replace(CONFIG, scan_window_bytes=500))
    for i in range(100):
        lone.change(b"%03d" % i, Put(b"f", b"q", b"old"))
    lone.flush()
    with lone.region.scan(ScanPlan(batch_rows=10)) as (_, answers):
        seen = next(answers).table.num_rows
        for i in range(100):
            lone.change(b"%03d" % i, Put(b"f", b"q", b"new"))
        lone.flush()
        compacted(lone)
        for answer in answers:
            assert set(answer.table.column("value").to_pylist()) == {b"old"}
            seen += answer.table.num_rows
    assert seen == 100
    assert {cell[4] for cell in lone.scan()} == {b"new"}
    assert compacted(lone).cells_out == 100, "the old cells stay after their reader has ended"
    lone.stop()


def test_a_flush_during_a_compaction_is_not_lost(lone: LoneRegion) -> None:
    written(lone, b"1", b"2")
    progress = ActingProgress(lambda: written(lone, b"3"))
    compacted(lone, progress=progress)
    facts = lone.region.compaction_facts()[0]
    assert [file.is_base for file in facts.files] == [False, True]
    assert {cell[4] for cell in lone.scan()} == {b"3"}
    lone.crash()
    assert {cell[4] for cell in lone.scan()} == {b"3"}


def test_a_cancelled_compaction_changes_nothing(lone: LoneRegion) -> None:
    written(lone, b"1", b"2")
    before, files = lone.scan(), stored(lone)
    progress = Progress()
    progress.cancel("somebody asked for it")
    with pytest.raises(CompactionCancelledError, match="somebody asked for it"):
        compacted(lone, progress=progress)
    assert (lone.scan(), stored(lone)) == (before, files)
    compacted(lone)


def test_a_compaction_that_is_cancelled_at_its_end_leaves_nothing_behind(lone: LoneRegion) -> None:
    class Late(Progress):
        def check(self) -> None:
            if self.bytes_written:
                self.cancel("it comes late")
            super().check()

    written(lone, b"1", b"2")
    files = stored(lone)
    with pytest.raises(CompactionCancelledError, match="late"):
        compacted(lone, progress=Late())
    assert stored(lone) == files


def test_a_region_that_closes_stops_its_compaction(tmp_path: Path) -> None:
    lone = LoneRegion(tmp_path, CONFIG)
    written(lone, b"1", b"2")
    closing = threading.Thread(target=lone.region.close)

    def close() -> None:
        closing.start()
        assert progress.cancelled.wait(WAIT_S)  # The thread waits then, until this compaction ends.

    progress = ActingProgress(close)
    with pytest.raises(CompactionCancelledError, match="closed"):
        compacted(lone, progress=progress)
    closing.join(WAIT_S)
    assert not closing.is_alive()
    with pytest.raises(NotServingRegionError):
        compacted(lone)
    lone.log.close()


def test_a_dropped_family_is_not_compacted(lone: LoneRegion) -> None:
    written(lone, b"1", b"2")
    progress = ActingProgress(lambda: lone.alter(drop_families=[b"f"]))
    with pytest.raises(CompactionCancelledError, match="dropped"):
        compacted(lone, progress=progress)
    assert [facts.family.name for facts in lone.region.compaction_facts()] == [b"g"]
    lone.parts.shared.open_files.close_released()
    assert stored(lone) == []
    with pytest.raises(CompactionCancelledError, match="dropped"):
        lone.region.compact(F, plan_of(1), Progress())


def test_an_altered_family_is_compacted(lone: LoneRegion) -> None:
    written(lone, b"1", b"2")
    compacted(lone, progress=ActingProgress(lambda: lone.alter([Family(0, b"f", versions=5)])))
    assert len(numbers(lone.region)) == 1
    assert {cell[4] for cell in lone.scan()} == {b"2"}


def test_files_that_are_gone_are_not_compacted(lone: LoneRegion) -> None:
    written(lone, b"1", b"2", b"3")
    newest, _, oldest = numbers(lone.region)
    for plan in (plan_of(newest, oldest), plan_of(99), plan_of(oldest, newest)):
        with pytest.raises(CompactionCancelledError, match="not the store's any more"):
            lone.region.compact(F, plan, Progress())
    assert len(numbers(lone.region)) == 3


def test_a_compaction_that_may_not_fit_the_disk_is_refused_before_it_starts(tmp_path: Path) -> None:
    disk = Disk()
    lone = LoneRegion(tmp_path, CONFIG, files=disk)
    written(lone, b"1", b"2")
    byte_count = sum(file.byte_count for file in lone.region.compaction_facts()[0].files)
    disk.free = byte_count + lone.config.disk_free_bytes_min - 1
    with pytest.raises(DiskFullError, match=f"needs up to {disk.free + 1} bytes"):
        compacted(lone)
    disk.free += 1
    compacted(lone)
    lone.stop()


@pytest.mark.parametrize(("number", "error"), [(errno.ENOSPC, DiskFullError), (errno.ENOMEM, OutOfMemoryError)])
@pytest.mark.parametrize("refused", ["*.store", "manifest-*"])
def test_a_compaction_that_meets_a_full_disk_or_lacks_memory_leaves_nothing_behind(
    tmp_path: Path, refused: str, number: int, error: type[Exception]
) -> None:
    disk = Disk()
    disk.refused_with = number
    lone = LoneRegion(tmp_path, CONFIG, files=disk)
    written(lone, b"1", b"2")
    before, files = lone.scan(), sorted(lone.parts.live_files.folder.iterdir())
    disk.refused = refused
    with pytest.raises(error):
        compacted(lone)
    assert (lone.scan(), sorted(lone.parts.live_files.folder.iterdir())) == (before, files)
    disk.refused = None
    compacted(lone)
    assert lone.scan() == before
    lone.stop()


def test_a_damaged_input_is_named_and_the_store_is_served_as_before(lone: LoneRegion) -> None:
    written(lone, b"1", b"2")
    newest, oldest = numbers(lone.region)
    damaged = lone.parts.live_files.path_of(F, oldest)
    data = bytearray(damaged.read_bytes())
    place = data.index(WIDE_BLOCK_MAGIC) + HEADER_BYTES
    data[place] ^= 1
    lone.parts.shared.open_files.close_idle()
    with damaged.open("r+b") as file:
        file.write(data)
    with pytest.raises(CorruptionError, match=damaged.name):
        compacted(lone)
    assert numbers(lone.region) == [newest, oldest]
    assert len(stored(lone)) == 2


def test_a_moved_file_becomes_a_base_unread(lone: LoneRegion) -> None:
    written(lone, b"1")
    (number,) = numbers(lone.region)
    before = lone.parts.live_files.path_of(F, number).stat()
    result = lone.region.compact(F, Plan(Kind.MAJOR, (number,), "a test", moved=(number,)), Progress())
    assert (result.bytes_in, result.file_count_out) == (0, 1)
    assert [file.is_base for file in lone.region.compaction_facts()[0].files] == [True]
    assert lone.parts.live_files.path_of(F, number).stat() == before
    assert len(lone.scan()) == 3
    lone.crash()
    assert [file.is_base for file in lone.region.compaction_facts()[0].files] == [True]


def test_a_dropped_file_goes_unread(lone: LoneRegion) -> None:
    written(lone, b"1", b"2")
    newest, oldest = numbers(lone.region)
    lone.region.compact(F, Plan(Kind.MAJOR, (newest, oldest), "a test", moved=(newest,), dropped=(oldest,)), Progress())
    assert numbers(lone.region) == [newest]
    assert stored(lone) == [f"1-{newest:012d}.store"]


def test_a_file_of_expired_tombstones_stays_while_older_files_have_rows_of_it(tmp_path: Path) -> None:
    clock = ManualClock()
    lone = LoneRegion(tmp_path, CONFIG, clock)
    lone.alter([Family(0, b"f", time_to_live_ms=1000)])
    written(lone, b"1")
    lone.change(b"a", Delete(DeleteKind.ROW))
    lone.flush()
    clock.advance(10_000)
    facts = lone.region.compaction_facts()[0]
    assert [file.is_all_expired for file in facts.files] == [False, True]
    oldest = numbers(lone.region)[-1]
    lone.region.compact(F, Plan(Kind.MINOR, (oldest,), "a test", dropped=(oldest,)), Progress())
    assert [file.is_all_expired for file in lone.region.compaction_facts()[0].files] == [True]
    lone.stop()


def test_a_store_whose_lines_expire_in_part_is_compacted_once_and_is_idle_then(tmp_path: Path) -> None:
    clock = ManualClock()
    lone = LoneRegion(tmp_path, CONFIG, clock)
    lone.alter([Family(0, b"f", time_to_live_ms=1000)])
    for qualifier, later_ms in ((b"early", 0), (b"late", 600)):
        clock.advance(later_ms)
        for row in range(100):
            lone.change(b"%03d" % row, Put(b"f", qualifier, b"v"))
    lone.flush()
    clock.advance(700)  # One cell of each row has expired.
    plans = 0
    while (plan := pick(lone.region.compaction_facts()[0].files, CompactionSettings())) is not None:
        result = lone.region.compact(F, plan, Progress())
        plans += 1
        assert (plans, result.cells_in, result.cells_out) == (1, 200, 100)
    assert plans == 1
    assert [qualifier for _, _, qualifier, _, _ in lone.scan()] == [b"late"] * 100
    lone.stop()


def test_a_compaction_gains_nothing_only_if_it_writes_all_that_it_reads(lone: LoneRegion) -> None:
    written(lone, b"1", b"2")
    gained = [work_of(compacted(lone)).has_gained_nothing]
    gained.append(work_of(compacted(lone)).has_gained_nothing)
    lone.alter([Family(0, b"f", time_to_live_ms=1)])
    clock = lone.parts.shared.clock
    written_ms = clock.now_ms()
    while clock.now_ms() <= written_ms + 1:
        clock.wait_for_next_ms()
    gained.append(work_of(compacted(lone)).has_gained_nothing)
    assert gained == [False, True, False], "two files became one; a base was written again; its cells had expired"


def work_of(result: CompactionResult) -> Work:
    """Returns the work of a job of one plan."""
    store = StoreId(1, F)
    entry = Entry(CompactionJob(1, store, "t", b"f", Kind.MAJOR, "a test", is_by_hand=False, queued_ms=1), None)
    entry.end_plan(result)
    return entry.shown().work


def test_a_throttled_compaction_sleeps_until_its_bytes_are_due(tmp_path: Path) -> None:
    lone = LoneRegion(tmp_path, replace(CONFIG, compaction_bytes_per_second=1000), ManualClock())
    written(lone, b"1", b"2")
    pacing, clock = lone.parts.shared.pacing, lone.parts.shared.clock
    assert isinstance(clock, ManualClock)
    pacing.sleep = lambda seconds: clock.advance(max(1, round(1000 * seconds)))
    before = clock.monotonic()
    result = compacted(lone)
    assert clock.monotonic() - before == pytest.approx(result.bytes_in / 1000, abs=0.2)
    lone.stop()


def test_an_input_that_cannot_be_read_is_named_and_ends_nothing_else(tmp_path: Path) -> None:
    disk = Disk()
    lone = LoneRegion(tmp_path, CONFIG, files=disk)
    written(lone, b"1", b"2")
    disk.unreadable = lone.parts.live_files.path_of(F, numbers(lone.region)[-1])
    lone.parts.shared.open_files.close_idle()
    with pytest.raises(CorruptionError, match=disk.unreadable.name):
        compacted(lone)
    disk.unreadable_for = errno.ENOMEM
    with pytest.raises(OutOfMemoryError):  # It was damage, which stops automatic compaction.
        compacted(lone)
    disk.unreadable = None
    compacted(lone)
    lone.stop()


class FlushedMeanwhile:
    """The files of a store, in which a flush publishes one whenever they have been read."""

    def __init__(self, files: tuple[StoreFile, ...]) -> None:
        self._files = files

    @property
    def files(self) -> tuple[StoreFile, ...]:
        found = self._files
        self._files = (file_of(found[0].info.number + 1), *found)
        return found


def file_of(number: int) -> StoreFile:
    return cast("StoreFile", SimpleNamespace(info=SimpleNamespace(number=number)))


def test_a_file_that_a_flush_publishes_meanwhile_is_not_taken_for_an_input() -> None:
    files = tuple(file_of(number) for number in (4, 3, 2, 1))
    store = cast("Store", FlushedMeanwhile(files))
    assert _inputs_and_older(store, [3, 2]) == (files[1:3], files[3:])
