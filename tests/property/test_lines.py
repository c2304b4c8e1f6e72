"""Lines hold the same cells as the tables that they are formed of, for random rows."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from rowlock_regionserver.arrow.columns import cells_table
from rowlock_regionserver.arrow.line_forming import lines_of
from rowlock_regionserver.arrow.line_merging import concatenated_lines
from rowlock_regionserver.arrow.line_slices import slices_of
from rowlock_regionserver.arrow.lines import cells_of
from rowlock_regionserver.arrow.lines_by_age import divided_by_age
from rowlock_regionserver.arrow.merge import merged
from rowlock_regionserver.arrow.sorted_run import SortedRun
from rowlock_regionserver.cells import PUT, Cell

from tests.property.visibility_model import table_of
from tests.seeds import drawn_seed

TABLES = 300


def random_cells(generator: random.Random) -> pa.Table:
    """Returns a sorted table of rows that resemble each other, with some that do not."""
    names = [bytes([code]) * generator.randint(0, 3) or b"" for code in b"abcdef"[: generator.randint(1, 6)]]
    lengths = {name: generator.choice([None, 0, 1, 4, 8]) for name in names}
    density = generator.choice([0.1, 0.5, 0.9, 1.0])
    versions = generator.choice([1, 1, 1, 3])
    stamps = generator.choice([1, 1, 4])
    rows: list[list[Cell]] = []
    for _ in range(generator.choice([1, 2, 20, 100])):
        cells: set[Cell] = set()
        for version in range(generator.randint(1, versions)):
            at = generator.randint(1, stamps)
            for name in dict.fromkeys(names):
                if generator.random() < density:
                    own = at if generator.random() < 0.9 else generator.randint(1, stamps)
                    length = lengths[name] if lengths[name] is not None else generator.randint(0, 9)
                    kind = PUT if generator.random() < 0.995 else generator.randint(1, 3)
                    cells.add((name, -own, -(version * 10 + own), kind, generator.randbytes(length or 0)))
        rows.append(sorted(cells, key=lambda cell: cell[:3]) or [(b"", -1, -1, PUT, b"")])
    return table_of(rows)


@pytest.fixture
def generator() -> random.Random:
    return random.Random(drawn_seed())


def test_lines_and_the_cells_left_are_the_same_cells(generator: random.Random) -> None:
    formed_count = 0
    for _ in range(TABLES):
        table = random_cells(generator)
        lines, rest = lines_of(table)
        if lines is None:
            assert rest.equals(table)
            continue
        formed_count += 1
        lines.check()
        parts = list(slices_of(lines, generator.choice([1, 100, 100_000])))
        assert sum(map(len, parts)) == len(lines)
        cells = [cells_of(part) for part in parts]
        assert sum(part.cell_count for part in parts) == sum(part.num_rows for part in cells)
        for part, of_part in zip(parts, cells, strict=True):
            assert of_part.num_rows, "a line without cells"
            assert part.cell_bytes().sum() == sum(
                len(row) + len(qualifier) + len(value) + 29
                for row, qualifier, *_, value in zip(*(column.to_pylist() for column in of_part.columns), strict=True)
            )
        joined = concatenated_lines(parts)
        joined.check()
        assert cells_of(joined).equals(pa.concat_tables(cells).combine_chunks())
        both = [SortedRun.of_table(part) for part in (cells_of(joined), rest) if part.num_rows]
        assert merged(both).table().combine_chunks().equals(table)
    assert formed_count > TABLES // 10


def test_a_column_that_few_rows_have_stays_cells() -> None:
    row = [(name, -1, -1, PUT, b"value") for name in (b"a", b"b")]
    table = table_of([row] * 99 + [[*row, (b"c", -1, -1, PUT, b"rare")]])
    lines, rest = lines_of(table)
    assert lines is not None
    assert lines.qualifiers == (b"a", b"b")
    assert len(lines) == 100
    assert rest.column("qualifier").to_pylist() == [b"c"]


def test_numbers_take_the_smallest_shape() -> None:
    def shapes(*of_cells: tuple[int, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        cells = [(b"ab"[place % 2 :][:1], -at, -number, PUT, b"v") for place, (at, number) in enumerate(of_cells)]
        lines, rest = lines_of(table_of([cells[:2], cells[2:]]))
        assert lines is not None
        assert not rest.num_rows
        return lines.timestamps.shape, lines.write_numbers.shape

    assert shapes((1, 2), (1, 2), (1, 2), (1, 2)) == ((1, 1), (1, 1))
    assert shapes((1, 2), (1, 2), (1, 3), (1, 3)) == ((1, 1), (1, 2))
    assert shapes((1, 2), (5, 2), (1, 3), (1, 3)) == ((2, 2), (1, 2))


def test_columns_that_few_rows_have_stay_cells_however_alike_they_are() -> None:
    """Lines of a thousand columns, of which each row has three, took forty times the memory of their cells."""
    rows = [b"%05d" % number for number in range(500)]
    cells = [
        [(b"c%04d" % (number * 7 % 997 + place), -1, -1, PUT, b"12345678") for place in range(3)]
        for number in range(500)
    ]
    table = cells_table(rows, cells)
    assert lines_of(table) == (None, table)
    common = [[(b"a", -1, -1, PUT, b"1"), (b"b", -1, -1, PUT, b"2"), *some[:1]] for some in cells]
    lines, rest = lines_of(cells_table(rows, common))
    assert lines is not None
    assert lines.qualifiers == (b"a", b"b")
    assert rest.num_rows == 500


def test_lines_divided_by_age_are_the_same_cells_and_the_newest_of_each_column_come_first(
    generator: random.Random,
) -> None:
    older_count = moved_count = 0
    for _ in range(TABLES):
        lines, _ = lines_of(random_cells(generator))
        if lines is None or not lines.has_versions:
            continue
        newest, older = divided_by_age(lines)
        newest.check()
        older.check()
        assert not newest.has_versions
        assert newest.rows.equals(lines.rows.unique())
        of_lines, of_newest, of_older = (
            list(zip(*[column.to_pylist() for column in cells_of(each).columns], strict=True))
            for each in (lines, newest, older)
        )
        first_cells = {cell[:2]: cell for cell in reversed(of_lines)}
        assert of_newest == sorted(first_cells.values(), key=lambda cell: cell[:2])
        assert sorted(of_newest + of_older) == sorted(of_lines)
        older_count += len(older)
        moved_count += newest.is_by_cell and not lines.is_by_cell
    assert older_count > TABLES
    assert moved_count > TABLES // 50
