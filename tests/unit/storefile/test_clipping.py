"""Clipped store files: the entry in the manifest, the bounds and the estimates; tests/property has random ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.row_groups import NO_ROW_GROUPS, RowGroups
from rowlock_regionserver.sources import Reading, RowPlace, WouldWaitError
from rowlock_regionserver.storefile.cache import BlockCache
from rowlock_regionserver.storefile.clip import Clip, row_before
from rowlock_regionserver.storefile.clipped_run import ClippedRun
from rowlock_regionserver.storefile.clipping import clipped_info
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.reader import StoreFile
from rowlock_regionserver.storefile.verify import verify_store_file

from .store_file_case import Case, cells_of, simple_cells


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path, Files())


def clip(info: StoreFileInfo, start: bytes = b"", stop: bytes = b"") -> StoreFileInfo:
    return replace(info, clip_start=start, clip_stop=stop)


def rows_in(file: StoreFile, *, reverse: bool = False) -> list[bytes]:
    [run] = file.runs
    return [row for row, _ in cells_of(run.read_rows(b"", b"", 1 << 30, reverse=reverse).table)]


def test_the_entry_of_a_whole_file_is_as_before(case: Case) -> None:
    info = case.write(simple_cells(10))
    assert not info.is_clipped
    assert not {"clip_start", "clip_stop", "written_number"} & info.to_json().keys()
    [run] = case.open_file(info).runs
    assert not isinstance(run, ClippedRun), "a whole file has no wrapper"


def test_clip_and_written_number_are_in_the_entry_and_not_in_the_summary(case: Case) -> None:
    info = case.write(simple_cells(10))
    changed = replace(info, number=9, written_number=1, clip_start=b"\x00\xff", clip_stop=b"r00005")
    assert StoreFileInfo.from_json(json.loads(json.dumps(changed.to_json()))) == changed
    assert (changed.summary(), changed.header_number, info.header_number) == (info.summary(), 1, 1)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"clip_start": 5}, "clip_start must be text in base64"),
        ({"clip_stop": "a"}, "clip_stop must be text in base64"),
        ({"clip_start": "Yg==", "clip_stop": "YQ=="}, "a clip from b'b' to b'a'"),
        ({"clip_start": "YQ==", "clip_stop": "YQ=="}, "a clip from b'a' to b'a'"),
        ({"written_number": -1}, "written_number must be a whole number"),
    ],
)
def test_an_impossible_clip_is_refused(case: Case, change: Mapping[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        StoreFileInfo.from_json({**case.write(simple_cells(10)).to_json(), **change})


def test_a_linked_file_may_have_another_number_than_its_header(case: Case) -> None:
    info = case.write(simple_cells(10))
    renumbered = replace(info, number=9, written_number=1)
    assert verify_store_file(case.path, renumbered, case.files) == []
    assert rows_in(case.open_file(renumbered)) == rows_in(case.open_file(info))
    with pytest.raises(CorruptionError, match="number"):
        case.open_file(replace(info, number=9))


def test_first_and_last_row_are_those_of_the_index_or_of_the_clip(case: Case) -> None:
    info = case.write(simple_cells(10))  # three or four rows a block
    whole = case.open_file(info)
    assert (whole.first_row, whole.last_row) == (b"r00000", b"r00009")
    file = case.open_file(clip(info, b"r00001", b"r00008\x00"))
    assert (file.first_row, file.last_row) == (b"r00001", b"r00008")
    file = case.open_file(clip(info, b"a", b"s"))
    assert (file.first_row, file.last_row) == (b"r00000", b"r00009")
    file = case.open_file(clip(info, b"", b"r00001"))  # inside the first block
    assert b"r00000" <= file.last_row == row_before(b"r00001") < b"r00001"


@pytest.mark.parametrize("forms_lines", [False, True])
def test_no_read_answers_with_rows_outside_of_the_clip(case: Case, forms_lines: bool) -> None:
    cells = simple_cells(10)
    [run] = case.open_file(clip(case.write(cells, forms_lines=forms_lines), b"r00003", b"r00006")).runs
    inside = cells[3:6]
    for row, cell in cells:
        expected = [cell] if (row, cell) in inside else []
        assert list(run.row_cells(row)) == expected
        assert list(run.columns_cells(row, [cell[0]])) == expected
        assert [found for part in run.row_parts(row, 100) for _, found in cells_of(part.table)] == expected
        assert (run.row_source(row) is RowPlace.NOWHERE) is (not expected)
        assert run.rows.may_hold(row) is bool(expected)
    for reverse in (False, True):
        for start, stop in ((b"", b""), (b"r00001", b"r00009"), (b"r00003", b"r00006")):
            assert cells_of(run.read_rows(start, stop, 1 << 20, reverse=reverse).table) == inside
        assert not run.read_rows(b"r00006", b"", 1 << 20, reverse=reverse).table.num_rows
        assert not run.read_rows(b"", b"r00003", 1 << 20, reverse=reverse).table.num_rows
    assert (run.empty_until(b"", b""), run.empty_until(b"", b"", reverse=True)) == (b"r00003", b"r00006")


def test_a_row_group_that_the_clip_cuts_is_equal_only_to_one_with_the_same_cut() -> None:
    groups = RowGroups([b"a", b"c", b"e"], [b"1", b"2", b"3"], [frozenset()] * 3, b"f")
    cut = Clip(b"b", b"e").of_groups(groups)
    assert (cut.first_rows, len(cut.digests), cut.digests[1]) == ([b"a", b"c"], 2, b"2")
    assert cut.digests[0] not in groups.digests
    assert cut.digests == Clip(b"b", b"e").of_groups(groups).digests
    assert cut.digests[0] not in Clip(b"bb", b"e").of_groups(groups).digests
    assert Clip(b"", b"").of_groups(groups) == groups
    assert Clip(b"g", b"").of_groups(groups) == NO_ROW_GROUPS


def test_a_clip_without_rows_is_an_empty_file(case: Case) -> None:
    file = case.open_file(clip(case.write(simple_cells(10)), b"s", b"t"))
    assert file.first_row > file.last_row
    [run] = file.runs
    assert rows_in(file) == []
    assert run.empty_until(b"", b"") is None


def test_bytes_and_counts_of_a_clipped_file_are_estimated_by_its_blocks(case: Case) -> None:
    info = case.write(simple_cells(1000))
    whole, half = case.open_file(info), case.open_file(clip(info, b"r00500"))
    assert (whole.byte_count, whole.estimated(7)) == (info.file_bytes, 7)
    assert half.byte_count == pytest.approx(info.file_bytes / 2, rel=0.02)
    assert half.estimated(info.cell_count) == pytest.approx(500, rel=0.02)
    assert (half.estimated(1), half.estimated(0)) == (1, 0), "what may be there is not estimated away"


def test_a_base_of_a_clipped_file_is_clipped(case: Case) -> None:
    base = case.open_file(clip(case.write(simple_cells(10)), b"r00005")).as_base()
    assert (base.info.is_base, base.info.clip_start, base.first_row) == (True, b"r00005", b"r00005")
    assert rows_in(base) == [b"r%05d" % number for number in range(5, 10)]


def test_a_read_at_once_of_a_clipped_file_waits_for_no_disk(case: Case) -> None:
    info = clip(case.write(simple_cells(10)), b"r00005")
    [run] = StoreFile.open(case.path, info, BlockCache(1 << 20), case.open_files).runs
    case.open_files.close_idle()
    with pytest.raises(WouldWaitError):
        run.read_rows(b"", b"", 1 << 20, reading=Reading.AT_ONCE)
    assert not run.read_rows(b"", b"r00005", 1 << 20, reading=Reading.AT_ONCE).table.num_rows
    assert run.statistics().block_read_count == 0


# clipped_info


def test_a_file_of_the_region_keeps_its_entry(case: Case) -> None:
    info = case.write(simple_cells(10))
    file = case.open_file(info)
    for start, stop in ((b"", b""), (b"r00000", b""), (b"", b"r00009\x00"), (b"q", b"s")):
        assert clipped_info(file, start, stop) is info


def test_a_file_of_other_regions_has_none(case: Case) -> None:
    file = case.open_file(case.write(simple_cells(10)))
    for start, stop in ((b"", b"r00000"), (b"r00009\x00", b""), (b"a", b"b")):
        assert clipped_info(file, start, stop) is None
    assert clipped_info(case.open_file(case.write([])), b"", b"") is None, "no region needs an empty file"


def test_clips_of_clips_become_smaller(case: Case) -> None:
    info = case.write(simple_cells(10))
    low = clipped_info(case.open_file(info), b"", b"r00006")
    assert low == clip(info, b"", b"r00006")
    file = case.open_file(low)
    assert clipped_info(file, b"r00006", b"") is None
    assert clipped_info(file, b"", b"r00006") is low
    assert clipped_info(file, b"", b"r00007") is low
    assert clipped_info(file, b"r00002", b"") == clip(info, b"r00002", b"r00006")
