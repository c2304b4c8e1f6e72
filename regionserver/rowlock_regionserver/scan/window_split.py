"""Splits a window that values which are away would make too large, into windows and wide rows in the scan's order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rowlock_regionserver.arrow.cell_columns import first_not_below
from rowlock_regionserver.arrow.columns import ROW, Column, bytes_at, column, single_chunk, single_chunk_keys
from rowlock_regionserver.arrow.sorted_run import SortedRun, slices_within
from rowlock_regionserver.cells import Family
from rowlock_regionserver.scan.window_rows import window_rows
from rowlock_regionserver.scan.window_selection import FamilyCells
from rowlock_regionserver.sources import Source

# The families that are requested or that the filter reads, by name.
View = Sequence[tuple[Family, Sequence[Source]]]


@dataclass(frozen=True, slots=True)
class Window:
    """The visible cells of whole rows, by family name; may be empty. `resume_key`: see WindowReader.next."""

    families: Sequence[FamilyCells]
    resume_key: bytes


@dataclass(frozen=True, slots=True)
class WideRow:
    """A row that is not read whole, and the sources of its families, by name.

    `resume_key` is the resume key after the row has been answered.
    """

    row: bytes
    view: View
    resume_key: bytes


def split_window(
    families: Sequence[FamilyCells], view: View, window_resume_key: bytes, bytes_max: int, *, reverse: bool
) -> list[Window | WideRow]:
    """Returns the parts of a window, each of about `bytes_max` of values, in the scan's order; at least one."""
    present = [cells for cells in families if len(cells.run)]
    if not any(cells.run.values.are_away for cells in present):
        return [Window(families, window_resume_key)]
    rows = window_rows([single_chunk_keys(cells.run.keys) for cells in present])
    byte_counts, cell_counts = np.zeros(len(rows.keys), np.int64), np.zeros(len(rows.keys), np.int64)
    for cells, places in zip(present, rows.of_cells, strict=True):
        np.add.at(byte_counts, places, cells.run.values.byte_counts())
        np.add.at(cell_counts, places, 1)
    slices = list(slices_within(byte_counts, bytes_max))
    parts: list[Window | WideRow] = []
    for start, stop in reversed(slices) if reverse else slices:
        # Rows without cells belong to the part before them, or to the first one.
        first = bytes_at(rows.keys, start) if start else b""
        last = bytes_at(rows.keys, stop) if stop < len(rows.keys) else None
        resume_key = window_resume_key
        if reverse and start:
            resume_key = first
        elif not reverse and last is not None:
            resume_key = last
        if byte_counts[start] > bytes_max and cell_counts[start] > 1:
            row = bytes_at(rows.keys, start)
            parts += _around(row, view, families, (first, last), resume_key, reverse=reverse)
        else:
            parts.append(Window(_between(families, first, last), resume_key))
    return parts


def _around(
    row: bytes,
    view: View,
    families: Sequence[FamilyCells],
    bounds: tuple[bytes, bytes | None],
    resume_key: bytes,
    *,
    reverse: bool,
) -> list[Window | WideRow]:
    """Returns the parts of [first, last), in which only lines are beside the wide row, in the scan's order."""
    first, last = bounds
    behind = row + b"\x00"
    before, after = _between(families, first, row), _between(families, behind, last)
    ascending: list[tuple[bytes, Sequence[FamilyCells] | None]] = [(first, before), (row, None), (behind, after)]
    pieces = [(begin, piece) for begin, piece in ascending if piece is None or any(map(_has_rows, piece))]
    if reverse:
        pieces.reverse()
    parts: list[Window | WideRow] = []
    for number, (begin, piece) in enumerate(pieces):
        key = resume_key
        if number + 1 < len(pieces):
            key = begin if reverse else pieces[number + 1][0]
        parts.append(WideRow(row, view, key) if piece is None else Window(piece, key))
    return parts


def _has_rows(cells: FamilyCells) -> bool:
    return any(each is not None and len(each) > 0 for each in (cells.run, cells.lines, cells.present))


def _between(families: Sequence[FamilyCells], first: bytes, last: bytes | None) -> list[FamilyCells]:
    """Returns the families' rows of [first, last); None: no bound."""
    return [_rows_between(cells, first, last) for cells in families]


def _rows_between(cells: FamilyCells, first: bytes, last: bytes | None) -> FamilyCells:
    lines, present = cells.lines, cells.present
    if lines is not None:
        start, stop = _places(lines.rows, first, last)
        lines = lines.slice(start, stop) if start < stop else None
    if present is not None:
        start, stop = _places(present, first, last)
        present = present.slice(start, stop - start)
    run = cells.run
    if len(run):
        run = SortedRun(single_chunk(run.keys), run.values)
        run = run.slice(*_places(column(run.keys, ROW), first, last))
    return replace(cells, run=run, lines=lines, present=present)


def _places(ascending: Column, first: bytes, last: bytes | None) -> tuple[int, int]:
    start = first_not_below(ascending, first)
    return start, max(start, len(ascending) if last is None else first_not_below(ascending, last))
