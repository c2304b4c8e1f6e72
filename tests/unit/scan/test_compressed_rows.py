"""CompressedRows: whether rows are answered as they are stored."""

from __future__ import annotations

from typing import cast

import numpy as np
import pyarrow as pa
import pytest
from rowlock_regionserver.arrow.compressed_columns import CompressedColumn
from rowlock_regionserver.arrow.stored_lines import BlockSlice, StoredBlock, StoredLines
from rowlock_regionserver.scan.compressed_rows import CompressedRows
from rowlock_regionserver.scan.row_form import RowLayout

LINES = 1000


class FakeBlock:
    """A block of which only the sizes are asked. Every line has every column."""

    line_count = LINES
    raw_bytes = 100_000

    def __init__(self, stored_bytes: int) -> None:
        self.stored_bytes = stored_bytes

    def has(self, name: bytes) -> bool:
        return True

    def present(self, name: bytes) -> None:
        return None


def rows(stored_bytes: int, layer_count: int) -> CompressedRows:
    """Returns rows of one column, over 200 lines of which so many layers of 20 kB are laid."""
    lines = StoredLines((BlockSlice(cast("StoredBlock", FakeBlock(stored_bytes)), 0, LINES),))
    column = CompressedColumn(lines, b"q")
    for _ in range(layer_count):
        column = column.changed(np.arange(0, LINES, 5), pa.array([bytes(100)] * 200, pa.binary(100)))
    return CompressedRows(CompressedColumn(lines, None), [column], cast("RowLayout", None))


@pytest.mark.parametrize("layer_count", [0, 1, 12])
def test_values_of_one_line_in_several_layers_are_sent_and_counted_once(layer_count: int) -> None:
    assert rows(40_000, layer_count).is_worth_it
    assert rows(40_000, layer_count).slice(0, LINES).is_worth_it


def test_rows_that_hardly_shrink_are_sent_plain() -> None:
    assert rows(75_000, 0).is_worth_it
    assert not rows(75_000, 1).is_worth_it
    assert not rows(75_001, 0).is_worth_it
