"""Blocks are cut near their size, never inside a cell, and at the end of a row if possible."""

from __future__ import annotations

import random
from itertools import pairwise

import pyarrow as pa
import pytest
from rowlock_regionserver.cells import PUT
from rowlock_regionserver.storefile.cell_properties import CellProperties
from rowlock_regionserver.storefile.cutter import Cutter, cell_ends

from tests.unit.storefile.store_file_case import RowCell, cells_of, random_cells, simple_cells, table_of


def cut(cells: list[RowCell], block_bytes: int, table_cells: int) -> list[list[RowCell]]:
    cutter, properties = Cutter(block_bytes), CellProperties(hash_rows=False)
    blocks: list[pa.RecordBatch] = []
    for start in range(0, len(cells), table_cells):
        (batch,) = table_of(cells[start : start + table_cells]).to_batches()
        blocks += cutter.add(batch, properties.add(batch))
    blocks += cutter.finish()
    return [cells_of(pa.Table.from_batches([block])) for block in blocks]


def size(cells: list[RowCell]) -> int:
    return sum(len(row) + len(qualifier) + len(value) + 29 for row, (qualifier, _, _, _, value) in cells)


def test_cell_ends_count_bytes_also_of_a_slice() -> None:
    cells = random_cells(random.Random(1), 40)
    (batch,) = table_of(cells).to_batches()
    assert cell_ends(batch)[-1] == size(cells)
    assert cell_ends(batch.slice(5, 9)).tolist() == [size(cells[5 : 5 + count]) for count in range(1, 10)]


@pytest.mark.parametrize("table_cells", [1, 3, 1000])
@pytest.mark.parametrize("block_bytes", [1, 100, 500, 5000])
def test_no_cell_is_lost_and_no_block_is_larger_than_it_must_be(block_bytes: int, table_cells: int) -> None:
    cells = random_cells(random.Random(block_bytes), 300)
    blocks = cut(cells, block_bytes, table_cells)
    assert [cell for block in blocks for cell in block] == cells
    for block in blocks:
        assert len(block) == 1 or size(block) <= block_bytes
    for block, after in pairwise(blocks):
        assert size([*block, after[0]]) > block_bytes / 2, "a block is less than half full without need"


def test_a_block_ends_with_a_row_when_it_is_half_full_then() -> None:
    cells = simple_cells(100, 3)
    blocks = cut(cells, size(cells[:10]), 1000)
    assert all(len(block) == 9 for block in blocks[:-1])


def test_a_row_larger_than_a_block_is_divided() -> None:
    cells: list[RowCell] = [(b"r", (b"%03d" % column, -1, -1, PUT, b"v" * 30)) for column in range(100)]
    blocks = cut(cells, size(cells[:10]), 1000)
    assert [len(block) for block in blocks] == [10] * 10
