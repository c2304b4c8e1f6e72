"""Turns a window with lines into a scan's answer in row form.

Lines need no pivot: their columns are those of the answer. Cells of other rows are pivoted, and their rows placed
between those of the lines. Finally the families are put side by side, and the row filter selects rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import Mask, bytes_at
from rowlock_regionserver.errors import FilterTypeError
from rowlock_regionserver.operations import EVERY_CELL, FormColumn, FormPart, Selection
from rowlock_regionserver.scan.filter_columns import NewestValues, evaluated
from rowlock_regionserver.scan.filters import required_columns
from rowlock_regionserver.scan.form_rows import FormRows, interleaved, of_lines, present_values, zipped
from rowlock_regionserver.scan.pivot import pivoted
from rowlock_regionserver.scan.row_form import RowLayout
from rowlock_regionserver.scan.selection import is_whole_time
from rowlock_regionserver.scan.window_selection import FamilyCells, cut, first_reached, selected_cells


def may_have_lines(selection: Selection) -> bool:
    """Returns whether a scan in row form with this selection may be answered from lines."""
    return not selection.columns and is_whole_time(selection) and selection.cells == EVERY_CELL


def line_columns(selection: Selection, form: RowLayout) -> Mapping[bytes, frozenset[bytes]]:
    """Returns the columns, by family, that the form or the row filter reads."""
    columns = {(column.family, column.qualifier) for column in form.columns} | set(required_columns(selection.where))
    return {
        family: frozenset(qualifier for of_family, qualifier in columns if of_family == family)
        for family in {family for family, _ in columns}
    }


def answer_lines(
    window: Sequence[FamilyCells], selection: Selection, form: RowLayout, *, reverse: bool
) -> tuple[pa.Table, FilterTypeError | None]:
    """Returns the answered rows in the form's columns, and the error of the row that follows them."""
    filtered = [FormColumn(*name) for name in sorted(set(required_columns(selection.where)))]
    read = RowLayout([*form.columns, *(column for column in filtered if column not in form.columns)])
    rows = zipped([_rows_of(cells, selection, read) for cells in window])
    error = None
    if selection.where is not None and len(rows):
        matching, error = _matching(rows, selection, read, reverse=reverse)
        rows = rows.filter(matching)
    return rows.table(form, reverse=reverse), error


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
    rows: FormRows, selection: Selection, form: RowLayout, *, reverse: bool
) -> tuple[Mask, FilterTypeError | None]:
    """Returns which rows match, up to the first type mismatch, and the error of that row."""
    places = {column: place for place, column in enumerate(form.columns)}

    def newest(family: bytes, qualifier: bytes) -> NewestValues:
        return NewestValues(*present_values(rows, places[FormColumn(family, qualifier, FormPart.VALUE)]))

    assert selection.where is not None
    result = evaluated(selection.where, rows.keys, newest, np.ones(len(rows), np.bool_))
    if not result.mismatches.any():
        return result.matches, None
    first = first_reached(np.flatnonzero(result.mismatches), reverse)
    return cut(result.matches, first, reverse), result.error(first, bytes_at(rows.keys, first))
