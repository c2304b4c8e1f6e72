"""Merges the chunks of one family and window for the row form: lines stay lines wherever one line decides a row.

1. A chunk is visible if its numbers prove that every cell is a put that the read point sees and that can't expire. The
   cells of a visible chunk are formed into lines if other chunks have lines.
2. A row that only one line has passes as it is.
3. A row of several visible lines, its versions or those of several sources, becomes one line: of each column the
   newest value. Only the row's place, timestamp, write number and validity decide; values are copied once.
4. The other rows are merged as cells: those that have cells in a chunk that is not visible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import (
    ROW,
    Column,
    Integers,
    Mask,
    distinct_of_sorted,
    integer_array,
    single_array,
    sorted_distinct,
)
from rowlock_regionserver.arrow.line_forming import lines_of
from rowlock_regionserver.arrow.line_merging import concatenated_lines, in_succession
from rowlock_regionserver.arrow.line_values import bitmap_of, is_present
from rowlock_regionserver.arrow.lines import Lines, cells_of
from rowlock_regionserver.arrow.sorted_cells import changes
from rowlock_regionserver.arrow.sorted_run import SortedRun
from rowlock_regionserver.scan.window_rows import ranked
from rowlock_regionserver.sources import Chunk


@dataclass(frozen=True, slots=True)
class WindowLines:
    """The visible lines, one a row, and for the other rows the runs to merge as cells.

    `present` are rows of `runs`, ascending, that are certainly there, even if no visible cell of them was read.
    """

    lines: Lines | None
    runs: list[SortedRun]
    present: Column | None = None


@dataclass(frozen=True, slots=True)
class _Part:
    """The lines of one visible chunk. `is_narrow` as in Chunk."""

    lines: Lines
    is_narrow: bool


def window_lines(
    chunks: Sequence[Chunk], is_visible: Callable[[Chunk], bool], columns: frozenset[bytes]
) -> WindowLines:
    """Merges chunks of whole rows, of which some have lines. Of the lines only these columns are needed."""
    parts = [_Part(chunk.lines, chunk.is_narrow) for chunk in chunks if chunk.lines is not None and is_visible(chunk)]
    runs: list[SortedRun] = []
    for chunk in chunks:
        is_seen = is_visible(chunk)
        if chunk.lines is not None and is_seen:
            continue
        run = chunk.run()
        if parts and is_seen and not chunk.away:
            formed, rest = lines_of(run.table())
            if formed is not None:
                parts.append(_Part(formed, is_narrow=False))
                run = SortedRun.of_table(rest)
        if len(run):
            runs.append(run)
    if not parts:
        return WindowLines(None, runs)
    successive = None if runs else in_succession([part.lines for part in parts])
    if successive is not None and not any(lines.has_versions for lines in successive):
        return WindowLines(concatenated_lines([lines.select(columns) for lines in successive]), [])
    # The longest comes first: if the others have no rows of their own, `ranked` sorts none.
    parts.sort(key=lambda part: len(part.lines), reverse=True)
    return _merged(parts, runs, columns)


def _merged(parts: Sequence[_Part], runs: list[SortedRun], columns: frozenset[bytes]) -> WindowLines:
    rows_of_lines = [part.lines.rows for part in parts]
    rows_of_runs = [distinct_of_sorted(single_array(run.keys.column(ROW))) for run in runs]
    distinct, places = ranked(pa.concat_arrays([*rows_of_lines, *rows_of_runs]))
    line_count = sum(map(len, rows_of_lines))
    is_mixed = np.zeros(len(distinct), np.bool_)
    is_mixed[places[line_count:]] = True
    of_lines = places[:line_count]
    mixed = is_mixed[of_lines]
    kept: list[Lines] = []
    present: list[Column] = []
    start = 0
    for part in parts:
        of_part = mixed[start : start + len(part.lines)]
        start += len(part.lines)
        if of_part.any():
            among_cells = part.lines.filter(of_part)
            runs.append(SortedRun.of_table(cells_of(among_cells)))
            if part.is_narrow:
                present.append(among_cells.rows)
        kept.append(part.lines.filter(~of_part).select(columns))
    lines = _one_a_row(concatenated_lines(kept), of_lines[~mixed])
    certain = sorted_distinct(pa.concat_arrays(present)) if present else None
    return WindowLines(lines, [run for run in runs if len(run)], certain)


def _one_a_row(lines: Lines, place: Integers) -> Lines:
    """Returns one line a row, by row; `place` is the row's, equal for lines of one row."""
    if not len(lines):
        return lines
    is_single = np.bincount(place)[place] == 1
    if not is_single.all():
        newest = _newest(lines.filter(~is_single), place[~is_single])
        lines = concatenated_lines([lines.filter(is_single), newest])
        place = np.concatenate([place[is_single], np.unique(place[~is_single])])
    if (place[1:] > place[:-1]).all():
        return lines
    return lines.take(np.argsort(place, kind="stable"))


def _newest(lines: Lines, place: Integers) -> Lines:
    """Returns one line a row, of each column the newest value; `place` is the row's, equal for lines of one row."""
    if lines.timestamps.shape[0] > 1 or lines.write_numbers.shape[0] > 1:
        return _newest_by_cell(lines, place)
    count = len(lines)
    timestamps, write_numbers = (lines.numbers_of(each, 0) for each in (lines.timestamps, lines.write_numbers))
    order = np.lexsort((-write_numbers, -timestamps, place))
    starts = np.flatnonzero(changes(place[order]))
    columns, stamps = [], np.empty((len(lines.columns), len(starts)), np.int64)
    for code, column in enumerate(lines.columns):
        # The first line of the row, newest first, that has a cell.
        nearest = np.minimum.reduceat(np.where(is_present(column)[order], np.arange(count), count), starts)
        columns.append(_taken(column, order, nearest))
        stamps[code] = timestamps[order[np.minimum(nearest, count - 1)]]
    first = integer_array(order[starts], pa.int64())
    return Lines(lines.rows.take(first), stamps if columns else _ZERO, _ZERO, lines.qualifiers, tuple(columns))


def _newest_by_cell(lines: Lines, place: Integers) -> Lines:
    count = len(lines)
    row_order = np.argsort(place, kind="stable")
    starts = np.flatnonzero(changes(place[row_order]))
    columns, stamps = [], np.empty((len(lines.columns), len(starts)), np.int64)
    for code, column in enumerate(lines.columns):
        timestamps = lines.numbers_of(lines.timestamps, code)
        order = np.lexsort((-lines.numbers_of(lines.write_numbers, code), -timestamps, ~is_present(column), place))
        nearest = np.where(is_present(column)[order[starts]], starts, count)
        columns.append(_taken(column, order, nearest))
        stamps[code] = timestamps[order[starts]]
    first = integer_array(row_order[starts], pa.int64())
    return Lines(lines.rows.take(first), stamps if columns else _ZERO, _ZERO, lines.qualifiers, tuple(columns))


# Nothing is decided by write numbers after this.
_ZERO = np.zeros((1, 1), np.int64)


def _taken(column: Column, order: Integers, nearest: Integers) -> Column:
    """Returns the values at order[nearest]; null where `nearest` is beyond the end."""
    found: Mask = nearest < len(order)
    places = order[np.where(found, nearest, 0)]
    indices = pa.Array.from_buffers(pa.int64(), len(places), [bitmap_of(found), pa.py_buffer(places.data)])
    return column.take(indices)
