"""The chosen cells of a window as a table with one line a row: the row form, by vector operations.

1. The rows with a cell that is answered are numbered in the scan's order: they are the lines.
2. Of each family, the cells that the form asks for are put column by column, by a stable sort of small numbers.
3. Their values are copied into that order at once; a column of the form is a slice of the copy.
4. A line without a cell of the column is null. In a column of bytes that is an offset said twice, and no byte moves.

For example, cells (a, p, 1) (a, q, 2) (b, q, 3) and the form (p, q): lines a, b; ordered p: 1, q: 2 3; so column 0 is
[1, null] with the offsets 0 1 1 into "123", column 1 is [2, 3] with 1 2 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowlock_regionserver.errors import LimitExceededError
from rowlock_regionserver.scan.by_qualifier import by_qualifier
from rowlock_regionserver.scan.columns import (
    BINARY_COLUMN_BYTES_MAX,
    TIMESTAMP,
    VALUE,
    Column,
    Integers,
    Mask,
    column,
    constant_binary_array,
    integer_array,
    integers,
    offsets,
    values_where,
)
from rowlock_regionserver.scan.masks import buffer_of, places_among
from rowlock_regionserver.scan.merge import first_row
from rowlock_regionserver.scan.row_form import FamilyForm, RowForm
from rowlock_regionserver.scan.selection_columns import first_of_runs
from rowlock_regionserver.scan.window_choice import ChosenCells

Offsets = npt.NDArray[np.int32]


def pivoted(chosen: ChosenCells, form: RowForm, *, keys_only: bool, reverse: bool) -> pa.Table:
    """The window's answered rows in the form's schema, one chunk a column; with `keys_only` values are empty.

    Some 20 M cells/s for values of 100 bytes. Raises LimitExceededError when the values pass 2 GiB, which one column
    of bytes can't hold: windows are far smaller, so that is one enormous row.
    """
    keys, lines = _lines(chosen, reverse)
    columns: list[Column | None] = [None] * len(form.schema)
    columns[0] = keys
    for index, cells in enumerate(chosen.families):
        of_family = form.families.get(cells.family.name)
        if of_family is not None:
            placed = _placed(chosen, index, of_family, lines, reverse)
            _fill(columns, placed, of_family, chosen.tables[index], len(keys), keys_only=keys_only)
    return pa.Table.from_arrays(
        [
            pa.nulls(len(keys), field.type) if array is None else array
            for field, array in zip(form.schema, columns, strict=True)
        ],
        schema=form.schema,
    )


def _lines(chosen: ChosenCells, reverse: bool) -> tuple[Column, Integers]:
    """The keys of the rows that are answered, in the scan's order; and for each row of the window its line."""
    is_answered = np.zeros(len(chosen.rows.keys), np.bool_)
    for places in chosen.rows_of_chosen():
        is_answered[places] = True
    rows = np.flatnonzero(is_answered)
    lines = np.cumsum(is_answered) - 1
    if reverse:
        return _taken(chosen.rows.keys, rows[::-1]), len(rows) - 1 - lines
    return chosen.rows.keys if len(rows) == len(is_answered) else _taken(chosen.rows.keys, rows), lines


def _taken(array: Column, places: Integers) -> Column:
    return array.take(integer_array(places, pa.int64()))


@dataclass(frozen=True, slots=True)
class _PlacedCells:
    """The cells of one family that stand in the form, column by column, each column's by line.

    Column c's are those from bounds[c] to bounds[c + 1]; a line has one at most.
    """

    cells: Integers  # their places in the family's table
    lines: Integers
    bounds: Integers


def _placed(chosen: ChosenCells, index: int, form: FamilyForm, lines: Integers, reverse: bool) -> _PlacedCells:
    columns_of = by_qualifier(chosen.tables[index], partial(places_among, operands=form.qualifiers))
    cells = np.flatnonzero(chosen.masks[index] & (columns_of >= 0))
    lines_of = lines[chosen.rows.of_cells[index][cells]]
    columns_of = columns_of[cells]
    if chosen.families[index].versions_max > 1:
        # A column's versions stand together, the newest first.
        newest = first_of_runs(lines_of * len(form.qualifiers) + columns_of)
        cells, lines_of, columns_of = cells[newest], lines_of[newest], columns_of[newest]
    if reverse:
        cells, lines_of, columns_of = cells[::-1], lines_of[::-1], columns_of[::-1]
    order = np.argsort(columns_of, kind="stable")
    bounds = np.zeros(len(form.qualifiers) + 1, np.int64)
    np.cumsum(np.bincount(columns_of, minlength=len(form.qualifiers)), out=bounds[1:])
    return _PlacedCells(cells[order], lines_of[order], bounds)


def _fill(
    columns: list[Column | None],
    placed: _PlacedCells,
    form: FamilyForm,
    table: pa.Table,
    line_count: int,
    *,
    keys_only: bool,
) -> None:
    """Puts the family's columns to their places in the form, behind the rows."""
    values = timestamps = None
    if form.values:
        valued = placed.cells[: placed.bounds[form.valued_count]]
        values = constant_binary_array(b"", len(valued)) if keys_only else _values_of(table, valued)
    if form.timestamps:
        timestamps = integers(column(table, TIMESTAMP))[placed.cells]
    for code, place in form.values:
        assert values is not None
        start, stop = int(placed.bounds[code]), int(placed.bounds[code + 1])
        columns[1 + place] = _spread_values(values.slice(start, stop - start), placed.lines[start:stop], line_count)
    for code, place in form.timestamps:
        assert timestamps is not None
        start, stop = int(placed.bounds[code]), int(placed.bounds[code + 1])
        columns[1 + place] = _spread_integers(timestamps[start:stop], placed.lines[start:stop], line_count)


def _values_of(table: pa.Table, cells: Integers) -> pa.BinaryArray:
    """The values of these cells, in their order. Those of others are not touched."""
    values: pa.ChunkedArray[Any] = table.column(VALUE)
    is_in_order = bool((cells[1:] > cells[:-1]).all())
    # Where nothing moves, as in a form of one column, choosing is three times as fast as placing.
    length = 0 if is_in_order else _common_length(values)
    if length:
        return _values_of_length(values, length, cells)
    is_taken = np.zeros(table.num_rows, np.bool_)
    is_taken[cells] = True
    _check_size(table, is_taken)
    together = values_where(table, is_taken)
    if is_in_order:
        return together
    places = cells if len(cells) == len(is_taken) else (np.cumsum(is_taken) - 1)[cells]
    array = _taken(together, places)
    assert isinstance(array, pa.BinaryArray)
    return array


def _common_length(values: pa.ChunkedArray[Any]) -> int:
    """The length that all values have; 0 when they differ, and when they are too many bytes for one column."""
    chunks = [offsets(chunk) for chunk in values.chunks if len(chunk)]
    length = int(chunks[0][1] - chunks[0][0])
    if len(values) * length > BINARY_COLUMN_BYTES_MAX:
        return 0
    return length if all((np.diff(bounds) == length).all() for bounds in chunks) else 0


def _values_of_length(values: pa.ChunkedArray[Any], length: int, cells: Integers) -> pa.BinaryArray:
    """The same for values of one length, which are copied once, and not put together before."""
    goes_to = np.full(len(values), -1, np.int64)
    goes_to[cells] = np.arange(len(cells))
    data = pa.allocate_buffer(len(cells) * length)
    out = np.frombuffer(memoryview(data), f"V{length}")
    start = 0
    for chunk in values.chunks:
        bounds = offsets(chunk)
        given = np.frombuffer(buffer_of(chunk, 2)[bounds[0] : bounds[-1]], f"V{length}")
        places = goes_to[start : start + len(given)]
        if len(cells) < len(values):
            is_taken = places >= 0
            given, places = given[is_taken], places[is_taken]
        out[places] = given
        start += len(chunk)
    return _binary(len(cells), None, np.arange(len(cells) + 1, dtype=np.int32) * length, data)


def _check_size(table: pa.Table, is_taken: Mask) -> None:
    # What is shared with other tables is counted whole by the first, which is quick; what is taken, by the second.
    chunked = table.column(VALUE)
    if chunked.get_total_buffer_size() <= BINARY_COLUMN_BYTES_MAX:
        return
    lengths = np.concatenate([np.diff(offsets(chunk)) for chunk in chunked.chunks])
    byte_count = int(lengths[is_taken].sum(dtype=np.int64))
    if byte_count > BINARY_COLUMN_BYTES_MAX:
        row = first_row(table)
        raise LimitExceededError(
            f"the cells around row {row!r} take {byte_count} bytes in one family, more than the row form can hold; "
            "scan them without it, or ask for fewer columns",
            limit="binary_column_bytes_max",
            limit_value=BINARY_COLUMN_BYTES_MAX,
            found=byte_count,
            row=row,
        )


def _spread_values(values: pa.BinaryArray, lines: Integers, line_count: int) -> Column:
    """The values on their lines, nulls on all others."""
    if len(values) == line_count:
        return values
    is_there = _is_there(lines, line_count)
    before = np.zeros(line_count + 1, np.int64)
    np.cumsum(is_there, out=before[1:])
    return _binary(line_count, is_there, offsets(values)[before], values.buffers()[2])


def _spread_integers(numbers: Integers, lines: Integers, line_count: int) -> Column:
    if len(numbers) == line_count:
        return integer_array(numbers, pa.int64())
    is_there = _is_there(lines, line_count)
    spread = np.zeros(line_count, np.int64)
    spread[lines] = numbers
    return pa.Array.from_buffers(pa.int64(), line_count, [_bitmap(is_there), pa.py_buffer(spread.data)])


def _is_there(lines: Integers, line_count: int) -> Mask:
    is_there = np.zeros(line_count, np.bool_)
    is_there[lines] = True
    return is_there


def _binary(count: int, is_there: Mask | None, bounds: Offsets, data: pa.Buffer | None) -> pa.BinaryArray:
    bitmap = None if is_there is None else _bitmap(is_there)
    array = pa.Array.from_buffers(pa.binary(), count, [bitmap, pa.py_buffer(bounds.data), data or pa.py_buffer(b"")])
    assert isinstance(array, pa.BinaryArray)
    return array


def _bitmap(is_there: Mask) -> pa.Buffer:
    return pa.py_buffer(np.packbits(is_there, bitorder="little").data)
