"""Rows in a row form: of lines or of cells, of one family or of several, brought together by vector operations.

Each part has distinct rows, ascending, and some columns of the form; a column that it does not have is null in all its
rows. `interleaved` joins parts with different rows, `zipped` parts that may have rows in common.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowlock_regionserver.arrow.columns import (
    Column,
    Integers,
    Mask,
    binary_array,
    boolean_array,
    integer_array,
    sorted_distinct,
)
from rowlock_regionserver.arrow.compressed_columns import CompressedColumn, LineColumn, is_present, plain
from rowlock_regionserver.arrow.line_values import as_binary, bitmap_of, concatenated_column, spread_values
from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.arrow.masks import numpy_mask
from rowlock_regionserver.scan.answer_rows import AnswerRows
from rowlock_regionserver.scan.compressed_rows import CompressedRows
from rowlock_regionserver.scan.row_form import FamilyLayout, RowLayout
from rowlock_regionserver.scan.unread_rows import UnreadRows


@dataclass(frozen=True, slots=True)
class FormRows:
    """Distinct rows, ascending, and columns of the form by their places; a value column is fixed-size or binary."""

    keys: LineColumn
    columns: Mapping[int, LineColumn]

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def plain_keys(self) -> Column:
        """The rows' keys as a binary column."""
        return as_binary(plain(self.keys))

    def take(self, indices: Column) -> FormRows:
        """Returns the rows at these places."""
        return FormRows(
            self.plain_keys.take(indices), {place: column.take(indices) for place, column in self.columns.items()}
        )

    def filter(self, mask: Mask) -> FormRows:
        """Returns the rows where `mask` is true; itself if it is true everywhere."""
        return self if mask.all() else self.take(integer_array(np.flatnonzero(mask), pa.int64()))

    def answer(self, form: RowLayout, *, reverse: bool) -> AnswerRows:
        """Returns the rows in the form's columns: unread if they may stay so, compressed if that saves bytes."""
        rows = self.take(integer_array(np.arange(len(self))[::-1], pa.int64())) if reverse else self
        columns = [rows.columns.get(place) for place in range(len(form.columns))]
        unread = UnreadRows.of(rows.keys, columns, form)
        if unread is not None:
            return unread
        compressed = CompressedRows(rows.keys, columns, form)
        return compressed if compressed.is_worth_it else compressed.table()


NO_ROWS = FormRows(binary_array([]), {})


def of_lines(lines: Lines, form: FamilyLayout | None) -> FormRows:
    """Returns lines, one a row, as rows with the form's columns of their family."""
    columns: dict[int, LineColumn] = {}
    if form is None:
        return FormRows(lines.keys, columns)
    names = form.qualifiers.to_pylist()
    place_of = {qualifier: place for place, qualifier in enumerate(lines.qualifiers)}
    for code, place in form.values:
        at = place_of.get(names[code] or b"")
        if at is not None:
            columns[place] = lines.values[at]
    for code, place in form.timestamps:
        at = place_of.get(names[code] or b"")
        if at is not None:
            stamps = np.ascontiguousarray(lines.numbers_of(lines.timestamps, at))
            bitmap = bitmap_of(is_present(lines.values[at]))
            columns[place] = pa.Array.from_buffers(pa.int64(), len(lines), [bitmap, pa.py_buffer(stamps.data)])
    return FormRows(lines.keys, columns)


def interleaved(parts: Sequence[FormRows]) -> FormRows:
    """Returns the rows of all parts, which have no row in common, by key."""
    filled = [part for part in parts if len(part)]
    if len(filled) < 2:
        return filled[0] if filled else NO_ROWS
    joined = _concatenated(filled)
    return joined.take(pc.call_function("array_sort_indices", [joined.plain_keys]))


def _concatenated(parts: Sequence[FormRows]) -> FormRows:
    counts = [len(part) for part in parts]
    places = sorted({place for part in parts for place in part.columns})
    return FormRows(
        pa.concat_arrays([part.plain_keys for part in parts]),
        {place: concatenated_column([_plain(part, place) for part in parts], counts) for place in places},
    )


def _plain(rows: FormRows, place: int) -> Column | None:
    column = rows.columns.get(place)
    return None if column is None else plain(column)


def zipped(parts: Sequence[FormRows]) -> FormRows:
    """Returns all rows of all parts, side by side; the parts have different columns."""
    filled = [part for part in parts if len(part)]
    if len(filled) < 2:
        return filled[0] if filled else NO_ROWS
    of_parts = [part.plain_keys for part in filled]
    if all(keys.equals(of_parts[0]) for keys in of_parts[1:]):
        # The usual case: each row has cells in each family.
        columns = {place: column for part in filled for place, column in part.columns.items()}
        keys = next((part.keys for part in filled if isinstance(part.keys, CompressedColumn)), of_parts[0])
        return FormRows(keys, columns)
    keys = sorted_distinct(pa.concat_arrays(of_parts))
    columns = {}
    for part in filled:
        if len(part) == len(keys):
            columns.update(part.columns)
        elif part.columns:
            places = np.flatnonzero(
                numpy_mask(pc.call_function("is_in", [keys], pc.SetLookupOptions(value_set=part.plain_keys)))
            )
            columns.update({place: _spread(plain(column), places, len(keys)) for place, column in part.columns.items()})
    return FormRows(keys, columns)


def _spread(column: Column, places: Integers, count: int) -> Column:
    """Returns `count` lines with the column's values at these places, which ascend, and nulls elsewhere."""
    if pa.types.is_integer(column.type):
        found = np.zeros(count, np.bool_)
        found[places] = True
        indices = np.cumsum(found) - 1
        return column.take(pa.Array.from_buffers(pa.int64(), count, [bitmap_of(found), pa.py_buffer(indices.data)]))
    # Not by indices with nulls: Arrow would reserve the values' average length for each null.
    present = is_present(column)
    return spread_values(as_binary(column.drop_null()), places[present], count)


def present_values(rows: FormRows, place: int) -> tuple[Integers, Column]:
    """Returns the rows that have a value of the column at `place`, and the values, in their variable form."""
    column = rows.columns.get(place)
    if column is None:
        return np.zeros(0, np.int64), binary_array([])
    column = plain(column)
    present = is_present(column)
    return np.flatnonzero(present), as_binary(column if present.all() else column.filter(boolean_array(present)))
