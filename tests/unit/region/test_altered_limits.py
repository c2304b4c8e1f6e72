"""Alters of versions and time to live: what was visible stays so, what was gone stays gone, compacted or not."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rowlock_regionserver import generations
from rowlock_regionserver.cells import Family
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.compaction.picker import pick_requested
from rowlock_regionserver.compaction.progress import Progress
from rowlock_regionserver.compaction.settings import CompactionSettings
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import DiskFullError
from rowlock_regionserver.files import Files
from rowlock_regionserver.operations import Delete, DeleteKind, Put, ScanPlan, Selection
from rowlock_regionserver.region import manifest
from rowlock_regionserver.region.manifest import read_manifest

from tests.unit.scan.whole_scans import all_rows_at

from .conftest import bulk_batch
from .lone_region import LoneRegion

F = 1
START_MS = 1_000_000
CONFIG = Config(log_segment_bytes=1 << 20, long_work_pause_percent=0)


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[LoneRegion]:
    region = LoneRegion(tmp_path, CONFIG, ManualClock(now_ms=START_MS))
    yield region
    region.stop()
    assert not region.fatal


def compact(lone: LoneRegion) -> None:
    lone.flush()
    facts = next(facts for facts in lone.region.compaction_facts() if facts.family.number == F)
    plan = pick_requested(facts.files, CompactionSettings(), major=True)
    if plan is not None:
        lone.region.compact(F, plan, Progress())


def nothing(lone: LoneRegion) -> None: ...


def flush(lone: LoneRegion) -> None:
    lone.flush()


def crash(lone: LoneRegion) -> None:
    lone.crash()


between = pytest.mark.parametrize("between", [nothing, flush, compact, crash])
Between = Callable[[LoneRegion], None]


def put(lone: LoneRegion, *cells: tuple[int, bytes]) -> None:
    for timestamp, value in cells:
        lone.change(b"r", Put(b"f", b"q", value, timestamp))


def delete_version(lone: LoneRegion, timestamp: int) -> None:
    lone.change(b"r", Delete(DeleteKind.VERSION, b"f", b"q", timestamp))


def values(lone: LoneRegion) -> list[bytes]:
    of_get = [cell[3] for cell in lone.cells(b"r", versions=9)]
    assert [cell[4] for cell in lone.scan(ScanPlan(Selection(versions=9)))] == of_get
    return of_get


def past_count(lone: LoneRegion) -> int:
    (kept,) = {
        len(read_manifest(Files(), lone.parts.live_files.folder).manifest.limits[F].past),
        len(lone.region.table.by_name[b"f"].past),
    }
    return kept


@between
def test_a_higher_limit_brings_no_version_back(lone: LoneRegion, between: Between) -> None:
    put(lone, (100, b"a"), (200, b"b"))
    between(lone)
    lone.alter([Family(0, b"f", versions=3)])
    between(lone)
    assert values(lone) == [b"b"]
    put(lone, (50, b"c"), (60, b"d"))
    between(lone)
    assert values(lone) == [b"b", b"d", b"c"]
    delete_version(lone, 200)
    assert values(lone) == [b"d", b"c"]


@between
def test_a_lower_limit_keeps_what_was_the_newest(lone: LoneRegion, between: Between) -> None:
    lone.alter([Family(0, b"f", versions=3)])
    put(lone, (100, b"a"), (200, b"b"))
    delete_version(lone, 200)
    between(lone)
    lone.alter([Family(0, b"f")])
    between(lone)
    assert values(lone) == [b"a"]


@between
def test_what_a_lower_limit_removes_stays_gone(lone: LoneRegion, between: Between) -> None:
    lone.alter([Family(0, b"f", versions=3)])
    put(lone, (100, b"a"), (200, b"b"))
    lone.alter([Family(0, b"f")])
    between(lone)
    lone.alter([Family(0, b"f", versions=3)])
    between(lone)
    assert values(lone) == [b"b"]
    delete_version(lone, 200)
    assert values(lone) == []


def test_a_compaction_leaves_what_a_delete_in_memory_shows_again(lone: LoneRegion) -> None:
    lone.alter([Family(0, b"f", versions=3)])
    put(lone, (100, b"a"), (200, b"b"))
    lone.flush()
    delete_version(lone, 200)
    lone.alter([Family(0, b"f")])
    facts = next(facts for facts in lone.region.compaction_facts() if facts.family.number == F)
    plan = pick_requested(facts.files, CompactionSettings(), major=True)
    assert plan is not None
    lone.region.compact(F, plan, Progress())
    assert values(lone) == [b"a"]
    assert past_count(lone) > 0
    compact(lone)
    assert values(lone) == [b"a"]
    assert past_count(lone) == 0


@between
def test_a_delete_does_not_show_what_a_lower_limit_removed(lone: LoneRegion, between: Between) -> None:
    lone.alter([Family(0, b"f", versions=3)])
    put(lone, (100, b"a"), (200, b"b"))
    between(lone)
    lone.alter([Family(0, b"f")])
    delete_version(lone, 200)
    between(lone)
    assert values(lone) == []
    assert lone.scan() == []


@between
def test_a_longer_time_to_live_brings_nothing_back(lone: LoneRegion, between: Between) -> None:
    assert isinstance(lone.clock, ManualClock)
    lone.alter([Family(0, b"f", versions=3, time_to_live_ms=10)])
    put(lone, (START_MS - 10, b"a"), (START_MS - 4, b"b"))
    between(lone)
    lone.alter([Family(0, b"f", versions=3, time_to_live_ms=100)])
    between(lone)
    assert values(lone) == [b"b"]
    put(lone, (START_MS - 10, b"c"))
    lone.clock.advance(20)
    between(lone)
    assert values(lone) == [b"b", b"c"]


def test_expired_versions_that_min_versions_may_show_again_are_not_gone(lone: LoneRegion) -> None:
    lone.alter([Family(0, b"f", versions=3, min_versions=1, time_to_live_ms=10)])
    put(lone, (START_MS - 20, b"a"), (START_MS - 15, b"b"))
    assert values(lone) == [b"b"]
    lone.alter([Family(0, b"f", versions=3, min_versions=2, time_to_live_ms=10)])
    compact(lone)
    assert values(lone) == [b"b", b"a"]


@pytest.mark.parametrize("between", [nothing, flush, compact])
def test_a_scan_from_before_an_alter_is_under_the_limits_of_its_moment(lone: LoneRegion, between: Between) -> None:
    assert isinstance(lone.clock, ManualClock)
    lone.alter([Family(0, b"f", versions=3)])
    put(lone, (START_MS - 5, b"a"), (START_MS - 4, b"b"))
    read_point = lone.region.open_read_point()
    lone.alter([Family(0, b"f", time_to_live_ms=2)])
    between(lone)
    put(lone, (START_MS, b"c"))
    lone.clock.advance(1)
    between(lone)
    with lone.region.scan(ScanPlan(Selection(versions=9)), all_rows_at(read_point)) as (_, answers):
        assert [value for answer in answers for value in answer.table["value"].to_pylist()] == [b"b", b"a"]
    assert values(lone) == [b"c"]
    lone.region.close_read_point(read_point)


def test_past_limits_end_with_a_major_compaction(lone: LoneRegion) -> None:
    lone.alter([Family(0, b"f", versions=2)])
    assert past_count(lone) == 0  # The store is empty.
    put(lone, (100, b"a"))
    lone.alter([Family(0, b"f", versions=3)])
    lone.flush()
    assert past_count(lone) == 0  # The store had no file.
    lone.alter([Family(0, b"f", versions=4)])
    put(lone, (200, b"b"))
    lone.flush()
    read_point = lone.region.open_read_point()
    lone.alter([Family(0, b"f", versions=5)])
    lone.crash()
    assert past_count(lone) == 2
    read_point = lone.region.open_read_point()
    lone.alter([Family(0, b"f", versions=6)])
    compact(lone)
    assert past_count(lone) == 1  # A reader is under them.
    lone.region.close_read_point(read_point)
    compact(lone)
    assert past_count(lone) == 0


def test_past_limits_stay_while_memory_or_files_left_out_have_cells_from_before(lone: LoneRegion) -> None:
    put(lone, (100, b"a"))
    lone.flush()
    put(lone, (90, b"b"), (200, b"c"))
    lone.alter([Family(0, b"f", versions=3)])
    (facts, _) = lone.region.compaction_facts()
    plan = pick_requested(facts.files, CompactionSettings(), major=True)
    assert plan is not None
    lone.region.compact(F, plan, Progress())
    assert past_count(lone) == 1
    assert values(lone) == [b"c"]
    compact(lone)
    assert past_count(lone) == 0
    assert values(lone) == [b"c"]


def test_a_start_after_a_crash_applies_an_alter_after_all_writes_of_the_log(lone: LoneRegion) -> None:
    """The catalog had committed it, and the region had not applied it yet."""
    put(lone, (100, b"a"), (200, b"b"))
    lone._state = lone._state.with_altered_table("t", [Family(0, b"f", versions=3)], (), None)
    lone.crash()
    put(lone, (50, b"c"), (60, b"d"))
    for _ in range(2):
        lone.crash()
        assert values(lone) == [b"b", b"d", b"c"]


def test_replay_prunes_each_write_by_the_limits_of_its_moment(lone: LoneRegion) -> None:
    lone.alter([Family(0, b"f", versions=3)])
    put(lone, (100, b"a"), (200, b"b"))
    for number in range(200):  # More than a row is pruned at.
        lone.change(b"r", Put(b"f", b"x", b"%d" % number))
    delete_version(lone, 200)
    lone.alter([Family(0, b"f")])
    lone.crash()
    assert lone.values(b"r") == {b"f:q": b"a", b"f:x": b"199"}


def test_a_folder_without_applied_limits_is_under_those_of_the_catalog(lone: LoneRegion) -> None:
    put(lone, (100, b"a"), (200, b"b"))
    lone.alter([Family(0, b"f", versions=3)])
    folder = lone.parts.live_files.folder
    live = read_manifest(Files(), folder)
    fields = json.loads(live.manifest.encode())
    del fields["limits"]  # As version 0.1.0 wrote it.
    generations.write(
        Files(),
        folder,
        manifest.NAME,
        live.generation + 1,
        json.dumps(fields).encode(),
        version=manifest.FORMAT_VERSION,
    )
    lone.crash()
    assert values(lone) == [b"b", b"a"]
    lone.alter([Family(0, b"f")])
    lone.alter([Family(0, b"f", versions=3)])
    assert values(lone) == [b"b"]


class WatchedFiles(Files):
    """Calls an action before a manifest becomes live."""

    before_manifest: Callable[[], None] | None = None

    def rename(self, source: Path, target: Path) -> None:
        if self.before_manifest is not None and target.name.startswith(manifest.NAME):
            self.before_manifest()
        super().rename(source, target)


def test_no_write_comes_between_an_alter_and_its_manifest(tmp_path: Path) -> None:
    files = WatchedFiles()
    lone = LoneRegion(tmp_path, CONFIG, ManualClock(now_ms=START_MS), files)
    put(lone, (100, b"a"))
    may_enter: list[bool] = []

    def note() -> None:
        has_entered = lone.parts.gate.try_enter()
        may_enter.append(has_entered)
        if has_entered:
            lone.parts.gate.leave()

    files.before_manifest = note
    lone.alter([Family(0, b"f", versions=3)])
    assert may_enter[0] is False
    lone.stop()


# ---- a full disk


class FullFiles(Files):
    """Has no space for manifests while it `is_full`."""

    is_full = False

    def rename(self, source: Path, target: Path) -> None:
        if self.is_full and target.name.startswith(manifest.NAME):
            raise OSError(errno.ENOSPC, "No space left on device", str(target))
        super().rename(source, target)


@pytest.fixture
def full(tmp_path: Path) -> Iterator[LoneRegion]:
    """A region with two versions of a cell, altered to one while there is no space for its manifest."""
    files = FullFiles()
    region = LoneRegion(tmp_path, CONFIG, ManualClock(now_ms=START_MS), files)
    region.alter([Family(0, b"f", versions=3)])
    put(region, (100, b"a"), (200, b"b"))
    files.is_full = True
    region.alter([Family(0, b"f")])
    yield region
    region.stop()
    assert not region.fatal


def test_without_space_for_the_altered_limits_a_region_takes_no_writes(full: LoneRegion) -> None:
    """A start would judge them by the limits from before."""
    assert full.region.altering.owes_limits
    assert values(full) == [b"b"]
    with pytest.raises(DiskFullError, match="manifest of region"):
        put(full, (300, b"c"))
    with pytest.raises(DiskFullError, match="manifest of region"):
        full.bulk(bulk_batch((b"r", b"f", b"q", 300, b"c")))
    full.region.altering.commit_owed_limits()
    with pytest.raises(DiskFullError):
        put(full, (300, b"c"))
    assert values(full) == [b"b"]


def test_it_takes_writes_again_when_there_is_space(full: LoneRegion) -> None:
    assert isinstance(full.files, FullFiles)
    full.files.is_full = False
    full.region.altering.commit_owed_limits()
    put(full, (300, b"c"))
    delete_version(full, 300)
    assert values(full) == []
    full.crash()
    assert values(full) == []


def test_a_crash_before_there_is_space_changes_no_answer(full: LoneRegion) -> None:
    full.crash()
    assert values(full) == [b"b"]
    assert full.region.altering.owes_limits
    with pytest.raises(DiskFullError):
        put(full, (300, b"c"))
    assert isinstance(full.files, FullFiles)
    full.files.is_full = False
    full.crash()
    put(full, (300, b"c"))
    delete_version(full, 300)
    assert values(full) == []
