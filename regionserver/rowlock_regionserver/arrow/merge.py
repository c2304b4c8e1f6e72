"""Merges sorted runs of one family's cells, and finds rows in sorted tables."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowlock_regionserver.arrow.cell_columns import first_not_below
from rowlock_regionserver.arrow.columns import (
    QUALIFIER,
    ROW,
    TIMESTAMP,
    WRITE_NUMBER,
    Column,
    Integers,
    bytes_at,
    column,
    equals_previous,
    integer_array,
    integers,
    numbers,
    run_starts,
    single_chunk,
    take,
)
from rowlock_regionserver.arrow.sorted_run import SortedRun, concatenated

_STORE_ORDER: list[tuple[str, Literal["ascending", "descending"]]] = [
    ("row", "ascending"),
    ("qualifier", "ascending"),
    ("timestamp", "descending"),
    ("write_number", "descending"),
]
# With fewer cells a row, sorting the rows costs as much as sorting the cells.
_CELLS_A_ROW_MIN = 2
_IN_ROW = [QUALIFIER, TIMESTAMP, WRITE_NUMBER]


def merged(runs: Sequence[SortedRun]) -> SortedRun:
    """Returns one run by row, qualifier, timestamp descending, write number descending; ties stay in order.

    Values are not touched. Speed: as merged_with_shared().
    """
    return merged_with_shared(runs)[0]


def merged_with_shared(runs: Sequence[SortedRun]) -> tuple[SortedRun, bool]:
    """Returns one run, as `merged`, and whether some row may be in several of the runs.

    Runs that follow one another are concatenated without a copy, with one or more chunks a column. Otherwise whole rows
    are sorted, which are fewer than cells and have only one key, and then the cells of the rows that several runs
    share: 6 to 10 M cells/s, or 4 M cells/s if all rows are shared.
    """
    present = [run for run in runs if len(run)]
    successive = in_succession(present)
    if successive is not None:
        return concatenated(successive), False
    all_runs = _in_one_chunk(present)
    # A row that ends one run and begins the next counts as two, so that it is found in both.
    begins_run = np.cumsum([0, *(len(run) for run in present[:-1])])
    order, has_shared = _order_of_rows(all_runs.keys, begins_run)
    return all_runs.at(order), has_shared


def merged_in_row(runs: Sequence[SortedRun]) -> SortedRun:
    """Merges runs of one row by sorting."""
    if len(runs) == 1:
        return runs[0]
    all_runs = _in_one_chunk(runs)
    return all_runs.at(_order_of_cells(all_runs.keys, _STORE_ORDER[1:]))


def _in_one_chunk(runs: Sequence[SortedRun]) -> SortedRun:
    """Concatenates runs, with one chunk a key column."""
    all_runs = concatenated(runs)
    return SortedRun(single_chunk(all_runs.keys), all_runs.values)


def _order_of_rows(keys: pa.Table, begins_run: Integers) -> tuple[Integers, bool]:
    """Returns indices that sort the cells of runs, each of which begins at an index, and whether runs share a row."""
    rows = column(keys, ROW)
    is_same = equals_previous(rows)
    is_same[begins_run] = False
    starts = run_starts(is_same)
    if _CELLS_A_ROW_MIN * len(starts) > len(rows):
        return _order_of_cells(keys, _STORE_ORDER), True
    first_cells = rows.take(integer_array(starts, pa.int64()))
    order = _indices(pc.call_function("array_sort_indices", [first_cells]))
    is_again = equals_previous(first_cells.take(integer_array(order, pa.int64())))
    lengths = np.diff(np.append(starts, len(rows)))[order]
    shifts = starts[order] - (np.cumsum(lengths) - lengths)
    places: Integers = np.arange(len(rows)) + np.repeat(shifts, lengths)
    if not is_again.any():
        return places, False
    is_shared = is_again.copy()
    is_shared[:-1] |= is_again[1:]
    at = np.flatnonzero(np.repeat(is_shared, lengths))
    row_numbers = np.repeat(np.cumsum(~is_again, dtype=np.int64), lengths)[at]
    cells = places[at]
    places[at] = cells[_order_in_rows(row_numbers, take(keys.select(_IN_ROW), cells))]
    return places, True


def _order_in_rows(row_numbers: Integers, keys: pa.Table) -> Integers:
    """Returns indices that sort cells by the numbers of their rows, and then as in a row."""
    qualifier, timestamp, write_number = (column(keys, place) for place in range(len(_IN_ROW)))
    qualifiers = qualifier.dictionary_encode()
    places_of_qualifiers = _indices(pc.call_function("array_sort_indices", [qualifiers.dictionary]))
    ranks = np.empty(len(places_of_qualifiers), np.int64)
    ranks[places_of_qualifiers] = np.arange(len(ranks))
    columns = row_numbers * len(ranks) + ranks[_indices(qualifiers.indices)]
    order: Integers = np.lexsort((-integers(write_number), -integers(timestamp), columns))
    return order


def _order_of_cells(keys: pa.Table, order: list[tuple[str, Literal["ascending", "descending"]]]) -> Integers:
    return _indices(pc.sort_indices(keys, sort_keys=order))


def _indices(indices: Column) -> Integers:
    return np.frombuffer(numbers(indices.cast(pa.int64()), "q"), np.int64)


def in_succession(runs: Sequence[SortedRun]) -> list[SortedRun] | None:
    """Returns the runs, none empty, in an order in which all rows of one precede those of the next.

    Returns None if there is no such order, for example because two runs share a row.
    """
    ordered = sorted(runs, key=lambda run: first_row(run.keys))
    for before, after in pairwise(ordered):
        if last_row(before.keys) >= first_row(after.keys):
            return None
    return ordered


def first_row(table: pa.Table) -> bytes:
    """Returns the least row of a sorted table that is not empty."""
    return row_at(table, 0)


def last_row(table: pa.Table) -> bytes:
    """Returns the greatest row of a sorted table that is not empty."""
    return row_at(table, table.num_rows - 1)


def row_at(table: pa.Table, index: int) -> bytes:
    """Returns the row of the cell at `index`."""
    return bytes_at(table.column(ROW), index)


def first_at_or_after(table: pa.Table, row: bytes) -> int:
    """Returns the index of the first cell of a sorted table with a row >= `row`; the number of cells if there is none.

    Some 5 µs: a bisection of the column's bytes, or with several chunks of Arrow's scalars, which find their chunk.
    """
    rows = table.column(ROW)
    if rows.num_chunks == 1:
        return first_not_below(rows.chunks[0], row)
    return bisect_left(rows, row, key=lambda scalar: scalar.as_py())
