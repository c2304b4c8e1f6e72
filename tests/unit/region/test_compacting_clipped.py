"""Compactions of files that a split has clipped: the rows of other regions are left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rowlock_regionserver.compaction.picker import Kind, Plan, pick
from rowlock_regionserver.compaction.progress import CompactionResult, Progress
from rowlock_regionserver.compaction.settings import CompactionSettings
from rowlock_regionserver.config import Config
from rowlock_regionserver.operations import Delete, DeleteKind, Put
from rowlock_regionserver.region.live_files import Edit, Replacement
from rowlock_regionserver.region.manifest import read_manifest
from rowlock_regionserver.storefile.clipping import clipped_info
from rowlock_regionserver.storefile.reader import StoreFile

from .lone_region import LoneRegion
from .test_compacting import numbers, plan_of, work_of

F = 1  # the number of family f, of one version
CONFIG = Config(log_segment_bytes=1 << 20, long_work_pause_percent=0)
ROWS = [b"%03d" % number for number in range(100)]


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[LoneRegion]:
    region = LoneRegion(tmp_path, CONFIG)
    yield region
    region.stop()
    assert not region.fatal


def written(lone: LoneRegion, value: bytes, rows: list[bytes] = ROWS) -> None:
    for row in rows:
        lone.change(row, Put(b"f", b"q", value))
    lone.flush()


def clip(lone: LoneRegion, start: bytes, stop: bytes = b"") -> None:
    """Clips the files of family f, as the split of the region does."""
    shared = lone.parts.shared
    files = lone.parts.stores.of(F).files
    clipped = []
    for file in files:
        info = clipped_info(file, start, stop)
        assert info is not None
        clipped.append(StoreFile.open(file.path, info, shared.cache, shared.open_files))
    lone.parts.live_files.apply_edit(Edit(replaced={F: Replacement(files, clipped)}))


def rows_of(lone: LoneRegion) -> list[bytes]:
    return [cell[0] for cell in lone.scan()]


def due(lone: LoneRegion) -> Plan | None:
    return pick(lone.region.compaction_facts()[0].files, CompactionSettings())


def compacted(lone: LoneRegion, plan: Plan | None) -> CompactionResult:
    assert plan is not None
    return lone.region.compact(F, plan, Progress())


def clips(lone: LoneRegion) -> list[tuple[bytes, bytes]]:
    return [(file.info.clip_start, file.info.clip_stop) for file in lone.parts.stores.of(F).files]


def test_the_output_has_the_rows_that_count_and_is_not_clipped(lone: LoneRegion) -> None:
    written(lone, b"1")
    written(lone, b"2")
    clip(lone, b"040", b"060")
    before = lone.scan()
    assert [cell[0] for cell in before] == ROWS[40:60]
    byte_count = sum(file.byte_count for file in lone.parts.stores.of(F).files)
    progress = Progress()
    result = lone.region.compact(F, plan_of(*numbers(lone.region)), progress)
    assert (result.cells_in, result.cells_out, result.file_count_out) == (200, 20, 1)
    assert progress.bytes_read == result.bytes_in == byte_count
    assert lone.scan() == before
    (file,) = lone.parts.stores.of(F).files
    assert (file.info.is_clipped, file.first_row, file.last_row) == (False, b"040", b"059")
    assert [path.name for path in lone.parts.live_files.folder.glob("1-*")] == [file.path.name]
    lone.crash()
    assert lone.scan() == before


def test_a_clipped_base_is_rewritten_by_itself_once(lone: LoneRegion) -> None:
    written(lone, b"1")
    compacted(lone, plan_of(1))
    assert due(lone) is None
    clip(lone, b"040")
    plan = due(lone)
    assert plan is not None
    assert (plan.kind, plan.why) == (Kind.MAJOR, "1 file has rows of other regions, after a split")
    work = work_of(compacted(lone, plan))
    assert not work.has_gained_nothing, "the next one would have to wait"
    assert (rows_of(lone), clips(lone), due(lone)) == (ROWS[40:], [(b"", b"")], None)


def test_a_clipped_delta_is_rewritten_without_the_base(lone: LoneRegion) -> None:
    written(lone, b"2", ROWS[50:53])
    clip(lone, b"051")
    plan = due(lone)
    assert plan == Plan(Kind.MINOR, (1,), "1 file has rows of other regions, after a split", ((1,),))
    compacted(lone, plan)
    assert (rows_of(lone), clips(lone), due(lone)) == ([b"051", b"052"], [(b"", b"")], None)
    assert not lone.region.compaction_facts()[0].files[0].is_base


def test_a_minor_compaction_of_a_clipped_file_keeps_tombstones_for_older_ones(lone: LoneRegion) -> None:
    written(lone, b"1")
    lone.change(b"050", Delete(DeleteKind.ROW))
    lone.change(b"070", Delete(DeleteKind.ROW))
    lone.flush()
    clip(lone, b"060")
    newest, _ = numbers(lone.region)
    compacted(lone, plan_of(newest, kind=Kind.MINOR))
    assert rows_of(lone) == [row for row in ROWS[60:] if row != b"070"]
    assert [file.info.tombstone_count for file in lone.parts.stores.of(F).files] == [1, 0]


def test_a_moved_file_keeps_its_clip(lone: LoneRegion) -> None:
    written(lone, b"1")
    clip(lone, b"040", b"060")
    compacted(lone, Plan(Kind.MAJOR, (1,), "a test", moved=(1,)))
    assert (rows_of(lone), clips(lone)) == (ROWS[40:60], [(b"040", b"060")])
    assert [file.is_base for file in lone.region.compaction_facts()[0].files] == [True]
    lone.crash()
    assert (rows_of(lone), clips(lone)) == (ROWS[40:60], [(b"040", b"060")])


def test_the_facts_of_a_clipped_file_are_estimates_of_what_counts(lone: LoneRegion) -> None:
    written(lone, b"1" * 10_000)
    (whole,) = lone.region.compaction_facts()[0].files
    clip(lone, b"050", b"075")
    (facts,) = lone.region.compaction_facts()[0].files
    assert (whole.is_clipped, facts.is_clipped) == (False, True)
    # A block has some 26 rows, and both blocks that are cut count in full.
    assert 25 <= facts.cell_count <= 60
    assert facts.row_count == facts.cell_count
    assert facts.byte_count == pytest.approx(whole.byte_count * facts.cell_count / 100, rel=0.05)
    assert (facts.first_row, facts.last_row >= b"074", facts.last_row < b"075") == (b"050", True, True)


def test_the_manifest_is_of_version_3_until_no_file_is_clipped(lone: LoneRegion) -> None:
    def version() -> int:
        return read_manifest(lone.parts.shared.files, lone.parts.live_files.folder).manifest.format_version

    written(lone, b"1")
    assert version() == 2
    clip(lone, b"040")
    assert version() == 3
    compacted(lone, due(lone))
    assert version() == 2
