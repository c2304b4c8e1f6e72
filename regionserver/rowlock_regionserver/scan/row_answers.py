"""Turns a row that is read in parts into a scan's or a get's answer: as cells, or in row form as one line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import (
    QUALIFIER,
    Column,
    Mask,
    binary_array,
    column,
    single_chunk,
)
from rowlock_regionserver.arrow.masks import places_among
from rowlock_regionserver.arrow.sorted_cells import changes
from rowlock_regionserver.arrow.sorted_run import SortedRun, Values, slices_within
from rowlock_regionserver.cells import Family
from rowlock_regionserver.operations import AnswerCell
from rowlock_regionserver.scan.batches import check_line
from rowlock_regionserver.scan.pivot import pivoted
from rowlock_regionserver.scan.row_form import RowLayout
from rowlock_regionserver.scan.wide_rows import RowReading
from rowlock_regionserver.scan.window_answer import WindowAnswer, answer_columns
from rowlock_regionserver.scan.window_rows import WindowRows
from rowlock_regionserver.scan.window_selection import FamilyCells, SelectedCells


def cell_answers(reading: RowReading) -> Iterator[pa.Table | None]:
    """Yields tables of ANSWER_SCHEMA, in order, of about the reading's bytes or of one cell; None means progress."""
    keys_only = reading.selection.cells.keys_only
    for family, run in reading.answered():
        if not len(run):
            yield None
        elif keys_only:
            yield answer_columns(family, run, keys_only=True)
        else:
            for start, stop in slices_within(run.values.byte_counts(), reading.bytes_max):
                yield answer_columns(family, run.slice(start, stop), keys_only=False)


def row_answers(reading: RowReading) -> Iterator[WindowAnswer | None]:
    """Yields the row's cells as parts of a scan's answer, nothing for a row without cells; None means progress."""
    held: pa.Table | None = None
    starts = np.zeros(1, np.int64)
    for table in cell_answers(reading):
        if table is None:
            yield None
            continue
        if held is not None:
            yield WindowAnswer(held, starts, is_part=True, row_continues=True)
            starts = np.zeros(0, np.int64)
        held = table
    if held is not None:
        yield WindowAnswer(held, starts, is_part=True)


def point_answer(reading: RowReading) -> Iterator[list[AnswerCell]]:
    """Yields the row's cells as a get answers them, some at a time."""
    for table in cell_answers(reading):
        if table is not None:
            columns = [table.column(place).to_pylist() for place in range(1, table.num_columns)]
            yield list(zip(*columns, strict=True))


def row_line(reading: RowReading, form: RowLayout, line_bytes_max: int) -> Iterator[WindowAnswer | None]:
    """Yields the row as one line of the form, or nothing for a row without answered cells; None means progress.

    Holds the contents of the line. Raises LimitExceededError when they exceed `line_bytes_max`.
    """
    keys_only = reading.selection.cells.keys_only
    families: dict[bytes, _FormCells] = {}
    byte_count = form.bytes_beside_values + len(reading.row)
    for family, run in reading.answered():
        yield None
        if not len(run):
            continue
        cells = families.setdefault(family.name, _FormCells(family))
        of_form = form.families.get(family.name)
        codes = np.full(len(run), -1, np.int16)
        if of_form is not None:
            codes = places_among(column(single_chunk(run.keys), QUALIFIER), of_form.qualifiers)
        valued = (codes >= 0) & (codes < (of_form.valued_count if of_form is not None else 0))
        wanted = codes >= 0
        # One cell of any column is kept, so that the pivot makes a line.
        wanted[0] |= not cells.keys
        newest = changes(np.where(wanted, codes, -1 - np.arange(len(run))))
        valued &= newest & (not keys_only)
        byte_count += int(run.values.byte_counts()[valued].sum())
        check_line(reading.row, byte_count, line_bytes_max)  # before the values are read
        cells.add(run, wanted & newest, valued)
    if not families:
        return
    parts = tuple([cells.family_cells() for cells in families.values()])
    selected = SelectedCells(
        parts,
        tuple([part.run.keys for part in parts]),
        tuple([np.ones(len(part.run), np.bool_) for part in parts]),
        WindowRows(binary_array([reading.row]), tuple([np.zeros(len(part.run), np.int64) for part in parts])),
    )
    table = pivoted(selected, form, keys_only=keys_only, reverse=False)
    yield WindowAnswer(table, np.arange(table.num_rows))


@dataclass(slots=True)
class _FormCells:
    """The cells of one family that the line needs, copied from the parts."""

    family: Family
    keys: list[pa.Table] = field(default_factory=list)
    values: list[Column] = field(default_factory=list)

    def add(self, run: SortedRun, wanted: Mask, valued: Mask) -> None:
        """Adds the cells that are wanted, with their values where `valued`."""
        cells = run.filter(wanted)
        is_valued = np.flatnonzero(valued[wanted])
        self.keys.append(single_chunk(cells.keys))
        if len(is_valued) == len(cells):
            self.values.append(cells.values.array())
        else:
            values = [b""] * len(cells)
            for cell, value in zip(is_valued.tolist(), cells.values.array(is_valued).to_pylist(), strict=True):
                values[cell] = value or b""
            self.values.append(binary_array(values))

    def family_cells(self) -> FamilyCells:
        keys = single_chunk(pa.concat_tables(self.keys))
        values = Values(pa.chunked_array(self.values, pa.binary()))
        return FamilyCells(self.family, SortedRun(keys, values), self.family.versions)
