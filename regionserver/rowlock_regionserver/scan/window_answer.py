"""What a scan answers of one window: visible cells of each family in, one table of all families out.

A window whose selection asks for everything of one family is answered by its own columns, uncopied, with a column of
the family's name beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rowlock_regionserver.cells import ANSWER_SCHEMA, Family
from rowlock_regionserver.errors import FilterTypeError
from rowlock_regionserver.operations import EVERY_CELL, CellFilter, Selection
from rowlock_regionserver.scan.columns import (
    QUALIFIER,
    ROW,
    TIMESTAMP,
    VALUE,
    Column,
    Integers,
    Mask,
    column,
    constant_binary_array,
    keep,
    single_chunk,
    take,
)
from rowlock_regionserver.scan.filter_columns import NewestValues, mask
from rowlock_regionserver.scan.filters import misfit_error
from rowlock_regionserver.scan.selection import is_whole_time, qualifiers_asked
from rowlock_regionserver.scan.selection_columns import (
    chosen,
    first_of_runs,
    newest_values,
    page,
    qualifiers_pass,
    values_pass,
)
from rowlock_regionserver.scan.window_rows import WindowRows, row_starts, window_rows

_KEYS_ONLY = CellFilter(keys_only=True)


@dataclass(frozen=True, slots=True)
class FamilyCells:
    """One family's visible cells of a window, in store order; CELL_SCHEMA, any number of chunks."""

    family: Family
    table: pa.Table
    versions_max: int  # how many versions of a column may be there


@dataclass(frozen=True, slots=True)
class WindowAnswer:
    """Whole rows of ANSWER_SCHEMA in the scan's order, where each starts, and the error of the row that comes next."""

    table: pa.Table
    starts: Integers
    error: FilterTypeError | None = None


def answer_window(window: Sequence[FamilyCells], selection: Selection, *, reverse: bool) -> WindowAnswer:
    """The answer of a window; `window` has the families that are asked or judged, by name, each with its whole rows."""
    present = [cells for cells in window if cells.table.num_rows]
    if not present:
        return WindowAnswer(_EMPTY_ANSWER, np.zeros(0, np.int64))
    if len(present) == 1 and _asks_everything(selection, present[0]):
        table = _answer_columns(present[0].family, present[0].table, keys_only=selection.cells.keys_only)
        answer = WindowAnswer(table, row_starts(table))
    else:
        answer = _choose(present, selection, reverse)
    return _backwards(answer) if reverse else answer


def _asks_everything(selection: Selection, cells: FamilyCells) -> bool:
    return (
        not selection.columns
        and selection.where is None
        and is_whole_time(selection)
        and selection.versions >= cells.versions_max
        and selection.cells in (EVERY_CELL, _KEYS_ONLY)
    )


def _choose(window: Sequence[FamilyCells], selection: Selection, reverse: bool) -> WindowAnswer:
    tables = [single_chunk(cells.table) for cells in window]
    rows = window_rows(tables)
    left = _chosen_by_column(window, tables, selection)
    error = None
    if selection.where is not None:
        matching, error = _matching_rows(window, tables, rows, left, selection, reverse)
        left = [mask & matching[places] for mask, places in zip(left, rows.of_cells, strict=True)]
    if selection.cells != EVERY_CELL:
        left, misfit = _chosen_by_cell_filter(window, tables, rows, left, selection.cells, reverse)
        # A misfit among the cells that are left stands in a row before that of the filter's error.
        error = misfit or error
    parts = [
        _answer_columns(cells.family, keep(table, mask), keys_only=selection.cells.keys_only)
        for cells, table, mask in zip(window, tables, left, strict=True)
    ]
    table, places = _interleaved(parts, [places[mask] for mask, places in zip(left, rows.of_cells, strict=True)])
    paged = page(places, selection.cells)
    return WindowAnswer(keep(table, paged), first_of_runs(places[paged]), error)


def _chosen_by_column(window: Sequence[FamilyCells], tables: Sequence[pa.Table], selection: Selection) -> list[Mask]:
    """Which cells of each table are asked by column, time and version."""
    asked = qualifiers_asked(selection.columns)
    left = []
    for cells, table in zip(window, tables, strict=True):
        if asked is None or cells.family.name in asked:
            qualifiers = None if asked is None else asked[cells.family.name]
            left.append(chosen(table, qualifiers, selection, cells.versions_max))
        else:
            left.append(np.zeros(table.num_rows, np.bool_))
    return left


def _matching_rows(
    window: Sequence[FamilyCells],
    tables: Sequence[pa.Table],
    rows: WindowRows,
    left: Sequence[Mask],
    selection: Selection,
    reverse: bool,
) -> tuple[Mask, FilterTypeError | None]:
    """Which rows with a cell left match, up to the first one that can't be judged; and that one's error."""

    def newest(family: bytes, qualifier: bytes) -> NewestValues:
        for cells, table, places in zip(window, tables, rows.of_cells, strict=True):
            if cells.family.name == family:
                return newest_values(table, places, qualifier)
        return NewestValues(np.zeros(0, np.int64), rows.keys.slice(0, 0))

    assert selection.where is not None
    candidates = np.zeros(len(rows.keys), np.bool_)
    for mask_left, places in zip(left, rows.of_cells, strict=True):
        candidates[places[mask_left]] = True
    judgement = mask(selection.where, rows.keys, newest, candidates)
    if not judgement.misfits.any():
        return judgement.matches, None
    first = _first(np.flatnonzero(judgement.misfits), reverse)
    return _cut(judgement.matches, first, reverse), judgement.error(first, _key(rows, first))


def _chosen_by_cell_filter(
    window: Sequence[FamilyCells],
    tables: Sequence[pa.Table],
    rows: WindowRows,
    left: Sequence[Mask],
    cell_filter: CellFilter,
    reverse: bool,
) -> tuple[list[Mask], FilterTypeError | None]:
    """Which of the cells left pass by qualifier and value, up to the first row with a value that doesn't fit."""
    passed: list[Mask] = []
    misfits: list[tuple[int, int, int]] = []  # row, table, cell
    for index, (table, mask_left, places) in enumerate(zip(tables, left, rows.of_cells, strict=True)):
        passes, unfit = values_pass(table, mask_left & qualifiers_pass(table, cell_filter), cell_filter)
        passed.append(passes)
        if len(unfit):
            row = _first(places[unfit], reverse)
            misfits.append((-row if reverse else row, index, int(unfit[places[unfit] == row][0])))
    if not misfits:
        return passed, None
    row, index, cell = min(misfits)
    row = abs(row)
    everything = np.ones(len(rows.keys), np.bool_)
    before = _cut(everything, row, reverse)
    qualifier = column(tables[index], QUALIFIER)[cell].as_py()
    value = column(tables[index], VALUE)[cell].as_py()
    assert isinstance(qualifier, bytes)
    assert isinstance(value, bytes)
    error = misfit_error(_key(rows, row), window[index].family.name, qualifier, value, cell_filter.value_type)
    return [mask & before[places] for mask, places in zip(passed, rows.of_cells, strict=True)], error


def _first(rows: Integers, reverse: bool) -> int:
    """The row that the scan comes to first, of rising ones."""
    return int(rows[-1] if reverse else rows[0])


def _cut(mask: Mask, row: int, reverse: bool) -> Mask:
    """The mask without `row` and what the scan comes to after it."""
    cut = mask.copy()
    if reverse:
        cut[: row + 1] = False
    else:
        cut[row:] = False
    return cut


def _key(rows: WindowRows, row: int) -> bytes:
    key = rows.keys[row].as_py()
    assert isinstance(key, bytes)
    return key


def _interleaved(parts: Sequence[pa.Table], places: Sequence[Integers]) -> tuple[pa.Table, Integers]:
    """The families' answers, by name, as one table by row; and each cell's row."""
    filled = [(part, place) for part, place in zip(parts, places, strict=True) if part.num_rows]
    if not filled:
        return _EMPTY_ANSWER, np.zeros(0, np.int64)
    if len(filled) == 1:
        return filled[0]
    of_rows = np.concatenate([place for _, place in filled])
    # Stable, so a row's families stay in order; the runs are sorted already, which makes it a merge.
    order = np.argsort(of_rows, kind="stable")
    return take(pa.concat_tables([part for part, _ in filled]).combine_chunks(), order), of_rows[order]


def _answer_columns(family: Family, table: pa.Table, *, keys_only: bool) -> pa.Table:
    """ANSWER_SCHEMA of one family's cells; row, qualifier, timestamp and value are the table's own columns."""
    names = constant_binary_array(family.name, table.num_rows)
    values = constant_binary_array(b"", table.num_rows) if keys_only else table.column(VALUE)
    columns: list[Column | pa.ChunkedArray[Any]] = [
        table.column(ROW),
        names,
        table.column(QUALIFIER),
        table.column(TIMESTAMP),
        values,
    ]
    return pa.Table.from_arrays(columns, schema=ANSWER_SCHEMA)


def _backwards(answer: WindowAnswer) -> WindowAnswer:
    """The rows in descending order, each row's cells as they were."""
    lengths = np.diff(np.append(answer.starts, answer.table.num_rows))[::-1]
    starts = np.cumsum(lengths) - lengths
    indices = np.arange(answer.table.num_rows) + np.repeat(answer.starts[::-1] - starts, lengths)
    return WindowAnswer(take(single_chunk(answer.table), indices), starts, answer.error)


# Not ANSWER_SCHEMA.empty_table(), which imports pandas.
_EMPTY_ANSWER = pa.Table.from_batches([], schema=ANSWER_SCHEMA)
