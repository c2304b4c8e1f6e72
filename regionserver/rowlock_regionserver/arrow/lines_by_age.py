"""Divides lines, of which some rows have several, into the newest cells and the older ones.

A reader that wants the newest cell of each column needs only the former, one line a row.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import Integers, Mask, boolean_array, integer_array
from rowlock_regionserver.arrow.line_numbers import numbers_at
from rowlock_regionserver.arrow.line_values import is_present
from rowlock_regionserver.arrow.lines import Lines


def divided_by_age(lines: Lines) -> tuple[Lines, Lines]:
    """Returns one line for each row, with the newest cell of each of its columns, and lines of all other cells.

    The first have numbers by cell if a row's newest line lacks a column that an older one has.
    """
    firsts = np.flatnonzero(lines.starts_row)
    others = np.flatnonzero(~lines.starts_row)
    newest, older, places = [], [], []
    for column in lines.columns:
        at, left = firsts, integer_array(others, pa.int64())
        if column.null_count:
            at = _newest_places(is_present(column), firsts, lines)
            validity, places_left = boolean_array(~np.isin(others, at)).buffers()[1], left.buffers()[1]
            left = pa.Array.from_buffers(pa.int64(), len(others), [validity, places_left])
        newest.append(column.take(integer_array(at, pa.int64())))
        older.append(column.take(left))
        places.append(at)
    of_newest = Lines(
        lines.rows.take(integer_array(firsts, pa.int64())),
        _numbers_of_columns(lines.timestamps, places, firsts),
        _numbers_of_columns(lines.write_numbers, places, firsts),
        lines.qualifiers,
        tuple(newest),
    )
    rest = Lines(
        lines.rows.take(integer_array(others, pa.int64())),
        numbers_at(lines.timestamps, others),
        numbers_at(lines.write_numbers, others),
        lines.qualifiers,
        tuple(older),
    )
    return of_newest, rest.filter(rest.has_cells())


def _newest_places(present: Mask, firsts: Integers, lines: Lines) -> Integers:
    """Returns for each row its first line with a cell; its first line if none has one."""
    found = np.flatnonzero(present)
    row_numbers = np.cumsum(lines.starts_row) - 1
    rows, first_found = np.unique(row_numbers[found], return_index=True)
    places = firsts.copy()
    places[rows] = found[first_found]
    return places


def _numbers_of_columns(numbers: Integers, places: list[Integers], firsts: Integers) -> Integers:
    """Returns the numbers, one a line, of the cells at the places of each column."""
    if numbers.shape[1] == 1 or all(np.array_equal(at, firsts) for at in places):
        return numbers_at(numbers, firsts)
    return np.stack([numbers[0][at] for at in places])
