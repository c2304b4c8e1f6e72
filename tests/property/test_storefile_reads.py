"""A store file gives the same answers as the list of its cells, for any cells and blocks."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rowlock_regionserver.cells import Compression
from rowlock_regionserver.sources import RowPlace

from tests.crash.simulated_files import UnsyncedFiles
from tests.drawn_cases import case_count
from tests.seeds import drawn_seed
from tests.unit.storefile.store_file_case import SMALL_FAMILY, Case, cells_of, chunks_of, random_cells, rows_of

_BOUNDS = st.sampled_from([b"", b"a", b"b", b"b\0", b"b\0\0", b"c", b"\x80", b"\xff" * 41])


@given(
    st.randoms(use_true_random=False),
    st.integers(0, 80),
    st.sampled_from([1, 150, 400, 3000]),
    st.sampled_from([1, 4, 1000]),
    st.sampled_from(Compression),
    st.sampled_from([1, 300, 2000, 1 << 30]),
    st.lists(st.tuples(_BOUNDS, _BOUNDS), max_size=3),
)
@settings(deadline=None, max_examples=case_count(60, 20), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_gets_and_scans_answer_as_the_cells_that_were_written(
    tmp_path: Path,
    chance: random.Random,
    cell_count: int,
    block_bytes: int,
    table_cells: int,
    compression: Compression,
    bytes_max: int,
    ranges: list[tuple[bytes, bytes]],
) -> None:
    cells = random_cells(chance, cell_count)
    case = Case(tmp_path, UnsyncedFiles(), replace(SMALL_FAMILY, block_bytes=block_bytes))
    store_file = case.open(case.write(cells, table_cells=table_cells, compression=compression))
    for row, row_cells in rows_of(cells).items():
        assert list(store_file.row_cells(row)) == row_cells
        assert store_file.row_source(row) is not RowPlace.DISK
        for absent in (row + b"\0", row[:-1]):
            if absent and absent not in rows_of(cells):
                assert list(store_file.row_cells(absent)) == []
    for start, stop in [(b"", b""), *ranges]:
        expected = [cell for cell in cells if start <= cell[0] and (not stop or cell[0] < stop)]
        for reverse in (False, True):
            chunks = chunks_of(store_file, start, stop, bytes_max, reverse=reverse)
            ordered = chunks[::-1] if reverse else chunks
            assert [cell for chunk in ordered for cell in cells_of(chunk.table)] == expected
            rows = [row for chunk in ordered for row in rows_of(cells_of(chunk.table))]
            assert rows == sorted(set(rows)), "a row was divided"
    case.close()


@pytest.mark.parametrize("reverse", [False, True])
def test_a_window_of_one_byte_gives_one_row_at_a_time(tmp_path: Path, reverse: bool) -> None:
    seed = drawn_seed()
    cells = random_cells(random.Random(seed), 150)
    # One block, because a row that spans blocks returns the other rows of its last block too.
    store_file = Case(tmp_path, UnsyncedFiles(), replace(SMALL_FAMILY, block_bytes=1 << 20)).written(cells)
    chunks = chunks_of(store_file, b"", b"", 1, reverse=reverse)
    assert len(chunks) == len(rows_of(cells))
