from __future__ import annotations

import random

import pyarrow as pa
import pytest
from rowlock_regionserver.arrow.columns import cells_table, empty_cells
from rowlock_regionserver.cells import NEWEST, Cell, from_then_on
from rowlock_regionserver.memstore.arrow_segment import ArrowSegment
from rowlock_regionserver.memstore.row_segment import RowSegment
from rowlock_regionserver.sources import RowPlace

from tests.seeds import drawn_seed
from tests.unit.memstore.invariants import check_batch


def _row(number: int, cell_count: int) -> list[Cell]:
    return [(b"q%02d" % place, -(100 + number), -7, 0, b"v" * (place * number % 5)) for place in range(cell_count)]


ROWS = {b"r%02d" % number: _row(number, 1 + number % 4) for number in range(25)}


@pytest.fixture
def segment() -> ArrowSegment:
    return ArrowSegment(cells_table(list(ROWS), list(ROWS.values())))


def test_a_bulk_batch_is_read_row_by_row(segment: ArrowSegment) -> None:
    for row, cells in ROWS.items():
        assert segment.row_cells(row) == cells
    assert segment.row_cells(b"r") == segment.row_cells(b"r99") == []
    assert (segment.row_count, segment.cell_count) == (25, sum(map(len, ROWS.values())))
    assert (segment.write_number_min, segment.write_number_max) == (7, 7)
    assert all(segment.row_source(row) is segment for row in ROWS)
    absent = [segment.row_source(b"absent%d" % number) for number in range(100)]
    assert absent.count(RowPlace.NOWHERE) > 50
    assert segment.bytes_held >= sum(len(cell[4]) for cells in ROWS.values() for cell in cells)
    check_batch(segment)


def test_an_empty_batch_has_nothing() -> None:
    segment = ArrowSegment(empty_cells())
    assert segment.row_cells(b"r") == []
    for reverse in (False, True):
        chunk = segment.read_rows(b"", b"", 100, reverse=reverse)
        assert (chunk.table.num_rows, chunk.frontier) == (0, None)
    assert (segment.write_number_min, segment.write_number_max, segment.row_count) == (NEWEST, 0, 0)
    check_batch(segment)


def test_a_batch_of_several_chunks_and_a_slice_of_one_read_alike() -> None:
    whole = cells_table(list(ROWS), list(ROWS.values()))
    in_chunks = ArrowSegment(pa.concat_tables([whole.slice(0, 10), whole.slice(10)]))
    behind_offset = ArrowSegment(whole.slice(3))
    for row in list(ROWS)[3:]:
        assert in_chunks.row_cells(row) == behind_offset.row_cells(row) == ROWS[row]


def test_chunks_of_random_ranges_are_those_of_a_segment_that_took_the_same_writes(segment: ArrowSegment) -> None:
    seed = drawn_seed()
    generator = random.Random(seed)
    twin = RowSegment(1, slice_rows=3)
    for row, cells in ROWS.items():
        twin.apply(row, cells, lambda: from_then_on(0))
    for _ in range(1000):
        start, stop = (generator.choice([b"", b"r%02d" % generator.randrange(27), b"r05\x00"]) for _ in range(2))
        bytes_max = generator.choice([1, 50, 100, 300, 10_000])
        reverse = generator.random() < 0.5
        where = f"[{start!r}, {stop!r}), {bytes_max} bytes, reverse {reverse}"
        chunk = segment.read_rows(start, stop, bytes_max, reverse=reverse)
        expected = twin.read_rows(start, stop, bytes_max, reverse=reverse)
        assert chunk.table.equals(expected.table), where
        # Only the segment in one piece knows that nothing is left.
        assert chunk.frontier in (expected.frontier, None), where
        if chunk.frontier != expected.frontier:
            assert expected.frontier is not None
            rest = (start, expected.frontier) if reverse else (expected.frontier, stop)
            assert twin.read_rows(*rest, 10_000).table.num_rows == 0, where


def test_what_is_read_is_not_copied(segment: ArrowSegment) -> None:
    first = segment.read_rows(b"", b"", 1).table.column(5).chunks[0].buffers()[2]
    last = segment.read_rows(b"", b"", 1, reverse=True).table.column(5).chunks[0].buffers()[2]
    assert first is not None
    assert last is not None
    assert first.address == last.address


def test_all_cells_are_read_in_slices_of_whole_rows(segment: ArrowSegment) -> None:
    tables = []
    start: bytes | None = b""
    while start is not None:
        chunk = segment.read_rows(start, b"", 100)
        tables.append(chunk.table)
        start = chunk.frontier
    assert len(tables) > 5
    assert pa.concat_tables(tables).equals(segment.read_rows(b"", b"", 1 << 20).table, check_metadata=True)
    lasts = [table.column(0)[-1].as_py() for table in tables]
    firsts = [table.column(0)[0].as_py() for table in tables]
    assert all(last < first for last, first in zip(lasts, firsts[1:], strict=False))


def test_a_table_of_another_schema_is_refused() -> None:
    with pytest.raises(AssertionError, match="not a table of cells"):
        ArrowSegment(empty_cells().drop_columns(["kind"]))
