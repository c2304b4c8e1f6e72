"""An adopted store file answers as one that was written with the numbers of its commit, whatever is asked of it."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rowlock_regionserver.cells import Compression
from rowlock_regionserver.row_groups import RowGroups
from rowlock_regionserver.storefile import pieces, row_digests
from rowlock_regionserver.storefile.clip import Clip
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.reader import Run, StoreFile
from rowlock_regionserver.storefile.verify import verify_store_file
from rowlock_regionserver.storefile.writer import write_store_file

from tests.crash.simulated_files import UnsyncedFiles
from tests.drawn_cases import case_count
from tests.property.test_clipped_files import all_cells, check_lines, check_points, check_range, some_cells, within
from tests.property.typed_cells import COLUMNS, cut_into_pieces
from tests.unit.storefile.store_file_case import SMALL_FAMILY, Case, RowCell, rows_of

BASE = 1000
STAMP = 7_000_000


def stamped(cells: list[RowCell], timestamp: int) -> list[RowCell]:
    """Returns the cells with one timestamp, of each column only the newest."""
    first: dict[tuple[bytes, bytes, int, int], RowCell] = {}
    for row, (qualifier, _, number, kind, value) in cells:
        first.setdefault((row, qualifier, number, 0), (row, (qualifier, -timestamp, number, kind, value)))
    return sorted(first.values(), key=lambda cell: (cell[0], cell[1][:3]))


def numbered(cells: list[RowCell], base: int) -> list[RowCell]:
    return [(row, (cell[0], cell[1], cell[2] - base, cell[3], cell[4])) for row, cell in cells]


def write(case: Case, chance: random.Random, cells: list[RowCell]) -> StoreFileInfo:
    gathered = chance.choice([1, 500, 1 << 20])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pieces, "GATHERED_BYTES_MIN", gathered)
        patched.setattr(row_digests, "CANDIDATE_BITS", 1)
        patched.setattr(row_digests, "ROWS_MIN", 2)
        return write_store_file(case.path, cut_into_pieces(chance, cells), case.family, case.files, number=1)


def bounds_of(file: StoreFile) -> list[tuple[int, int, int | None, bool, int]]:
    return [
        (run.write_number_min, run.write_number_max, run.line_timestamp_min, run.has_tombstones, newest_of(run))
        for run in file.runs
    ]


def newest_of(run: Run) -> int:
    groups: RowGroups = run.row_groups
    return groups.timestamp_max if len(groups) else 0


@given(
    st.randoms(use_true_random=False),
    st.sampled_from([1, 400, 2000, 1 << 20]),
    st.sampled_from(Compression),
    st.sampled_from([1, 300, 2000, 1 << 30]),
    st.sampled_from([0, 5000, 1 << 20]),
    st.booleans(),
    st.booleans(),
)
@settings(deadline=None, max_examples=case_count(40, 15), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_answers_as_a_file_that_was_written_after_the_commit(
    tmp_path: Path,
    chance: random.Random,
    block_bytes: int,
    compression: Compression,
    bytes_max: int,
    cache_bytes: int,
    is_stamped: bool,
    is_clipped: bool,
) -> None:
    staged = some_cells(chance, chance.randrange(1, 25)) or [(b"r", (b"q", -1, -1, 0, b"v"))]
    committed = numbered(staged, BASE)
    if is_stamped:
        staged, committed = stamped(staged, 0), stamped(committed, STAMP)
    family = replace(SMALL_FAMILY, block_bytes=block_bytes, compression=compression)
    case = Case(tmp_path, UnsyncedFiles(), family)
    clip = (b"b", b"k005") if is_clipped else (b"", b"")
    seed = chance.random()
    info = write(case, random.Random(seed), committed)
    plain = case.open_file(info)
    own = [all_cells(run) for run in plain.runs]
    bounds = bounds_of(plain)
    expected_info = (info.write_number_min, info.write_number_max, info.timestamp_min, info.timestamp_max)
    case.path.unlink()

    written = write(case, random.Random(seed), staged)
    adopted = written.adopted(BASE, STAMP if is_stamped else 0, 17)
    assert adopted.as_written() == written
    assert StoreFileInfo.from_json(adopted.to_json()) == adopted
    assert adopted.summary() == written.summary()
    found_info = (adopted.write_number_min, adopted.write_number_max, adopted.timestamp_min, adopted.timestamp_max)
    assert found_info == expected_info
    assert verify_store_file(case.path, adopted, case.files) == []
    file = case.open_file(replace(adopted, clip_start=clip[0], clip_stop=clip[1]), cache_bytes)
    if not is_clipped:
        assert bounds_of(file) == bounds
    some_columns = frozenset(chance.sample(COLUMNS, chance.randrange(len(COLUMNS))))
    for run, of_run in zip(file.runs, own, strict=True):
        in_clip = within(of_run, *clip)
        check_points(run, rows_of(committed), rows_of(in_clip), Clip(*clip))
        check_range(run, in_clip, clip, bytes_max)
        check_lines(run, in_clip, clip, bytes_max, some_columns)
    case.close()
