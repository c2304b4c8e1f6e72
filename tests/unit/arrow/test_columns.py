from __future__ import annotations

import random
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from rowlock_regionserver.arrow.cell_columns import CellColumns
from rowlock_regionserver.arrow.columns import (
    binary_array,
    cells_table,
    column,
    empty_cells,
    equals_previous,
    integer_array,
    integers,
    keep,
    offsets,
    repeated_binary_array,
    run_starts,
    single_chunk,
    take,
)
from rowlock_regionserver.cells import CELL_SCHEMA, Cell

from tests.seeds import drawn_seed


def _rows(count: int) -> dict[bytes, list[Cell]]:
    """Returns rows of 0 to 40 cells with values of many lengths, including empty ones."""
    return {
        b"row%05d" % number: [
            (b"q%02d" % place, -(1000 + place), -(number + 1), place % 4, b"v" * ((number * place) % 7))
            for place in range(number % 41)
        ]
        for number in range(count)
    }


def _table(rows: dict[bytes, list[Cell]]) -> pa.Table:
    return cells_table(list(rows), list(rows.values()))


def test_a_table_of_cells_is_valid_and_reads_back_as_it_was() -> None:
    rows = _rows(100)
    table = _table(rows)
    table.validate(full=True)
    assert table.schema == CELL_SCHEMA
    expected = [(row, cell[0], -cell[1], -cell[2], cell[3], cell[4]) for row, cells in rows.items() for cell in cells]
    assert list(zip(*(table.column(index).to_pylist() for index in range(6)), strict=True)) == expected


@pytest.mark.parametrize("first", [0, 1, 57])
def test_cells_are_found_by_row_in_a_table_and_in_a_slice_of_it(first: int) -> None:
    rows = _rows(100)
    table = _table(rows)
    columns = CellColumns(table.slice(first))
    assert len(columns) == table.num_rows - first
    for row, cells in rows.items():
        start, stop = columns.row_range(row)
        assert columns.row_cells(row) == columns.cells(start, stop)
        if first == 0:
            assert columns.row_cells(row) == cells
        assert columns.row_cells(row + b"\x00") == []
    assert columns.row_cells(b"") == []
    assert columns.row_cells(b"z") == []
    assert columns.first_at_or_after(b"z") == len(columns)
    assert columns.row(len(columns) - 1) == b"row00099"


def test_a_record_batch_reads_as_its_table_does() -> None:
    table = _table(_rows(30))
    batch = table.to_batches()[0]
    assert CellColumns(batch).row_cells(b"row00017") == CellColumns(table).row_cells(b"row00017") != []


def test_a_row_longer_than_the_first_look_is_found_whole() -> None:
    wide: list[Cell] = [(b"q%05d" % place, -1, -1, 0, b"") for place in range(1000)]
    rows: dict[bytes, list[Cell]] = {b"a": wide[:15], b"b": wide, b"c": wide[:16], b"d": wide[:17]}
    columns = CellColumns(_table(rows))
    assert [len(columns.row_cells(row)) for row in rows] == [15, 1000, 16, 17]


def test_an_empty_table_has_no_cells() -> None:
    for table in (empty_cells(), single_chunk(empty_cells()), _table({b"r": []}), _table(_rows(20)).slice(0, 0)):
        assert table.num_rows == 0
        assert CellColumns(table).row_cells(b"r") == []
        assert equals_previous(column(table, 0)).tolist() == []
        assert offsets(column(table, 0)).shape == (1,)


def test_equals_previous_compares_whole_values_also_behind_an_offset() -> None:
    seed = drawn_seed()
    generator = random.Random(seed)
    values = [bytes(generator.choices(b"ab", k=generator.randrange(3))) for _ in range(1000)]
    array = binary_array(values)
    for first in (0, 1, 13):
        expected = [False] + [values[index] == values[index - 1] for index in range(first + 1, 1000)]
        equal = equals_previous(array.slice(first))
        assert equal.tolist() == expected
        assert run_starts(equal).tolist() == [index for index, same in enumerate(expected) if not same]


def test_values_are_repeated_as_often_as_requested() -> None:
    assert repeated_binary_array([b"aa", b"", b"c"], [2, 3, 0]).to_pylist() == [b"aa", b"aa", b"", b"", b""]


def test_keep_and_take_choose_cells_and_keep_all_copies_nothing() -> None:
    table = _table(_rows(20))
    everything = np.ones(table.num_rows, np.bool_)
    assert keep(table, everything) is table
    everything[1:] = False
    assert keep(table, everything).equals(table.slice(0, 1))
    assert take(table, np.array([3, 0])).column(1).to_pylist() == [
        table.column(1)[3].as_py(),
        table.column(1)[0].as_py(),
    ]


def test_integers_of_a_slice_are_the_slice() -> None:
    array = integer_array([5, 6, 7], pa.int64())
    assert integers(array.slice(1)).tolist() == [6, 7]


def test_several_chunks_become_one_and_one_chunk_stays_uncopied() -> None:
    table = _table(_rows(20))
    assert single_chunk(table) is table
    doubled = single_chunk(pa.concat_tables([table, table]))
    assert doubled.column(0).num_chunks == 1
    assert doubled.num_rows == 2 * table.num_rows
    with pytest.raises(AssertionError, match="single_chunk"):
        column(pa.concat_tables([table, table]), 0)


def test_building_and_reading_columns_does_not_import_pandas() -> None:
    pytest.importorskip("pandas")
    program = """
import sys
import numpy as np
from rowlock_regionserver.arrow import columns
from rowlock_regionserver.arrow.cell_columns import CellColumns
table = columns.cells_table([b"a", b"b"], [[(b"q", -1, -1, 0, b"v")], [(b"q", -1, -1, 0, b"v")]])
columns.keep(table, np.array([True, False]))
columns.take(table, np.array([1]))
columns.equals_previous(columns.column(columns.single_chunk(table), 0))
assert CellColumns(table).row_cells(b"a") and not CellColumns(columns.empty_cells()).row_cells(b"a")
assert "pandas" not in sys.modules, "pandas was imported"
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
