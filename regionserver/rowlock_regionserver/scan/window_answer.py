"""What a scan answers of one window, one cell a line: the chosen cells of each family as one table of all families.

A window whose selection asks for everything of one family is answered by its own columns, uncopied, with a column of
the family's name beside them.
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
from rowlock_regionserver.arrow.sorted_run import SortedRun
from rowlock_regionserver.cells import ANSWER_SCHEMA, Family
from rowlock_regionserver.errors import InvalidRequestError
from rowlock_regionserver.operations import EVERY_CELL, CellFilter, Selection
from rowlock_regionserver.scan.pivot import pivoted
from rowlock_regionserver.scan.row_form import RowForm
from rowlock_regionserver.scan.selection import is_whole_time
from rowlock_regionserver.scan.selection_columns import first_of_runs
from rowlock_regionserver.scan.window_choice import ChosenCells, FamilyCells, chosen_cells, in_order_of_rows
from rowlock_regionserver.scan.window_rows import row_starts

_KEYS_ONLY = CellFilter(keys_only=True)
_ANSWERED = [ROW, QUALIFIER, TIMESTAMP]


@dataclass(frozen=True, slots=True)
class WindowAnswer:
    """Whole rows in the scan's order, where each starts in the table, and the error of the row that comes next.

    The table is of ANSWER_SCHEMA, or has one line a row if the scan asked for that. An answer may be a part of one row:
    then the row's first part has its start, and all but its last say that it goes on.
    """

    table: pa.Table
    starts: Integers
    error: InvalidRequestError | None = None
    is_part: bool = False
    row_continues: bool = False


def answer_window(
    window: Sequence[FamilyCells], selection: Selection, form: RowForm | None, *, reverse: bool
) -> WindowAnswer:
    """The answer of a window; `window` has the families that are asked or judged, by name, each with its whole rows."""
    if form is not None:
        chosen = chosen_cells(window, selection, reverse=reverse)
        table = pivoted(chosen, form, keys_only=selection.cells.keys_only, reverse=reverse)
        return WindowAnswer(table, np.arange(table.num_rows), chosen.error)
    present = [cells for cells in window if len(cells.run)]
    if len(present) == 1 and _asks_everything(selection, present[0]):
        table = answer_columns(present[0].family, present[0].run, keys_only=selection.cells.keys_only)
        answer = WindowAnswer(table, row_starts(table))
    else:
        answer = _cells(chosen_cells(present, selection, reverse=reverse), keys_only=selection.cells.keys_only)
    return _backwards(answer) if reverse else answer


def _asks_everything(selection: Selection, cells: FamilyCells) -> bool:
    return (
        not selection.columns
        and selection.where is None
        and is_whole_time(selection)
        and selection.versions >= cells.versions_max
        and selection.cells in (EVERY_CELL, _KEYS_ONLY)
    )


def _cells(chosen: ChosenCells, *, keys_only: bool) -> WindowAnswer:
    """The chosen cells, by row and then by family."""
    parts = [
        answer_columns(cells.family, SortedRun(table.select(_ANSWERED), cells.values).kept(mask), keys_only=keys_only)
        for cells, table, mask in zip(chosen.families, chosen.tables, chosen.masks, strict=True)
    ]
    table, places = _interleaved(parts, chosen.rows_of_chosen())
    return WindowAnswer(table, first_of_runs(places), chosen.error)


def _interleaved(parts: Sequence[pa.Table], places: Sequence[Integers]) -> tuple[pa.Table, Integers]:
    """The families' answers, by name, as one table by row; and each cell's row."""
    filled = [(part, place) for part, place in zip(parts, places, strict=True) if part.num_rows]
    if not filled:
        return EMPTY_ANSWER, np.zeros(0, np.int64)
    if len(filled) == 1:
        return filled[0]
    of_rows = np.concatenate([place for _, place in filled])
    order = in_order_of_rows(of_rows)
    return take(pa.concat_tables([part for part, _ in filled]).combine_chunks(), order), of_rows[order]


def answer_columns(family: Family, run: SortedRun, *, keys_only: bool) -> pa.Table:
    """ANSWER_SCHEMA of one family's cells, by the run's own columns where they stand in order."""
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
    """The rows in descending order, each row's cells as they were."""
    lengths = np.diff(np.append(answer.starts, answer.table.num_rows))[::-1]
    starts = np.cumsum(lengths) - lengths
    indices = np.arange(answer.table.num_rows) + np.repeat(answer.starts[::-1] - starts, lengths)
    return WindowAnswer(take(single_chunk(answer.table), indices), starts, answer.error)


# Not ANSWER_SCHEMA.empty_table(), which imports pandas.
EMPTY_ANSWER = pa.Table.from_batches([], schema=ANSWER_SCHEMA)
