"""Merging the lines of several chunks: what passes as it is, what becomes one line, and what is left to cells."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from rowlock_regionserver.arrow.columns import cells_table, empty_cells
from rowlock_regionserver.arrow.line_merging import LinesInOrder
from rowlock_regionserver.arrow.lines import cells_of
from rowlock_regionserver.cells import DELETE_COLUMN, PUT, Cell
from rowlock_regionserver.scan.window_lines import WindowLines, window_lines
from rowlock_regionserver.sources import Chunk

from tests.property.list_source import lines_from

COLUMNS = frozenset({b"p", b"q"})
Row = tuple[bytes, Sequence[Cell]]


def put(column: bytes, value: bytes, number: int = 1, *, timestamp: int = 5) -> Cell:
    return column, -timestamp, -number, PUT, value


def chunk_of_lines(*rows: Row, is_narrow: bool = False) -> Chunk:
    lines = lines_from([row for row, _ in rows], [cells for _, cells in rows])
    if is_narrow:
        lines = lines.select(COLUMNS)
    return Chunk(empty_cells(), None, False, lines.has_versions, 1, 5, lines=lines, is_narrow=is_narrow)


def chunk_of_cells(*rows: Row) -> Chunk:
    cells = [cell for _, cells in rows for cell in cells]
    table = cells_table([row for row, _ in rows], [cells for _, cells in rows])
    has_tombstones = any(cell[3] != PUT for cell in cells)
    return Chunk(table, None, has_tombstones, True, max(-cell[2] for cell in cells), 5)


def merged(*chunks: Chunk) -> WindowLines:
    return window_lines(chunks, lambda chunk: not chunk.has_tombstones and chunk.write_number_max < 10, COLUMNS)


def contents(merged: LinesInOrder | None) -> dict[bytes, dict[bytes, bytes]]:
    assert merged is not None
    lines = merged.lines()
    table = cells_of(lines)
    assert merged.cells().equals(table)
    found: dict[bytes, dict[bytes, bytes]] = {row: {} for row in lines.rows.to_pylist() if row is not None}
    assert len(found) == len(lines), "a row has two lines"
    assert list(found) == sorted(found)
    for row, qualifier, value in zip(*(table.column(place).to_pylist() for place in (0, 1, 5)), strict=True):
        found[row][qualifier] = value
    return found


def test_rows_of_different_chunks_are_put_in_order() -> None:
    a, b, c = ((row, [put(b"p", row)]) for row in (b"a", b"b", b"c"))
    result = merged(chunk_of_lines(a, c), chunk_of_lines(b))
    assert contents(result.lines) == {b"a": {b"p": b"a"}, b"b": {b"p": b"b"}, b"c": {b"p": b"c"}}
    assert not result.runs
    # Chunks that follow one another are not compared row by row.
    assert contents(merged(chunk_of_lines(b, c), chunk_of_lines(a)).lines) == contents(result.lines)


def test_chunks_that_follow_one_another_are_joined_in_either_direction() -> None:
    rows = [b"a", b"b", b"c", b"d"]
    older = [chunk_of_lines((row, [put(b"p", b"old"), put(b"q", row)])) for row in rows]
    newer = [chunk_of_lines(*[(row, [put(b"p", b"new " + row, 2)]) for row in part]) for part in (rows[:3], rows[3:])]
    expected = {row: {b"p": b"new " + row, b"q": row} for row in rows}
    for chunks in (
        [*older, *newer],
        [*older[::-1], *newer[::-1]],
        [*newer, *older[::-1]],
        [*older[:2], *newer, *older[2:]],
    ):
        assert contents(merged(*chunks).lines) == expected
    # Of some rows there is one line only.
    assert contents(merged(*older, newer[1]).lines) == {
        row: {b"p": b"new d" if row == b"d" else b"old", b"q": row} for row in rows
    }


def test_of_several_lines_each_column_has_its_newest_value() -> None:
    old = chunk_of_lines((b"a", [put(b"p", b"old p"), put(b"q", b"old q")]), (b"b", [put(b"p", b"b")]))
    new = chunk_of_lines((b"a", [put(b"p", b"", 2)]))
    assert contents(merged(old, new).lines) == {b"a": {b"p": b"", b"q": b"old q"}, b"b": {b"p": b"b"}}
    # The timestamp decides before the write number, and for each column.
    newer = chunk_of_lines((b"a", [put(b"p", b"p at 9", 1, timestamp=9), put(b"q", b"q at 1", 3, timestamp=1)]))
    assert contents(merged(old, new, newer).lines)[b"a"] == {b"p": b"p at 9", b"q": b"old q"}


@pytest.mark.parametrize("chunk_count", [3, 9, 40])
def test_many_chunks_of_some_rows_each_become_one_line_a_row(chunk_count: int) -> None:
    chance = random.Random(chunk_count)
    newest: dict[bytes, dict[bytes, Cell]] = {}
    chunks = []
    for number in range(1, chunk_count + 1):
        rows = {
            b"%02d" % row: [
                put(column, b"%d" % number, chance.randrange(1, 10), timestamp=chance.randrange(100 * number))
                for column in sorted(chance.sample([b"p", b"q"], chance.randrange(1, 3)))
            ]
            for row in sorted(chance.sample(range(60), chance.randrange(1, 20)))
        }
        chunks.append(chunk_of_lines(*rows.items()))
        for row, cells in rows.items():
            for cell in cells:
                of_row = newest.setdefault(row, {})
                # A cell's second and third number are negative, so the newest is the least.
                of_row[cell[0]] = min(of_row.get(cell[0], cell), cell, key=lambda each: each[1:3])
    expected = {row: {column: cell[4] for column, cell in of_row.items()} for row, of_row in newest.items()}
    found = contents(merged(*chunks).lines)
    assert found == {row: expected[row] for row in sorted(expected)}


def test_versions_of_one_chunk_become_one_line() -> None:
    versions = [put(b"p", b"3", 3, timestamp=7), put(b"p", b"1"), put(b"q", b"1")]
    assert contents(merged(chunk_of_lines((b"a", versions))).lines) == {b"a": {b"p": b"3", b"q": b"1"}}


def test_cells_that_are_all_seen_become_lines() -> None:
    result = merged(
        chunk_of_lines((b"a", [put(b"p", b"p"), put(b"q", b"q")])), chunk_of_cells((b"a", [put(b"q", b"new", 2)]))
    )
    assert contents(result.lines) == {b"a": {b"p": b"p", b"q": b"new"}}
    assert not result.runs


def test_rows_with_cells_that_may_be_hidden_are_left_to_cells() -> None:
    rows = [(row, [put(b"p", row), put(b"r", row)]) for row in (b"a", b"b")]
    tombstone = (b"r", -5, -2, DELETE_COLUMN, b"")
    for hidden in (tombstone, put(b"r", b"unseen", 10)):
        result = merged(chunk_of_lines(*rows), chunk_of_cells((b"b", [hidden])))
        assert contents(result.lines) == {b"a": {b"p": b"a"}}
        assert result.present is None
        # With all their columns, also those that are not needed: one of them may be all that is left of the row.
        assert sorted(run.keys.column(1).to_pylist() for run in result.runs) == [[b"p", b"r"], [b"r"]]


def test_narrow_lines_say_that_their_rows_are_there() -> None:
    rows = [(row, [put(b"r", row)]) for row in (b"a", b"b")]
    result = merged(chunk_of_lines(*rows, is_narrow=True), chunk_of_cells((b"b", [put(b"r", b"unseen", 10)])))
    assert contents(result.lines) == {b"a": {}}
    assert result.present is not None
    assert result.present.to_pylist() == [b"b"]
