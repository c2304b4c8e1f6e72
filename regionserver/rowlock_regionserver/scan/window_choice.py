"""Which cells of a window a scan answers: by the selection's columns, times, versions, rows and cell filter.

How the cells are laid out is not said here: window_answer.py does it one cell a line, pivot.py one row a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import QUALIFIER, Integers, Mask, column, single_chunk_keys
from rowlock_regionserver.arrow.sorted_run import SortedRun, Values
from rowlock_regionserver.cells import Family
from rowlock_regionserver.errors import FilterTypeError
from rowlock_regionserver.operations import EVERY_CELL, CellFilter, Selection
from rowlock_regionserver.scan.filter_columns import NewestValues, mask
from rowlock_regionserver.scan.filters import misfit_error
from rowlock_regionserver.scan.selection import qualifiers_asked
from rowlock_regionserver.scan.selection_columns import chosen, newest_values, page, qualifiers_pass, values_pass
from rowlock_regionserver.scan.window_rows import WindowRows, window_rows


@dataclass(frozen=True, slots=True)
class FamilyCells:
    """One family's visible cells of a window."""

    family: Family
    run: SortedRun
    versions_max: int  # how many versions of a column may be there

    @property
    def values(self) -> Values:
        return self.run.values


@dataclass(frozen=True, slots=True)
class ChosenCells:
    """The cells of a window that are answered, and the error of the row that the scan comes to next.

    `tables` are the families' keys, row, qualifier and timestamp in one chunk; `masks` say which of the cells are
    answered, `rows` which row each belongs to.
    """

    families: tuple[FamilyCells, ...]
    tables: tuple[pa.Table, ...]
    masks: tuple[Mask, ...]
    rows: WindowRows
    error: FilterTypeError | None = None

    def rows_of_chosen(self) -> list[Integers]:
        """The row of each cell that is answered, family by family."""
        return [places[mask] for mask, places in zip(self.masks, self.rows.of_cells, strict=True)]


def chosen_cells(window: Sequence[FamilyCells], selection: Selection, *, reverse: bool) -> ChosenCells:
    """What the selection answers of a window, which has the families that are asked or judged, by name.

    Each has its whole rows. Those without a cell are left out.
    """
    present = [cells for cells in window if len(cells.run)]
    tables = [single_chunk_keys(cells.run.keys) for cells in present]
    rows = window_rows(tables)
    left = _chosen_by_column(present, tables, selection)
    error = None
    if selection.where is not None and present:
        matching, error = _matching_rows(present, tables, rows, left, selection, reverse)
        left = [mask & matching[places] for mask, places in zip(left, rows.of_cells, strict=True)]
    if selection.cells != EVERY_CELL:
        left, misfit = _chosen_by_cell_filter(present, tables, rows, left, selection.cells, reverse)
        # A misfit among the cells that are left stands in a row before that of the filter's error.
        error = misfit or error
        left = _chosen_by_page(rows, left, selection.cells)
    return ChosenCells(tuple(present), tuple(tables), tuple(left), rows, error)


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
                return newest_values(table, cells.values, places, qualifier)
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
    for index, (cells, table, mask_left, places) in enumerate(zip(window, tables, left, rows.of_cells, strict=True)):
        passes, unfit = values_pass(cells.values, mask_left & qualifiers_pass(table, cell_filter), cell_filter)
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
    value = window[index].values.array(np.array([cell]))[0].as_py()
    assert isinstance(qualifier, bytes)
    assert isinstance(value, bytes)
    error = misfit_error(_key(rows, row), window[index].family.name, qualifier, value, cell_filter.value_type)
    return [mask & before[places] for mask, places in zip(passed, rows.of_cells, strict=True)], error


def _chosen_by_page(rows: WindowRows, left: Sequence[Mask], cell_filter: CellFilter) -> list[Mask]:
    """Which of the cells left are on the page, which is counted over all families of a row."""
    if not left or not (cell_filter.first_key_only or cell_filter.cell_offset or cell_filter.cell_limit):
        return list(left)
    of_rows = np.concatenate([places[mask] for mask, places in zip(left, rows.of_cells, strict=True)])
    order = in_order_of_rows(of_rows)
    passes = np.zeros(len(order), np.bool_)
    passes[order] = page(of_rows[order], cell_filter)
    paged = []
    start = 0
    for mask_left in left:
        cells = np.flatnonzero(mask_left)
        passed = np.zeros(len(mask_left), np.bool_)
        passed[cells] = passes[start : start + len(cells)]
        paged.append(passed)
        start += len(cells)
    return paged


def in_order_of_rows(of_rows: Integers) -> Integers:
    """The order that puts cells, which stand family by family, by row; a row's families stay in order.

    The families are sorted already, which makes it a merge.
    """
    order: Integers = np.argsort(of_rows, kind="stable")
    return order


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
