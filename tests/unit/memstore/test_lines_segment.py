"""A segment of lines answers as a segment that took the same cells one by one."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterable

import pyarrow as pa
import pytest
from rowlock_regionserver.arrow.columns import cells_table
from rowlock_regionserver.arrow.line_forming import lines_of
from rowlock_regionserver.arrow.lines import Lines, cells_of
from rowlock_regionserver.arrow.merge import row_at
from rowlock_regionserver.cells import Cell, from_then_on
from rowlock_regionserver.found_cells import FoundLine, LongRowError
from rowlock_regionserver.memstore.arrow_segment import ArrowSegment
from rowlock_regionserver.memstore.lines_segment import LinesOfRow, LinesSegment
from rowlock_regionserver.memstore.row_segment import RowSegment
from rowlock_regionserver.memstore.segment_filter import SegmentFilter
from rowlock_regionserver.sources import Chunk, FewWanted, LinesWanted, Reading, RowPlace

from tests.invariants import check
from tests.seeds import drawn_seed


def cells_of_row(generator: random.Random, versions: int) -> list[Cell]:
    cells: list[Cell] = []
    for qualifier in (b"", b"a", b"b", b"c"):
        for version in range(versions):
            if generator.random() < 0.8:
                value = generator.randbytes(4 if qualifier == b"a" else generator.randrange(6))
                cells.append((qualifier, -(100 - version), -(10 - version), 0, value))
    return cells or [(b"a", -100, -10, 0, b"only")]


def formed(rows: dict[bytes, list[Cell]]) -> Lines:
    lines, rest = lines_of(cells_table(list(rows), list(rows.values())))
    assert lines is not None
    assert not rest.num_rows
    return lines


@pytest.fixture(params=[1, 2])
def case(request: pytest.FixtureRequest) -> tuple[LinesSegment, RowSegment, dict[bytes, list[Cell]]]:
    """A segment, one with the same cells, and the cells; rows have one version or two."""
    generator = random.Random(drawn_seed())
    rows = {b"r%02d" % number: cells_of_row(generator, request.param) for number in range(25)}
    twin = RowSegment(3, slice_rows=3)
    for row, cells in rows.items():
        for number in (9, 10):
            of_write = [cell for cell in cells if cell[2] == -number]
            if of_write:
                twin.apply(row, of_write, lambda: from_then_on(0))
    return LinesSegment(formed(rows)), twin, rows


Case = tuple[LinesSegment, RowSegment, dict[bytes, list[Cell]]]


def test_the_source_of_a_row_has_its_cells(case: Case) -> None:
    segment, twin, rows = case
    for row in rows:
        source = segment.row_source(row)
        assert not isinstance(source, RowPlace)
        cells = twin.row_cells(row)
        assert source.row_cells(row, len(cells)) == cells
        assert source.columns_cells(row, [b"", b"b"]) == twin.columns_cells(row, [b"", b"b"])
        with pytest.raises(LongRowError):
            source.row_cells(row, len(cells) - 1)
    # The filter of a segment passes a few of so many rows.
    assert all(segment.row_source(b"r%d" % number) is RowPlace.NOWHERE for number in range(100, 5000))


def whole_lines(*write_numbers: int) -> list[Cell]:
    """Versions of a row, each of which has all columns: one of values of 2 bytes, one of any."""
    return sorted(
        (qualifier, -number, -number, 0, value)
        for number in write_numbers
        for qualifier, value in ((b"a", b"%02d" % number), (b"b", b"v" * number))
    )


def test_only_a_whole_line_is_given_as_one() -> None:
    def line_of(row: bytes, rows: dict[bytes, list[Cell]]) -> FoundLine | None:
        source = LinesSegment(formed(rows)).row_source(row)
        assert isinstance(source, LinesOfRow)
        return source.line(row)

    whole = {b"r%d" % number: whole_lines(number) for number in range(1, 5)}
    for number in range(1, 5):
        values = [b"%02d" % number, b"v" * number]
        assert line_of(b"r%d" % number, whole) == FoundLine((b"a", b"b"), number, number, values)
    assert line_of(b"r3", {b"r3": whole_lines(3, 4)}) is None, "two versions"
    assert line_of(b"r3", whole | {b"r9": whole_lines(1)[:1]}) is None, "another row lacks a column"
    by_cell = [(b"a", -1, -1, 0, b"01"), (b"b", -2, -2, 0, b"v")]
    assert line_of(b"r1", {b"r1": by_cell, b"r2": whole_lines(2)}) is None, "cells of two writes"


def test_rows_and_columns_are_read_one_by_one(case: Case) -> None:
    segment, twin, rows = case
    for row in (*rows, b"r", b"r99", b"r05\x00"):
        assert segment.row_cells(row) == rows.get(row, [])
        for qualifiers in ([b""], [b"a", b"c"], [b"missing"], []):
            assert segment.columns_cells(row, qualifiers) == twin.columns_cells(row, qualifiers)
        assert (segment.row_cell_count(row) > 0) == (row in rows)
    assert segment.row_count == len(rows)
    assert segment.cell_count == sum(map(len, rows.values()))
    assert (segment.write_number_min, segment.write_number_max) == (twin.write_number_min, twin.write_number_max)
    with pytest.raises(LongRowError):
        segment.row_cells(b"r00", len(rows[b"r00"]) - 1)
    check(segment)


def shown(chunk: Chunk) -> list[tuple[object, ...]]:
    table = chunk.table if chunk.lines is None else cells_of(chunk.lines)
    return [tuple(cell.values()) for cell in table.to_pylist()]


@pytest.mark.parametrize("as_lines", [False, True])
def test_chunks_of_random_ranges_have_the_cells_of_the_range(case: Case, as_lines: bool) -> None:
    segment, twin, rows = case
    generator = random.Random(drawn_seed())
    wanted = LinesWanted() if as_lines else None
    for _ in range(1000):
        start, stop = (generator.choice([b"", b"r%02d" % generator.randrange(27), b"r05\x00"]) for _ in range(2))
        bytes_max, row_bytes_max = generator.choice([1, 50, 300, 10_000]), generator.choice([1, 150, 10_000])
        reverse = generator.random() < 0.5
        where = f"[{start!r}, {stop!r}), {bytes_max} bytes, reverse {reverse}"
        chunk = segment.read_rows(start, stop, bytes_max, row_bytes_max, reverse=reverse, lines=wanted)
        assert (chunk.lines is not None) == (as_lines and len(chunk) > 0), where
        if chunk.lines is not None:
            assert not chunk.table.num_rows
            assert chunk.lines.columns[0].buffers()[-1] is not None
        if chunk.frontier is None:
            read = (start, stop)
        else:
            read = (chunk.frontier, stop) if reverse else (start, chunk.frontier)
        expected = [row for row in rows if read[0] <= row and (not read[1] or row < read[1])]
        found = shown(chunk)
        assert list(dict.fromkeys(cell[0] for cell in found)) == expected, where
        if expected:
            assert found == shown(twin.read_rows(expected[0], expected[-1] + b"\x00", 1 << 20)), where
        elif not chunk.wide_row:
            assert segment.empty_until(start, stop, reverse=reverse) is None, where
        if chunk.wide_row is not None:
            cell_bytes = sum(len(cell[0]) + len(cell[4]) + 29 + 3 for cell in rows[chunk.wide_row])
            assert cell_bytes > row_bytes_max, where


def test_lines_are_slices_of_what_the_segment_holds(case: Case) -> None:
    segment, _, rows = case
    chunks = [segment.read_rows(b"", b"", size, lines=LinesWanted(frozenset([b"a"]))) for size in (1, 1 << 20)]
    for chunk in chunks:
        assert chunk.lines is not None
        assert chunk.lines.qualifiers == (b"a",)
        assert chunk.bytes_held == 0
    first, last = (chunk.lines.columns[0].buffers()[1] for chunk in chunks if chunk.lines is not None)
    assert first is not None
    assert last is not None
    assert first.address == last.address
    assert chunks[1].lines is not None
    assert chunks[1].lines.starts_row.sum() == len(rows)  # every line, also those that have no cell then


def test_all_rows_are_read_in_parts_and_weighed(case: Case) -> None:
    segment, _, rows = case
    for row, cells in rows.items():
        parts = list(segment.row_parts(row, 40))
        assert pa.concat_tables([part.table for part in parts]).num_rows == len(cells)
    weights = segment.row_weights(5)
    assert [row for row, _ in weights] == sorted(row for row, _ in weights)
    total = sum(len(row) + len(cell[0]) + len(cell[4]) + 29 for row, cells in rows.items() for cell in cells)
    assert sum(weight for _, weight in weights) == total


def in_batches(rows: Iterable[tuple[bytes, int, bytes]]) -> list[LinesSegment]:
    """Segments of (row, write number, value)."""
    return [
        LinesSegment(formed({row: [(b"a", -5, -number, 0, value), (b"b", -5, -number, 0, b"")]}))
        for row, number, value in rows
    ]


def test_merged_segments_have_all_lines_and_versions() -> None:
    segments = in_batches([(b"k", 3, b"x"), (b"j", 4, b"y"), (b"k", 5, b"zz")])
    merged = LinesSegment.merged(segments)
    assert isinstance(merged, LinesSegment)
    check(merged)
    assert (merged.row_count, merged.cell_count, merged.has_versions) == (2, 6, True)
    assert [cell[2] for cell in merged.row_cells(b"k")] == [-5, -3, -5, -3]
    for row in (b"j", b"k"):
        assert merged.row_cells(row) == sorted(cell for segment in segments for cell in segment.row_cells(row))
    assert row_at(merged.read_rows(b"", b"", 1).table, 0) == b"j"


def test_segments_of_many_versions_or_of_other_columns_become_cells_while_there_are_few() -> None:
    assert isinstance(LinesSegment.merged(in_batches([(b"k", number, b"x") for number in range(1, 65)])), LinesSegment)
    many = in_batches([(b"k", number, b"x") for number in range(1, 66)])
    other = LinesSegment(formed({b"m": [(b"a", -5, -7, 0, b"")]}))
    for segments in (many, [*in_batches([(b"k", 1, b"x")]), other]):
        merged = LinesSegment.merged(segments)
        assert isinstance(merged, ArrowSegment)
        for row in (b"k", b"m"):
            assert merged.row_cells(row) == sorted(cell for segment in segments for cell in segment.row_cells(row))
    large = in_batches([(b"k", number, b"x" * 40_000) for number in range(1, 9)])
    assert LinesSegment.merged(large) is None


def test_a_row_of_many_cells_is_none_of_few() -> None:
    for version_count, is_one in ((20, True), (40, False)):
        cells = [
            (b"%02d" % column, -version, -version, 0, b"v")
            for column in range(30)
            for version in range(version_count, 0, -1)
        ]
        segment = LinesSegment(formed({b"k": cells, b"m": cells}))
        few = segment.few_rows(b"", b"", FewWanted(1, 1 << 20, Reading.AT_ONCE))
        assert (few is not None) == is_one
        if few is not None:
            assert (few.rows, few.frontier, list(few.cells_of(0))) == ([b"k"], b"m", cells)


def test_many_columns_are_counted_beside_their_values() -> None:
    """A segment of few lines and many columns is mostly Python objects."""
    cells = [(b"%04d" % place, -5, -7, 0, b"value") for place in range(900)]
    lines = formed({b"a": cells, b"b": cells})
    tracemalloc.start()
    segment = LinesSegment(lines)
    of_python, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert segment.bytes_held > of_python > 900 * 500


def test_the_filter_of_the_rows_is_counted() -> None:
    rows = {b"%06d" % number: [(b"q", -5, -7, 0, b"")] for number in range(3000)}
    lines = formed(rows)
    in_filter = SegmentFilter(lines.rows).byte_count
    beside = LinesSegment(lines).bytes_held - lines.rows.nbytes - sum(column.nbytes for column in lines.columns)
    # What is left are the bytes before each line, and the columns.
    assert 0 < in_filter < beside < in_filter + 20 * 3000


def test_the_lines_of_a_row_may_be_too_large_together() -> None:
    def segment(row: bytes, number: int, byte_count: int) -> LinesSegment:
        return LinesSegment(formed({row: [(b"a", -5, -number, 0, b"x" * byte_count), (b"b", -5, -number, 0, b"")]}))

    # Row m has 70,000 bytes in two lines, and others are between them.
    segments = [segment(b"m", 1, 35_000), segment(b"a", 2, 1), segment(b"m", 3, 35_000), segment(b"z", 4, 1)]
    assert not isinstance(LinesSegment.merged(segments), LinesSegment)
