"""Several sorted tables of one family's cells made one sorted table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowlock_regionserver.errors import LimitExceededError
from rowlock_regionserver.scan.cell_columns import first_not_below
from rowlock_regionserver.scan.columns import (
    BINARY_COLUMN_BYTES_MAX,
    ROW,
    Column,
    Integers,
    empty_cells,
    equals_previous,
    integer_array,
    numbers,
    run_starts,
    single_array,
    take,
)

_STORE_ORDER: list[tuple[str, Literal["ascending", "descending"]]] = [
    ("row", "ascending"),
    ("qualifier", "ascending"),
    ("timestamp", "descending"),
    ("write_number", "descending"),
]
# With fewer, sorting the rows first costs as much as sorting the cells.
_CELLS_A_ROW_MIN = 2


def merged(tables: Sequence[pa.Table]) -> pa.Table:
    """One table of CELL_SCHEMA by row, qualifier, timestamp descending, write number descending; ties stay in order.

    Each table is sorted so already. What joined_rows() can't join is sorted into one chunk, some 2 M cells/s. Raises
    LimitExceededError when a column would pass 2 GiB, which Arrow's binary columns cannot hold: windows are far
    smaller, so that is one enormous row.
    """
    joined = joined_rows(tables)
    if joined is not None:
        return joined
    together = pa.concat_tables(tables).combine_chunks()
    return together.take(pc.sort_indices(together, sort_keys=_STORE_ORDER))


def joined_rows(tables: Sequence[pa.Table]) -> pa.Table | None:
    """The same for tables that have no row in common; None when they have one, or when that is dear to find out.

    Tables that follow one another are put together without copying, one or more chunks a column. Otherwise whole rows
    are put in order, of which there are fewer than cells, and which have one key: 6 to 10 M cells/s.
    """
    present = [table for table in tables if table.num_rows]
    if not present:
        return empty_cells()
    runs = in_succession(present)
    if runs is not None:
        return runs[0] if len(runs) == 1 else pa.concat_tables(runs)
    _check_size(present)
    together = pa.concat_tables(present)
    # A row that ends one table and begins the next is in both.
    begins_table = np.cumsum([0, *(table.num_rows for table in present[:-1])])
    order = _order_of_rows(single_array(together.column(ROW)), begins_table)
    return None if order is None else take(together, order)


def _order_of_rows(rows: Column, begins_table: Integers) -> Integers | None:
    """The order that sorts cells by row and leaves each row's as they are; None when a row is in two tables."""
    is_same = equals_previous(rows)
    is_same[begins_table] = False
    starts = run_starts(is_same)
    if _CELLS_A_ROW_MIN * len(starts) > len(rows):
        return None
    first_cells = rows.take(integer_array(starts, pa.int64()))
    sorted_indices = pc.call_function("array_sort_indices", [first_cells])
    if equals_previous(first_cells.take(sorted_indices)).any():
        return None
    order = np.frombuffer(numbers(sorted_indices.cast(pa.int64()), "q"), np.int64)
    lengths = np.diff(np.append(starts, len(rows)))[order]
    shifts = starts[order] - (np.cumsum(lengths) - lengths)
    places: Integers = np.arange(len(rows)) + np.repeat(shifts, lengths)
    return places


def _check_size(tables: Sequence[pa.Table]) -> None:
    # What is shared with other tables is counted whole by the first, which is quick, and in part by the second.
    if sum(table.get_total_buffer_size() for table in tables) <= BINARY_COLUMN_BYTES_MAX:
        return
    byte_count = sum(table.nbytes for table in tables)
    if byte_count > BINARY_COLUMN_BYTES_MAX:
        row = first_row(tables[0])
        raise LimitExceededError(
            f"the cells around row {row!r} take {byte_count} bytes in one family, more than can be merged; "
            "flush the table, or delete some of the row's columns",
            limit="binary_column_bytes_max",
            limit_value=BINARY_COLUMN_BYTES_MAX,
            found=byte_count,
            row=row,
        )


def in_succession(tables: Sequence[pa.Table]) -> list[pa.Table] | None:
    """The tables, none empty, in an order in which all rows of one come before those of the next; None: there is none.

    Tables that share a row have no such order.
    """
    runs = sorted(tables, key=first_row)
    for index in range(1, len(runs)):
        if last_row(runs[index - 1]) >= first_row(runs[index]):
            return None
    return runs


def first_row(table: pa.Table) -> bytes:
    """The least row of a sorted table that is not empty."""
    return row_at(table, 0)


def last_row(table: pa.Table) -> bytes:
    """The greatest row of a sorted table that is not empty."""
    return row_at(table, table.num_rows - 1)


def row_at(table: pa.Table, index: int) -> bytes:
    """The row of the cell at `index`."""
    row = table.column(ROW)[index].as_py()
    assert isinstance(row, bytes)
    return row


def first_at_or_after(table: pa.Table, row: bytes) -> int:
    """Index of the first cell of a sorted table whose row is `row` or greater; the number of cells when there is none.

    A bisection on the column's own bytes, some 5 µs. Arrow's scalars take 1 µs for each probe, and hold up others.
    """
    before = 0
    for chunk in table.column(ROW).chunks:
        place = first_not_below(chunk, row)
        if place < len(chunk):
            return before + place
        before += len(chunk)
    return before
