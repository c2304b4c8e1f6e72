"""Turns a window that has lines only into a scan's answer of rows in columns, which stand for its cells.

The rows are in a row form whose columns are those of the lines. So they are sent as they are stored, without the row,
the qualifier and the offsets that each cell repeats, and the client makes what it needs of them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.cells import CELL_BYTES_BESIDE
from rowlock_regionserver.operations import FormColumn, FormPart
from rowlock_regionserver.scan.answer_rows import AnswerRows
from rowlock_regionserver.scan.form_rows import of_lines, zipped
from rowlock_regionserver.scan.row_form import RowLayout
from rowlock_regionserver.scan.window_selection import FamilyCells

# With more columns, or with more nulls than values, cells are smaller or faster.
COLUMNS_MAX = 500


class LinesAsRows(NamedTuple):
    """Rows in columns, the columns as ScanBatch.line_columns has them, and about how much larger a row is as cells."""

    rows: AnswerRows
    columns: Sequence[FormColumn]
    cells_bytes_beside: int


def lines_as_rows(window: Sequence[FamilyCells], *, reverse: bool) -> LinesAsRows | None:
    """Returns the rows of a window; None if the window has cells or no lines, or if cells are the better answer."""
    families = [(cells.family.name, cells.lines) for cells in window if cells.lines is not None]
    if not families or any(len(cells.run) for cells in window):
        return None
    columns = [(name, qualifier) for name, lines in families for qualifier in lines.qualifiers]
    if len(columns) > COLUMNS_MAX:
        return None
    row_count = max([len(lines) for _, lines in families])
    if 2 * sum([lines.cell_count for _, lines in families]) < len(columns) * row_count:
        return None
    timed = columns
    if len(families) == 1:
        timed = [(families[0][0], qualifier) for qualifier in _timed_for_all(families[0][1])] or columns
    layout = _layout(tuple(columns), tuple(timed))
    rows = zipped([of_lines(lines, layout.families[name]) for name, lines in families])
    # With the offset of one. All keys would have to be read.
    key_bytes = 4 + max([max(len(lines.row(0)), len(lines.row(-1))) for _, lines in families])
    beside = sum([key_bytes + len(name) + len(qualifier) + CELL_BYTES_BESIDE for name, qualifier in columns])
    return LinesAsRows(rows.answer(layout, reverse=reverse), layout.columns, beside)


# The windows of a scan mostly have the same columns.
@functools.lru_cache(maxsize=16)
def _layout(columns: tuple[tuple[bytes, bytes], ...], timed: tuple[tuple[bytes, bytes], ...]) -> RowLayout:
    """Returns the layout of the values of these columns, and of the timestamps of those."""
    form = [FormColumn(*column, FormPart.VALUE) for column in columns]
    form += [FormColumn(*column, FormPart.TIMESTAMP) for column in timed]
    return RowLayout(form, fixed_size=True)


def _timed_for_all(lines: Lines) -> Sequence[bytes]:
    """Returns a column whose timestamps are those of all cells of its line; empty if there is none."""
    if len(lines.timestamps) > 1:
        return ()
    return [name for name, values in zip(lines.qualifiers, lines.values, strict=True) if not values.null_count][:1]
