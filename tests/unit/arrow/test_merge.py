"""Merges of sorted runs: order, ties, and what is not copied."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
from rowlock_regionserver.arrow.columns import cells_table, empty_cells
from rowlock_regionserver.arrow.merge import first_at_or_after, in_succession, merged, merged_with_shared
from rowlock_regionserver.arrow.sorted_run import SortedRun
from rowlock_regionserver.cells import CELL_SCHEMA, DELETE_COLUMN, PUT, Cell
from rowlock_regionserver.found_cells import AwayValue

from tests.seeds import generator_of
from tests.unit.scan.buffers import addresses


def table(**cells_by_row: list[Cell]) -> pa.Table:
    return cells_table([row.encode() for row in cells_by_row], list(cells_by_row.values()))


def cell(qualifier: str, timestamp: int, write_number: int, kind: int = PUT) -> Cell:
    return (qualifier.encode(), -timestamp, -write_number, kind, f"{qualifier}{timestamp}{write_number}".encode())


def run(*tables: pa.Table) -> list[SortedRun]:
    return [SortedRun.of_table(each) for each in tables]


def test_one_run_passes_uncopied() -> None:
    (only, nothing) = run(table(a=[cell("q", 1, 1)]), empty_cells())
    assert merged([only]) is only
    assert merged([nothing, only, nothing]) is only


def test_no_cells_merge_to_an_empty_run() -> None:
    assert len(merged([])) == 0
    assert merged(run(empty_cells())).table().schema.equals(CELL_SCHEMA)


def test_runs_in_succession_are_concatenated_uncopied() -> None:
    first, second = table(a=[cell("q", 1, 1)], b=[cell("q", 1, 1)]), table(c=[cell("q", 1, 1)])
    together = merged(run(second, first)).table()
    assert together.column("row").to_pylist() == [b"a", b"b", b"c"]
    before, after = addresses(first), addresses(second)
    assert addresses(together) == {name: before[name] + after[name] for name in before}


def test_runs_that_share_a_row_are_not_in_succession() -> None:
    first, second = run(table(a=[cell("q", 1, 1)], b=[cell("q", 1, 1)]), table(b=[cell("q", 1, 2)]))
    assert in_succession([first, second]) is None
    assert in_succession([first, second.slice(0, 1)]) is None


def test_merged_cells_are_by_row_qualifier_newest_timestamp_then_newest_write() -> None:
    generator = generator_of("merge")
    for _ in range(50):
        cells = {
            (generator.choice("abc"), generator.choice(["", "p", "q"]), generator.randrange(4), number)
            for number in range(1, generator.randrange(2, 30))
        }
        hands: list[dict[str, list[Cell]]] = [{}, {}, {}]
        for row, qualifier, timestamp, number in sorted(cells):
            generator.choice(hands).setdefault(row, []).append(cell(qualifier, timestamp, number))
        tables = [table(**{row: sorted(of_row) for row, of_row in hand.items()}) for hand in hands if hand]
        together = merged(run(*tables)).table()
        keys = [
            (part["row"].decode(), part["qualifier"].decode(), part["timestamp"], part["write_number"])
            for part in together.to_pylist()
        ]
        assert keys == sorted(cells, key=lambda key: (key[0], key[1], -key[2], -key[3])), "seed 20240501"
        values = [f"{qualifier}{timestamp}{number}".encode() for _, qualifier, timestamp, number in keys]
        assert together.column("value").to_pylist() == values


def test_ties_keep_the_order_of_the_runs() -> None:
    first, second = run(table(a=[cell("q", 1, 1)]), table(a=[cell("q", 1, 1, DELETE_COLUMN)]))
    assert merged([first, second]).keys.column("kind").to_pylist() == [PUT, DELETE_COLUMN]
    assert merged([second, first]).keys.column("kind").to_pylist() == [DELETE_COLUMN, PUT]


def test_values_are_not_touched_before_they_are_taken() -> None:
    """Even if their total is larger than one Arrow column can be."""
    whole = table(a=[cell("q", 1, number) for number in range(9, 0, -1)])
    huge = AwayValue(1 << 40, never)
    versions = [SortedRun.of_table(whole.slice(place, 1), [(0, huge)]) for place in range(9)]
    versions[0] = SortedRun.of_table(whole.slice(0, 1))
    together = merged(versions)
    assert together.values.byte_counts().tolist() == [3, *[1 << 40] * 8]
    assert together.filter(np.arange(9) < 1).table().column("value").to_pylist() == [b"q19"]


def never() -> bytes:
    raise AssertionError("a value was read that was not taken")


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


def test_rows_of_several_runs_are_joined_whole() -> None:
    generator = random.Random(7)
    names = [f"{number:03}" for number in range(200)]
    hands: list[dict[str, list[Cell]]] = [{}, {}, {}]
    for name in names:
        cells = [cell(qualifier, 1, 1) for qualifier in "abc"[: generator.randrange(2, 4)]]
        generator.choice(hands)[name] = cells
    together, may_share_rows = merged_with_shared(run(*[table(**hand) for hand in hands]))
    assert not may_share_rows
    expected = {name: cells for hand in hands for name, cells in hand.items()}
    assert together.table().equals(table(**{name: expected[name] for name in names}))


def test_a_row_in_common_is_noticed_and_its_cells_are_sorted() -> None:
    old, new = [cell("p", 1, 1), cell("q", 1, 1)], [cell("o", 3, 3), cell("q", 2, 2), cell("r", 1, 3)]
    both = sorted([*old, *new])
    # The row that both have ends the first run and begins the second, stands in the middle, or is all there is.
    for first, second, expected in (
        (table(a=old, c=old), table(c=new, d=new), table(a=old, c=both, d=new)),
        (table(a=old, c=old, e=old), table(b=new, c=new, d=new), table(a=old, b=new, c=both, d=new, e=old)),
        (table(a=old), table(a=new), table(a=both)),
    ):
        for runs in (run(first, second), run(second, first)):
            together, may_share_rows = merged_with_shared(runs)
            assert may_share_rows
            assert together.table().equals(expected)


def test_some_rows_in_common_are_sorted_among_others() -> None:
    generator = generator_of("some rows in common")
    for _ in range(30):
        hands: list[dict[str, list[Cell]]] = [{}, {}, {}]
        expected: dict[str, list[Cell]] = {}
        for number in range(100):
            name = f"{number:03}"
            for write_number, hand in enumerate(generator.sample(hands, generator.choice([1, 1, 1, 2, 3])), 1):
                qualifiers = sorted(generator.sample(["", "a", "ab", "b", "z"], generator.randrange(2, 5)))
                hand[name] = [cell(qualifier, generator.randrange(3), write_number) for qualifier in qualifiers]
                expected[name] = sorted([*expected.get(name, []), *hand[name]])
        together = merged(run(*[table(**hand) for hand in hands]))
        assert together.table().equals(table(**expected))


def test_rows_of_single_cells_are_left_to_the_sort() -> None:
    both = run(table(a=[cell("q", 1, 1)], c=[cell("q", 1, 1)]), table(b=[cell("q", 1, 1)]))
    together, may_share_rows = merged_with_shared(both)
    assert may_share_rows  # It has not been found out.
    assert together.keys.column("row").to_pylist() == [b"a", b"b", b"c"]
