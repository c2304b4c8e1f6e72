"""Sorted tables made one: order, ties, and what passes uncopied."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from rowlock_regionserver.cells import CELL_SCHEMA, DELETE_COLUMN, PUT, Cell
from rowlock_regionserver.errors import LimitExceededError
from rowlock_regionserver.scan import merge
from rowlock_regionserver.scan.columns import cells_table, empty_cells
from rowlock_regionserver.scan.merge import first_at_or_after, in_succession, joined_rows, merged

from tests.unit.scan.buffers import addresses


def table(**cells_by_row: list[Cell]) -> pa.Table:
    return cells_table([row.encode() for row in cells_by_row], list(cells_by_row.values()))


def cell(qualifier: str, timestamp: int, write_number: int, kind: int = PUT) -> Cell:
    return (qualifier.encode(), -timestamp, -write_number, kind, f"{qualifier}{timestamp}{write_number}".encode())


def test_one_table_passes_uncopied() -> None:
    only = table(a=[cell("q", 1, 1)])
    assert merged([only]) is only
    assert merged([empty_cells(), only, empty_cells()]) is only


def test_no_cells_merge_to_an_empty_table() -> None:
    assert merged([]).num_rows == 0
    assert merged([empty_cells()]).schema.equals(CELL_SCHEMA)


def test_tables_in_succession_are_put_together_uncopied() -> None:
    first, second = table(a=[cell("q", 1, 1)], b=[cell("q", 1, 1)]), table(c=[cell("q", 1, 1)])
    together = merged([second, first])
    assert together.column("row").to_pylist() == [b"a", b"b", b"c"]
    before, after = addresses(first), addresses(second)
    assert addresses(together) == {name: before[name] + after[name] for name in before}


def test_tables_that_share_a_row_are_not_in_succession() -> None:
    first, second = table(a=[cell("q", 1, 1)], b=[cell("q", 1, 1)]), table(b=[cell("q", 1, 2)])
    assert in_succession([first, second]) is None
    assert in_succession([first, second.slice(0, 1)]) is None


def test_merged_cells_are_by_row_qualifier_newest_timestamp_then_newest_write() -> None:
    generator = random.Random(20240501)
    for _ in range(50):
        cells = {
            (generator.choice("abc"), generator.choice(["", "p", "q"]), generator.randrange(4), number)
            for number in range(1, generator.randrange(2, 30))
        }
        hands: list[dict[str, list[Cell]]] = [{}, {}, {}]
        for row, qualifier, timestamp, number in sorted(cells):
            generator.choice(hands).setdefault(row, []).append(cell(qualifier, timestamp, number))
        tables = [table(**{row: sorted(of_row) for row, of_row in hand.items()}) for hand in hands if hand]
        together = merged(tables)
        keys = [
            (part["row"].decode(), part["qualifier"].decode(), part["timestamp"], part["write_number"])
            for part in together.to_pylist()
        ]
        assert keys == sorted(cells, key=lambda key: (key[0], key[1], -key[2], -key[3])), "seed 20240501"
        values = [f"{qualifier}{timestamp}{number}".encode() for _, qualifier, timestamp, number in keys]
        assert together.column("value").to_pylist() == values


def test_ties_keep_the_order_of_the_tables() -> None:
    first, second = table(a=[cell("q", 1, 1)]), table(a=[cell("q", 1, 1, DELETE_COLUMN)])
    assert merged([first, second]).column("kind").to_pylist() == [PUT, DELETE_COLUMN]
    assert merged([second, first]).column("kind").to_pylist() == [DELETE_COLUMN, PUT]


def test_more_bytes_than_a_column_can_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "BINARY_COLUMN_BYTES_MAX", 10)
    with pytest.raises(LimitExceededError) as raised:
        merged([table(a=[cell("q", 1, 1)]), table(a=[cell("q", 1, 2)])])
    assert raised.value.row == b"a"


def test_first_at_or_after_finds_the_cut() -> None:
    cut = table(b=[cell("p", 1, 1), cell("q", 1, 1)], d=[cell("q", 1, 1)])
    places = [first_at_or_after(cut, row) for row in (b"", b"a", b"b", b"b\x00", b"d", b"e")]
    assert places == [0, 0, 0, 2, 2, 3]


def test_first_at_or_after_finds_the_cut_in_slices_of_several_chunks() -> None:
    rows = [b"%02d" % number for number in range(0, 40, 2)]
    whole = table(**{row.decode(): [cell("q", 1, 1)] * 2 for row in rows})
    chunked = pa.concat_tables([whole.slice(0, 7), whole.slice(7, 0), whole.slice(7, 1), whole.slice(8)])
    for cut in (whole, chunked, chunked.slice(5), chunked.slice(5, 20), chunked.slice(3, 0)):
        held = cut.column("row").to_pylist()
        for row in (b"", *(b"%02d" % number for number in range(41)), b"x"):
            expected = sum(other is not None and other < row for other in held)
            assert first_at_or_after(cut, row) == expected, (row, held)


def test_rows_of_several_tables_are_joined_whole() -> None:
    generator = random.Random(7)
    names = [f"{number:03}" for number in range(200)]
    hands: list[dict[str, list[Cell]]] = [{}, {}, {}]
    for name in names:
        cells = [cell(qualifier, 1, 1) for qualifier in "abc"[: generator.randrange(2, 4)]]
        generator.choice(hands)[name] = cells
    together = joined_rows([table(**hand) for hand in hands])
    assert together is not None
    expected = {name: cells for hand in hands for name, cells in hand.items()}
    assert together.equals(table(**{name: expected[name] for name in names}))


def test_tables_with_a_row_in_common_are_not_joined() -> None:
    two = [cell("p", 1, 1), cell("q", 1, 1)]
    # The row that both have ends the first table and begins the second, stands in the middle, or is all there is.
    assert joined_rows([table(a=two, c=two), table(c=two, d=two)]) is None
    assert joined_rows([table(a=two, c=two, e=two), table(b=two, c=two, d=two)]) is None
    assert joined_rows([table(a=two), table(a=two)]) is None


def test_rows_of_single_cells_are_left_to_the_sort() -> None:
    first, second = table(a=[cell("q", 1, 1)], c=[cell("q", 1, 1)]), table(b=[cell("q", 1, 1)])
    assert joined_rows([first, second]) is None
    assert merged([first, second]).column("row").to_pylist() == [b"a", b"b", b"c"]
