"""A store file with lines answers as the list of its cells, whatever it was written of, and whatever is asked of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rowlock_regionserver.cells import Compression, Kind
from rowlock_regionserver.found_cells import LongRowError
from rowlock_regionserver.sources import LinesWanted, RowPlace
from rowlock_regionserver.storefile import pieces
from rowlock_regionserver.storefile.reader import StoreFile
from rowlock_regionserver.storefile.salvage import salvage
from rowlock_regionserver.storefile.verify import verify_store_file
from rowlock_regionserver.storefile.wide_blocks import HeldBlock
from rowlock_regionserver.storefile.wide_run import WideRun
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
    rows_of,
)

_BOUNDS = st.sampled_from([b"", b"k002", b"k005", b"k005\0", b"k01", b"k019", b"\xff"])


def check_points(store_file: StoreFile, cells: list[RowCell]) -> None:
    for row, row_cells in rows_of(cells).items():
        assert sorted(cell for run in store_file.runs for cell in loaded_cells(run.row_cells(row))) == row_cells
        for some in ([b"a"], [b"", b"b\0"], [b"absent", b"z"], []):
            found = [cell for run in store_file.runs for cell in loaded_cells(run.columns_cells(row, some))]
            assert sorted(found) == [cell for cell in row_cells if cell[0] in some or cell[3] == Kind.DELETE_FAMILY]
        for run in store_file.runs:
            count = len(run.row_cells(row))
            if count > 1:
                with pytest.raises(LongRowError):
                    run.row_cells(row, count - 1)
            source = run.row_source(row)
            if isinstance(source, RowPlace):
                assert source is RowPlace.NOWHERE
                assert not count
            else:
                assert loaded_cells(source.row_cells(row)) == loaded_cells(run.row_cells(row))
                some_cells = loaded_cells(source.columns_cells(row, [b"a"]))
                assert some_cells == loaded_cells(run.columns_cells(row, [b"a"]))
            if isinstance(source, HeldBlock) and (line := source.line(row)) is not None:
                assert cells_of_line(line) == loaded_cells(run.row_cells(row))
            parts = [cell for part in run.row_parts(row, 100, b"a", b"z") for _, cell in cells_of(part.table)]
            assert parts == [cell for cell in run.row_cells(row) if b"a" <= cell[0] < b"z"]
            assert not run.row_cells(row + b"\0")


def check_older(wide_cells: Sequence[RowCell], older_cells: Sequence[RowCell]) -> None:
    """Asserts that each older cell has a newer one of its row and column in a wide block."""
    newest: dict[tuple[bytes, bytes], tuple[int, int]] = {}
    for row, (qualifier, timestamp, write_number, *_) in wide_cells:
        newest.setdefault((row, qualifier), (timestamp, write_number))
    for row, (qualifier, timestamp, write_number, *_) in older_cells:
        assert newest[row, qualifier] < (timestamp, write_number), f"{qualifier!r} of {row!r}"


@given(
    st.randoms(use_true_random=False),
    st.integers(0, 25),
    st.sampled_from([1, 400, 2000, 1 << 20]),
    st.sampled_from([1, 500, 1 << 20]),
    st.sampled_from(Compression),
    st.sampled_from([1, 300, 2000, 1 << 30]),
    st.sampled_from([0, 5000, 1 << 20]),
    st.lists(st.tuples(_BOUNDS, _BOUNDS), max_size=2),
)
@settings(deadline=None, max_examples=case_count(40, 15), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_lines_and_cells_of_a_file_answer_as_what_was_written(
    tmp_path: Path,
    chance: random.Random,
    row_count: int,
    block_bytes: int,
    gathered_bytes: int,
    compression: Compression,
    bytes_max: int,
    cache_bytes: int,
    ranges: list[tuple[bytes, bytes]],
) -> None:
    cells = typed_cells(chance, row_count)
    case = Case(tmp_path, UnsyncedFiles(), replace(SMALL_FAMILY, block_bytes=block_bytes, compression=compression))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pieces, "GATHERED_BYTES_MIN", gathered_bytes)
        info = write_store_file(case.path, cut_into_pieces(chance, cells), case.family, case.files, number=1)
    assert verify_store_file(case.path, info, case.files) == []
    assert (info.cell_count, info.row_count) == (len(cells), len(rows_of(cells)))
    saved = [cell for found in salvage(case.path, case.files) for cell in cells_of(table(found))]
    assert sorted(saved) == cells
    store_file = case.open_file(info, cache_bytes)
    if cache_bytes == 1 << 20:
        check_points(store_file, cells)
    own = [cells_in(read(run, b"", b"", 1 << 30, None, reverse=False)) for run in store_file.runs]
    assert sorted(cell for of_run in own for cell in of_run) == cells
    if info.older_block_count:
        check_older(own[0], own[1])
    some_columns = frozenset(chance.sample(COLUMNS, chance.randrange(len(COLUMNS))))
    for start, stop in [(b"", b""), *ranges]:
        for run, of_run in zip(store_file.runs, own, strict=True):
            expected = [cell for cell in of_run if start <= cell[0] and (not stop or cell[0] < stop)]
            for wanted in (
                None,
                LinesWanted(),
                LinesWanted(some_columns),
                LinesWanted(some_columns, marks_others=True),
                LinesWanted(some_columns, compressed=True),
                LinesWanted(some_columns, compressed=True, without_rows=True),
            ):
                for reverse in (False, True):
                    chunks = read(run, start, stop, bytes_max, wanted, reverse=reverse)
                    found = cells_in(chunks)
                    for chunk in chunks:
                        check_flags(chunk)
                    if wanted is None or wanted.columns is None or not isinstance(run, WideRun):
                        assert found == expected
                    elif wanted.marks_others:
                        marked = [cell if cell[1][0] in some_columns else _without_value(cell) for cell in expected]
                        assert found == marked
                    else:
                        assert found == [cell for cell in expected if cell[1][0] in some_columns]
                        rows = [row for chunk in chunks if chunk.lines for row in chunk.lines.rows.to_pylist()]
                        assert set(rows) == {row for row, _ in expected}, "a line without cells is missing"


def _without_value(cell: RowCell) -> RowCell:
    row, (qualifier, timestamp, write_number, kind, _) = cell
    return row, (qualifier, timestamp, write_number, kind, b"")


def table(found: object) -> pa.Table:
    assert isinstance(found, pa.Table), f"{found}"
    return found
