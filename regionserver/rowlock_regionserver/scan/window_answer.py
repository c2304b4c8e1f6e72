"""Turns a window into a scan's answer with one cell a line: the selected cells of all families as one table.

If the selection requests everything and the window has one family, the answer is the window's own columns, uncopied,
plus a column with the family's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import (
    QUALIFIER,
    ROW,
    TIMESTAMP,
    Column,
    Integers,
    constant_binary_array,
    single_chunk,
    take,
)
from rowlock_regionserver.arrow.line_merging import cells_of_parts
from rowlock_regionserver.arrow.sorted_cells import changes
from rowlock_regionserver.arrow.sorted_run import SortedRun
from rowlock_regionserver.cells import ANSWER_SCHEMA, Family
from rowlock_regionserver.errors import InvalidRequestError
from rowlock_regionserver.operations import EVERY_CELL, CellFilter, FormColumn, Selection
from rowlock_regionserver.scan.answer_rows import AnswerRows, plain_table
from rowlock_regionserver.scan.line_answer import LineForm
from rowlock_regionserver.scan.lines_as_rows import lines_as_rows
from rowlock_regionserver.scan.pivot import pivoted
from rowlock_regionserver.scan.row_form import RowLayout
from rowlock_regionserver.scan.selection import is_whole_time
from rowlock_regionserver.scan.window_rows import row_starts
from rowlock_regionserver.scan.window_selection import FamilyCells, SelectedCells, in_order_of_rows, selected_cells

_KEYS_ONLY = CellFilter(keys_only=True)
_ANSWERED = [ROW, QUALIFIER, TIMESTAMP]


@dataclass(frozen=True, slots=True)
class WindowAnswer:
    """Whole rows in the scan's order, the place where each starts in the table, and the error of the row that follows.

    The rows are of ANSWER_SCHEMA, or of the row form with one line a row. An answer may be a part of one row: then only
    the first part has the row's start, and all but the last have `row_continues` set.
    """

    rows: AnswerRows
    starts: Integers
    error: InvalidRequestError | None = None
    is_part: bool = False
    row_continues: bool = False
    # Without a row form, if these are rows in columns: the columns, and about how much larger a row is as cells.
    columns: Sequence[FormColumn] = ()
    bytes_beside: int = 0

    @property
    def table(self) -> pa.Table:
        """The rows as a table, read and decompressed."""
        return plain_table(self.rows)


def answer_window(
    window: Sequence[FamilyCells],
    selection: Selection,
    form: RowLayout | None,
    line_form: LineForm | None,
    *,
    reverse: bool,
) -> WindowAnswer:
    """Returns the answer of a window.

    `window` has whole rows of the families that are requested or that the filter reads, by name. Without a `line_form`
    it has lines only if the scan takes rows in columns, and then everything is selected.
    """
    if line_form is not None and any(cells.has_rows_beside_run for cells in window):
        rows, error = line_form.answer(window, reverse=reverse)
        return WindowAnswer(rows, np.arange(rows.num_rows), error)
    if form is not None:
        selected = selected_cells(window, selection, reverse=reverse)
        table = pivoted(selected, form, keys_only=selection.cells.keys_only, reverse=reverse)
        return WindowAnswer(table, np.arange(table.num_rows), selected.error)
    in_columns = lines_as_rows(window, reverse=reverse)
    if in_columns is not None:
        rows, columns, bytes_beside = in_columns
        return WindowAnswer(rows, np.arange(rows.num_rows), columns=columns, bytes_beside=bytes_beside)
    window = [cells if cells.lines is None else cells.with_cells(cells_of_parts([cells.lines])) for cells in window]
    present = [cells for cells in window if len(cells.run)]
    if len(present) == 1 and _selects_everything(selection, present[0]):
        table = answer_columns(present[0].family, present[0].run, keys_only=selection.cells.keys_only)
        answer = WindowAnswer(table, row_starts(table))
    else:
        answer = _cells(selected_cells(present, selection, reverse=reverse), keys_only=selection.cells.keys_only)
    return _backwards(answer) if reverse else answer


def _selects_everything(selection: Selection, cells: FamilyCells) -> bool:
    return (
        not selection.columns
        and selection.where is None
        and is_whole_time(selection)
        and selection.versions >= cells.versions_max
        and selection.cells in (EVERY_CELL, _KEYS_ONLY)
    )


def _cells(selected: SelectedCells, *, keys_only: bool) -> WindowAnswer:
    """Returns the selected cells, by row and then by family."""
    parts = [
        answer_columns(cells.family, SortedRun(table.select(_ANSWERED), cells.values).filter(mask), keys_only=keys_only)
        for cells, table, mask in zip(selected.families, selected.tables, selected.masks, strict=True)
    ]
    table, places = _interleaved(parts, selected.rows_of_selected())
    return WindowAnswer(table, np.flatnonzero(changes(places)), selected.error)


def _interleaved(parts: Sequence[pa.Table], places: Sequence[Integers]) -> tuple[pa.Table, Integers]:
    """Returns the families' answers, given by name, as one table by row, and the row of each cell."""
    filled = [(part, place) for part, place in zip(parts, places, strict=True) if part.num_rows]
    if not filled:
        return EMPTY_ANSWER, np.zeros(0, np.int64)
    if len(filled) == 1:
        return filled[0]
    of_rows = np.concatenate([place for _, place in filled])
    order = in_order_of_rows(of_rows)
    return take(pa.concat_tables([part for part, _ in filled]).combine_chunks(), order), of_rows[order]


def answer_columns(family: Family, run: SortedRun, *, keys_only: bool) -> pa.Table:
    """Returns one family's cells as a table of ANSWER_SCHEMA, with the run's own columns where possible."""
    keys = run.keys
    columns: list[Column | pa.ChunkedArray[Any]] = [
        keys.column(ROW),
        constant_binary_array(family.name, len(run)),
        keys.column(QUALIFIER),
        keys.column(TIMESTAMP),
        constant_binary_array(b"", len(run)) if keys_only else run.values.column(),
    ]
    return pa.Table.from_arrays(columns, schema=ANSWER_SCHEMA)


def _backwards(answer: WindowAnswer) -> WindowAnswer:
    """Returns the answer with its rows in descending order; the order of each row's cells does not change."""
    lengths = np.diff(np.append(answer.starts, answer.table.num_rows))[::-1]
    starts = np.cumsum(lengths) - lengths
    indices = np.arange(answer.table.num_rows) + np.repeat(answer.starts[::-1] - starts, lengths)
    return WindowAnswer(take(single_chunk(answer.table), indices), starts, answer.error)


# Not ANSWER_SCHEMA.empty_table(), which imports pandas.
EMPTY_ANSWER = pa.Table.from_batches([], schema=ANSWER_SCHEMA)
