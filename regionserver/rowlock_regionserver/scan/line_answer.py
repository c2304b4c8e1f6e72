"""Turns a window with lines into a scan's answer in row form.

Lines need no pivot: their columns are those of the answer. Cells of other rows are pivoted, and their rows placed
between those of the lines. Finally the families are put side by side, and the row filter selects rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from rowlock_regionserver.arrow.columns import Mask, bytes_at
from rowlock_regionserver.errors import FilterTypeError
from rowlock_regionserver.operations import EVERY_CELL, FormColumn, FormPart, RowFilter, Selection
from rowlock_regionserver.scan.answer_rows import AnswerRows
from rowlock_regionserver.scan.filter_columns import NewestValues, evaluated
from rowlock_regionserver.scan.filters import required_columns
from rowlock_regionserver.scan.form_rows import FormRows, interleaved, of_lines, present_values, zipped
from rowlock_regionserver.scan.pivot import pivoted
from rowlock_regionserver.scan.row_form import RowLayout
from rowlock_regionserver.scan.selection import is_whole_time
from rowlock_regionserver.scan.window_selection import FamilyCells, cut, first_reached, selected_cells


class LineForm:
    """What a scan in row form reads of lines, and answers from them. Made once for a scan. Immutable."""

    def __init__(self, selection: Selection, form: RowLayout) -> None:
        self._selection = selection
        self._form = form
        filtered = [FormColumn(*name) for name in sorted(set(required_columns(selection.where)))]
        # With the columns that only the row filter reads.
        self._read = RowLayout([*form.columns, *(column for column in filtered if column not in form.columns)])
        # The columns that are read, by family.
        self.columns: Mapping[bytes, frozenset[bytes]] = {
            family: frozenset(column.qualifier for column in self._read.columns if column.family == family)
            for family in self._read.families
        }

    @classmethod
    def of(cls, selection: Selection, form: RowLayout | None) -> LineForm | None:
        """Returns the form of a scan; None if it can't be answered from lines."""
        if form is None or selection.columns or not is_whole_time(selection) or selection.cells != EVERY_CELL:
            return None
        return cls(selection, form)

    def answer(self, window: Sequence[FamilyCells], *, reverse: bool) -> tuple[AnswerRows, FilterTypeError | None]:
        """Returns the answered rows in the form's columns, and the error of the row that follows them."""
        rows = zipped([_rows_of(cells, self._selection, self._read) for cells in window])
        error = None
        if self._selection.where is not None and len(rows):
            matching, error = _matching(rows, self._selection.where, self._read, reverse=reverse)
            rows = rows.filter(matching)
        return rows.answer(self._form, reverse=reverse), error


def _rows_of(cells: FamilyCells, selection: Selection, form: RowLayout) -> FormRows:
    """Returns one family's rows."""
    parts: list[FormRows] = []
    if len(cells.run):
        selected = selected_cells([cells], replace(selection, where=None), reverse=False)
        table = pivoted(selected, form, keys_only=False, reverse=False)
        of_family = form.families.get(cells.family.name)
        places = [place for _, place in (*of_family.values, *of_family.timestamps)] if of_family else []
        keys, *columns = [chunked.combine_chunks() for chunked in table.columns]
        parts.append(FormRows(keys, {place: columns[place] for place in places}))
    if cells.present is not None:
        parts.append(FormRows(cells.present, {}))
    parts = [zipped(parts)]
    if cells.lines is not None:
        parts.append(of_lines(cells.lines, form.families.get(cells.family.name)))
    return interleaved(parts)


def _matching(
    rows: FormRows, where: RowFilter, form: RowLayout, *, reverse: bool
) -> tuple[Mask, FilterTypeError | None]:
    """Returns which rows match, up to the first type mismatch, and the error of that row."""
    places = {column: place for place, column in enumerate(form.columns)}

    def newest(family: bytes, qualifier: bytes) -> NewestValues:
        return NewestValues(*present_values(rows, places[FormColumn(family, qualifier, FormPart.VALUE)]))

    result = evaluated(where, rows.plain_keys, newest, np.ones(len(rows), np.bool_))
    if not result.mismatches.any():
        return result.matches, None
    first = first_reached(np.flatnonzero(result.mismatches), reverse)
    return cut(result.matches, first, reverse), result.error(first, bytes_at(rows.plain_keys, first))
