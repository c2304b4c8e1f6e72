"""A clipped store file answers as one that has only the rows in the clip, whatever is in it and whatever is asked."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rowlock_regionserver.cells import PUT, Cell, Compression
from rowlock_regionserver.found_cells import AWAY_BYTES_MIN, NO_LIMIT, LongRowError
from rowlock_regionserver.row_groups import RowGroups
from rowlock_regionserver.sources import Chunk, LinesWanted, Reading, RowPlace
from rowlock_regionserver.storefile import pieces, row_digests
from rowlock_regionserver.storefile.clip import Clip, row_before
from rowlock_regionserver.storefile.clipping import clipped_info
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.reader import Run, StoreFile
from rowlock_regionserver.storefile.verify import verify_store_file
from rowlock_regionserver.storefile.wide_blocks import HeldBlock
from rowlock_regionserver.storefile.writer import write_store_file

from tests.crash.simulated_files import UnsyncedFiles
from tests.drawn_cases import case_count
from tests.property.typed_cells import COLUMNS, cells_in, check_flags, cut_into_pieces, read, typed_cells
from tests.unit.storefile.store_file_case import (
    SMALL_FAMILY,
    Case,
    RowCell,
    cells_of,
    cells_of_line,
    loaded_cells,
    random_cells,
    rows_of,
)

ROWS = [b"", b"a", b"b", b"b\0", b"b\0\0", b"k002", b"k005", b"k005\0", b"k01", b"k019", b"\x80", b"\xff" * 3]
_BOUNDS = st.sampled_from(ROWS)
_CLIPS = st.tuples(_BOUNDS, _BOUNDS).filter(lambda clip: not clip[1] or clip[0] < clip[1])


def some_cells(chance: random.Random, row_count: int) -> list[RowCell]:
    """Returns rows of typed columns, or rows of very different widths, perhaps with a large value."""
    if chance.random() < 0.5:
        return typed_cells(chance, row_count)
    cells = random_cells(chance, 3 * row_count)
    puts = [place for place, (_, cell) in enumerate(cells) if cell[3] == PUT]
    if puts and chance.random() < 0.5:
        place = chance.choice(puts)
        row, cell = cells[place]
        cells[place] = row, (*cell[:4], b"L" * (AWAY_BYTES_MIN + 1))
    return cells


def written(
    folder: Path, chance: random.Random, block_bytes: int, compression: Compression
) -> tuple[Case, list[RowCell], StoreFileInfo]:
    """Writes some cells as a file with small pieces and row groups."""
    case = Case(folder, UnsyncedFiles(), replace(SMALL_FAMILY, block_bytes=block_bytes, compression=compression))
    cells = some_cells(chance, chance.randrange(25))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pieces, "GATHERED_BYTES_MIN", chance.choice([1, 500, 1 << 20]))
        patched.setattr(row_digests, "CANDIDATE_BITS", 1)
        patched.setattr(row_digests, "ROWS_MIN", 2)
        info = write_store_file(case.path, cut_into_pieces(chance, cells), case.family, case.files, number=1)
    return case, cells, info


def within(cells: Sequence[RowCell], start: bytes, stop: bytes) -> list[RowCell]:
    return [cell for cell in cells if start <= cell[0] and (not stop or cell[0] < stop)]


def all_cells(run: Run) -> list[RowCell]:
    """Returns the cells of a run, of which one read may not take all blocks: their lines may not fit together."""
    chunks = [run.read_rows(b"", b"", 1 << 30)]
    while chunks[-1].frontier is not None:
        chunks.append(run.read_rows(chunks[-1].frontier, b"", 1 << 30))
    return loaded(chunks)


def loaded(chunks: Sequence[Chunk]) -> list[RowCell]:
    """Returns the cells of the chunks, with the values that are away."""
    return [cell for chunk in chunks for table in chunk.run().tables(1 << 30) for cell in cells_of(table)]


@given(
    st.randoms(use_true_random=False),
    st.sampled_from([1, 400, 2000, 1 << 20]),
    st.sampled_from(Compression),
    _CLIPS,
    st.sampled_from([1, 300, 2000, 1 << 30]),
    st.sampled_from([0, 5000, 1 << 20]),
    st.lists(st.tuples(_BOUNDS, _BOUNDS), max_size=2),
)
@settings(deadline=None, max_examples=case_count(40, 15), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_answers_as_a_file_with_the_rows_in_the_clip(
    tmp_path: Path,
    chance: random.Random,
    block_bytes: int,
    compression: Compression,
    clip: tuple[bytes, bytes],
    bytes_max: int,
    cache_bytes: int,
    ranges: list[tuple[bytes, bytes]],
) -> None:
    case, cells, info = written(tmp_path, chance, block_bytes, compression)
    clipped = replace(info, clip_start=clip[0], clip_stop=clip[1])
    assert verify_store_file(case.path, clipped, case.files) == []
    file = case.open_file(clipped, cache_bytes)
    own = [within(all_cells(run), *clip) for run in case.open_file(info).runs]
    expected = within(cells, *clip)
    assert sorted(cell for of_run in own for cell in of_run) == expected
    check_bounds(file, expected, clip)
    some_columns = frozenset(chance.sample(COLUMNS, chance.randrange(len(COLUMNS))))
    for run, of_run in zip(file.runs, own, strict=True):
        check_points(run, rows_of(cells), rows_of(of_run), Clip(*clip))
        for bounds in [(b"", b""), clip, *ranges]:
            check_range(run, within(of_run, *bounds), bounds, bytes_max)
            check_lines(run, within(of_run, *bounds), bounds, bytes_max, some_columns)
    case.close()


def check_bounds(file: StoreFile, expected: list[RowCell], clip: tuple[bytes, bytes]) -> None:
    """The first and the last row bound what is there and lie in the clip, and the weights do."""
    assert all(file.first_row <= row <= file.last_row for row, _ in expected)
    if file.first_row <= file.last_row:
        assert file.first_row in Clip(*clip)
        assert file.last_row in Clip(*clip)
    assert file.byte_count <= file.info.file_bytes
    for run in file.runs:
        rows = [row for row, _ in run.row_weights()]
        assert rows == sorted(set(rows))
        assert all(row in Clip(*clip) for row in rows)


def check_points(run: Run, rows: dict[bytes, list[Cell]], there: dict[bytes, list[Cell]], clip: Clip) -> None:
    for row in rows:
        expected = there.get(row, [])
        assert loaded_cells(run.row_cells(row)) == expected
        of_columns = [cell for cell in expected if cell[0] in (b"a", b"q")]
        found = loaded_cells(run.columns_cells(row, [b"a", b"q"]))
        assert [cell for cell in found if cell[0] in (b"a", b"q")] == of_columns
        assert [cell for _, cell in loaded(list(run.row_parts(row, 100)))] == expected
        if expected:
            assert run.rows.may_hold(row)
            source = run.row_source(row)
            assert source is not RowPlace.NOWHERE
            if not isinstance(source, RowPlace):  # Its block has a place in the cache.
                assert loaded_cells(source.row_cells(row)) == expected
                assert loaded_cells(source.columns_cells(row, [b"a", b"q"])) == found
            if isinstance(source, HeldBlock) and (line := source.line(row)) is not None:
                assert cells_of_line(line) == expected
        if row not in clip:
            assert not run.rows.may_hold(row)
            assert run.row_source(row) is RowPlace.NOWHERE
            assert run.row_cell_count(row) == 0
        if len(expected) > 1:
            with pytest.raises(LongRowError):
                run.row_cells(row, len(expected) - 1)


def check_range(run: Run, expected: list[RowCell], bounds: tuple[bytes, bytes], bytes_max: int) -> None:
    """Cells of the range, in both directions, with rows too large to be read whole, in several ways of reading."""
    for reverse in (False, True):
        until = run.empty_until(*bounds, reverse=reverse)
        if until is None:
            assert not expected
        else:
            assert all(row < until if reverse else row >= until for row, _ in expected)
        for reading in (Reading.BULK, Reading.CACHED):
            for row_bytes_max in (1, NO_LIMIT):
                assert read_in_parts(run, bounds, bytes_max, row_bytes_max, reading, reverse=reverse) == expected


def read_in_parts(
    run: Run, bounds: tuple[bytes, bytes], bytes_max: int, row_bytes_max: int, reading: Reading, *, reverse: bool
) -> list[RowCell]:
    """Reads a range chunk by chunk, and wide rows in parts; returns the cells in ascending order."""
    start, stop = bounds
    found: list[RowCell] = []
    while True:
        chunk = run.read_rows(start, stop, bytes_max, row_bytes_max, reverse=reverse, reading=reading)
        check_flags(chunk)
        taken = loaded([chunk])
        if chunk.wide_row is not None:
            assert not taken
            taken = loaded(list(run.row_parts(chunk.wide_row, bytes_max)))
        found = [*taken, *found] if reverse else [*found, *taken]
        if chunk.frontier is None:
            return found
        edge = chunk.frontier
        if chunk.wide_row is not None:
            edge = chunk.wide_row if reverse else chunk.wide_row + b"\0"
        start, stop = (start, edge) if reverse else (edge, stop)


def check_lines(
    run: Run, expected: list[RowCell], bounds: tuple[bytes, bytes], bytes_max: int, some: frozenset[bytes]
) -> None:
    rows = {row for row, _ in expected}
    of_some = [cell for cell in expected if cell[1][0] in some]
    for wanted in (LinesWanted(), LinesWanted(some), LinesWanted(some, compressed=True)):
        for reverse in (False, True):
            chunks = read(run, *bounds, bytes_max, wanted, reverse=reverse)
            if any(chunk.lines is not None for chunk in chunks):
                assert {row for chunk in chunks if chunk.lines for row in chunk.lines.rows.to_pylist()} == rows
                assert cells_in(chunks) == (expected if wanted.columns is None else of_some)
            else:
                assert loaded(chunks) == expected


@given(st.randoms(use_true_random=False), _CLIPS, _CLIPS, st.sampled_from([1, 400, 1 << 20]))
@settings(deadline=None, max_examples=case_count(40, 15), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_entry_for_a_part_of_a_region_has_the_rows_of_both(
    tmp_path: Path, chance: random.Random, first: tuple[bytes, bytes], second: tuple[bytes, bytes], block_bytes: int
) -> None:
    case, cells, info = written(tmp_path, chance, block_bytes, Compression.NONE)
    file, expected = case.open_file(info), cells
    for region in (first, second):
        expected = within(expected, *region)
        found = clipped_info(file, *region)
        if found is None:
            assert not expected
            break
        clip = Clip(found.clip_start, found.clip_stop)
        assert found == replace(file.info, clip_start=clip.start, clip_stop=clip.stop)
        assert clip == (file.info.clip_start, file.info.clip_stop) or Clip(*region).within(*clip) == clip
        file = case.open_file(found)
        assert sorted(cell for run in file.runs for cell in all_cells(run)) == expected
    case.close()


@given(st.randoms(use_true_random=False), st.lists(_CLIPS, min_size=1, max_size=4))
@settings(deadline=None, max_examples=case_count(40, 15), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_row_groups_with_equal_digests_have_the_same_rows_in_any_clips(
    tmp_path: Path, chance: random.Random, clips: list[tuple[bytes, bytes]]
) -> None:
    case, _, info = written(tmp_path, chance, 400, Compression.NONE)
    by_digest: dict[bytes, list[bytes]] = {}
    for clip in [(b"", b""), *clips]:
        file = case.open_file(replace(info, clip_start=clip[0], clip_stop=clip[1]))
        for run in file.runs:
            groups = run.row_groups
            rows = sorted(rows_of(all_cells(run)))
            if not groups or groups.newer is not None:
                continue
            places = groups.of_range(b"", b"")
            of_groups = [rows_between(rows, groups, place) for place in places]
            assert [row for of_group in of_groups for row in of_group] == rows, "each row is in one group"
            for place, of_group in zip(places, of_groups, strict=True):
                assert by_digest.setdefault(groups.digests[place], of_group) == of_group
    case.close()


def rows_between(rows: Sequence[bytes], groups: RowGroups, place: int) -> list[bytes]:
    start, stop = groups.bounds(place)
    return [row for row in rows if start <= row < stop]


@given(st.binary(min_size=1, max_size=4), st.binary(max_size=6))
def test_no_row_is_between_a_row_and_the_greatest_one_before_it(stop: bytes, row: bytes) -> None:
    assert row_before(stop) < stop
    assert not row_before(stop) < row < stop
