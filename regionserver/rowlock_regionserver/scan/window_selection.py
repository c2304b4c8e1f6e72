"""Selects the cells of a window that a scan answers, by columns, times, versions, row filter and cell filter.

window_answer.py lays them out one cell a line, pivot.py one row a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import (
    QUALIFIER,
    Column,
    Integers,
    Mask,
    bytes_at,
    column,
    single_chunk,
    single_chunk_keys,
)
from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.arrow.merge import merged
from rowlock_regionserver.arrow.sorted_cells import places_in_runs
from rowlock_regionserver.arrow.sorted_run import SortedRun, Values
from rowlock_regionserver.cells import Family
from rowlock_regionserver.errors import FilterTypeError
from rowlock_regionserver.operations import EVERY_CELL, CellFilter, Selection
from rowlock_regionserver.scan.filter_columns import NewestValues, evaluated
from rowlock_regionserver.scan.filters import mismatch_error
from rowlock_regionserver.scan.selection import requested_qualifiers
from rowlock_regionserver.scan.selection_columns import (
    newest_values,
    on_page,
    qualifiers_pass,
    selection_mask,
    values_pass,
)
from rowlock_regionserver.scan.window_rows import WindowRows, window_rows


@dataclass(frozen=True, slots=True)
class FamilyCells:
    """One family's visible cells of a window: those of a run, and perhaps lines of other rows."""

    family: Family
    run: SortedRun
    versions_max: int  # a column has at most this many versions
    lines: Lines | None = None  # one a row
    # Rows, ascending and not of lines, that are there even if the run has no cell of them.
    present: Column | None = None

    @property
    def has_rows_beside_run(self) -> bool:
        """Whether there may be rows of which the run has no cell."""
        return self.lines is not None or self.present is not None

    @property
    def values(self) -> Values:
        return self.run.values

    def with_cells(self, cells: pa.Table) -> FamilyCells:
        """Returns the cells of the run, and those of rows that it does not have, one of each column."""
        others = SortedRun.of_table(cells)
        if not len(self.run):
            return FamilyCells(self.family, others, 1)
        run = merged([others, self.run])
        return FamilyCells(self.family, SortedRun(single_chunk(run.keys), run.values), self.versions_max)


@dataclass(frozen=True, slots=True)
class SelectedCells:
    """The cells of a window that are answered, and the error of the row that follows them.

    `tables` are the families' keys, with row, qualifier and timestamp in one chunk each. `masks` mark the answered
    cells, and `rows` gives the row of each cell.
    """

    families: tuple[FamilyCells, ...]
    tables: tuple[pa.Table, ...]
    masks: tuple[Mask, ...]
    rows: WindowRows
    error: FilterTypeError | None = None

    def rows_of_selected(self) -> list[Integers]:
        """Returns the row of each answered cell, family by family."""
        return [places[mask] for mask, places in zip(self.masks, self.rows.of_cells, strict=True)]


def selected_cells(window: Sequence[FamilyCells], selection: Selection, *, reverse: bool) -> SelectedCells:
    """Returns the cells of a window that the selection answers.

    The window has whole rows of the families that are requested or that the filter reads, by name. Families without
    cells are left out of the result.
    """
    present = [cells for cells in window if len(cells.run)]
    tables = [single_chunk_keys(cells.run.keys) for cells in present]
    rows = window_rows(tables)
    masks = _selected_by_column(present, tables, selection)
    error = None
    if selection.where is not None and present:
        matching, error = _matching_rows(present, tables, rows, masks, selection, reverse)
        masks = [mask & matching[places] for mask, places in zip(masks, rows.of_cells, strict=True)]
    if selection.cells != EVERY_CELL:
        masks, mismatch = _selected_by_cell_filter(present, tables, rows, masks, selection.cells, reverse)
        # The rows from the row filter's error on are masked out, so a mismatch found here comes before it.
        error = mismatch or error
        masks = _selected_by_page(rows, masks, selection.cells)
    return SelectedCells(tuple(present), tuple(tables), tuple(masks), rows, error)


def _selected_by_column(window: Sequence[FamilyCells], tables: Sequence[pa.Table], selection: Selection) -> list[Mask]:
    """Returns which cells of each table the selection requests by column, time and version."""
    requested = requested_qualifiers(selection.columns)
    masks = []
    for cells, table in zip(window, tables, strict=True):
        if requested is None or cells.family.name in requested:
            qualifiers = None if requested is None else requested[cells.family.name]
            masks.append(selection_mask(table, qualifiers, selection, cells.versions_max))
        else:
            masks.append(np.zeros(table.num_rows, np.bool_))
    return masks


def _matching_rows(
    window: Sequence[FamilyCells],
    tables: Sequence[pa.Table],
    rows: WindowRows,
    masks: Sequence[Mask],
    selection: Selection,
    reverse: bool,
) -> tuple[Mask, FilterTypeError | None]:
    """Returns which rows with a selected cell match, up to the first type mismatch, and the error of that row."""

    def newest(family: bytes, qualifier: bytes) -> NewestValues:
        for cells, table, places in zip(window, tables, rows.of_cells, strict=True):
            if cells.family.name == family:
                return newest_values(table, cells.values, places, qualifier)
        return NewestValues(np.zeros(0, np.int64), rows.keys.slice(0, 0))

    assert selection.where is not None
    candidates = np.zeros(len(rows.keys), np.bool_)
    for mask, places in zip(masks, rows.of_cells, strict=True):
        candidates[places[mask]] = True
    result = evaluated(selection.where, rows.keys, newest, candidates)
    if not result.mismatches.any():
        return result.matches, None
    first = first_reached(np.flatnonzero(result.mismatches), reverse)
    return cut(result.matches, first, reverse), result.error(first, bytes_at(rows.keys, first))


def _selected_by_cell_filter(
    window: Sequence[FamilyCells],
    tables: Sequence[pa.Table],
    rows: WindowRows,
    masks: Sequence[Mask],
    cell_filter: CellFilter,
    reverse: bool,
) -> tuple[list[Mask], FilterTypeError | None]:
    """Returns which selected cells pass by qualifier and value, up to the first row with a type mismatch."""
    passed: list[Mask] = []
    mismatches: list[tuple[int, int, int]] = []  # row, table, cell
    for index, (cells, table, mask, places) in enumerate(zip(window, tables, masks, rows.of_cells, strict=True)):
        passes, mismatched = values_pass(cells.values, mask & qualifiers_pass(table, cell_filter), cell_filter)
        passed.append(passes)
        if len(mismatched):
            row = first_reached(places[mismatched], reverse)
            mismatches.append((-row if reverse else row, index, int(mismatched[places[mismatched] == row][0])))
    if not mismatches:
        return passed, None
    row, index, cell = min(mismatches)
    row = abs(row)
    everything = np.ones(len(rows.keys), np.bool_)
    before = cut(everything, row, reverse)
    qualifier = column(tables[index], QUALIFIER)[cell].as_py()
    value = window[index].values.array(np.array([cell]))[0].as_py()
    assert isinstance(qualifier, bytes)
    assert isinstance(value, bytes)
    error = mismatch_error(
        bytes_at(rows.keys, row), window[index].family.name, qualifier, value, cell_filter.value_type
    )
    return [mask & before[places] for mask, places in zip(passed, rows.of_cells, strict=True)], error


def _selected_by_page(rows: WindowRows, masks: Sequence[Mask], cell_filter: CellFilter) -> list[Mask]:
    """Returns which selected cells are on the page, which is counted over all families of a row."""
    if not masks or not (cell_filter.first_key_only or cell_filter.cell_offset or cell_filter.cell_limit):
        return list(masks)
    of_rows = np.concatenate([places[mask] for mask, places in zip(masks, rows.of_cells, strict=True)])
    order = in_order_of_rows(of_rows)
    passes = np.zeros(len(order), np.bool_)
    passes[order] = on_page(places_in_runs(of_rows[order]), cell_filter)
    paged = []
    start = 0
    for mask in masks:
        cells = np.flatnonzero(mask)
        passed = np.zeros(len(mask), np.bool_)
        passed[cells] = passes[start : start + len(cells)]
        paged.append(passed)
        start += len(cells)
    return paged


def in_order_of_rows(of_rows: Integers) -> Integers:
    """Returns the indices that sort cells by row, given family by family; a row's families stay in order.

    Each family is sorted already, so the stable sort is a merge.
    """
    order: Integers = np.argsort(of_rows, kind="stable")
    return order


def first_reached(rows: Integers, reverse: bool) -> int:
    """Returns the row that the scan reaches first, of ascending rows."""
    return int(rows[-1] if reverse else rows[0])


def cut(mask: Mask, row: int, reverse: bool) -> Mask:
    """Returns the mask without `row` and the rows that the scan reaches after it."""
    cut = mask.copy()
    if reverse:
        cut[: row + 1] = False
    else:
        cut[row:] = False
    return cut
