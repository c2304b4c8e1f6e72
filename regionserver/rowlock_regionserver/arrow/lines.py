"""Cells of one family in wide form: one line a row, one Arrow column a qualifier.

In a table that is used like a relational one most rows have the same columns. As cells, each value repeats its row,
qualifier, timestamp and write number; as lines it costs its own bytes. Lines hold puts only. A null is an absent cell,
and empty bytes are a value.

    row   timestamp  write number   a      b      c           cells
    r1    100        7              x1     y1     z1          (r1,a,100,7,x1) (r1,b,100,7,y1) (r1,c,100,7,z1)
    r2    100        7              x2     null   z2          (r2,a,100,7,x2) (r2,c,100,7,z2)

A row may have several lines, its versions: then a line has one timestamp and one write number, and a row's lines are
ordered by timestamp descending, then write number descending.

`cells_of` and `line_forming.lines_of` convert without loss. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowlock_regionserver.arrow.columns import (
    Column,
    Integers,
    Mask,
    binary_array,
    boolean_array,
    bytes_at,
    empty_cells,
    equals_previous,
    integer_array,
)
from rowlock_regionserver.arrow.compressed_columns import CompressedColumn, LineColumn, is_present, plain
from rowlock_regionserver.arrow.dense_lines import Piece, are_dense, dense_cells
from rowlock_regionserver.arrow.line_numbers import numbers_at
from rowlock_regionserver.arrow.line_values import as_binary, cell_bytes, spread_values
from rowlock_regionserver.arrow.stored_lines import StoredLines
from rowlock_regionserver.cells import CELL_SCHEMA, PUT, TIMESTAMP_MAX


@dataclass(frozen=True)
class Lines:
    """Puts of one family, one line a row or a version of a row, ascending. Immutable.

    The numbers have the shape (1, 1) if all cells share one, (1, lines) if the cells of a line do, else
    (columns, lines), where those of absent cells are undefined. A row with several lines has one of the first two.
    """

    rows: Column  # binary without nulls
    timestamps: Integers
    write_numbers: Integers
    qualifiers: tuple[bytes, ...]  # ascending
    # Binary or fixed-size binary, null where the line has no cell. Those of a scan may still be compressed.
    values: tuple[LineColumn, ...]
    # The lines as they are stored, if a scan may pass their rows on.
    stored: StoredLines | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def keys(self) -> LineColumn:
        """The rows, compressed if they are stored so."""
        return self.rows if self.stored is None else CompressedColumn(self.stored, None)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The values, decompressed."""
        return tuple(map(plain, self.values))

    def slice(self, start: int, stop: int) -> Lines:
        """Returns the lines [start, stop), uncopied."""
        if start == 0 and stop == len(self):
            return self
        part = Lines(
            self.rows.slice(start, stop - start),
            numbers_at(self.timestamps, slice(start, stop)),
            numbers_at(self.write_numbers, slice(start, stop)),
            self.qualifiers,
            tuple([column.slice(start, stop - start) for column in self.values]),
            None if self.stored is None else self.stored.slice(start, stop - start),
        )
        starts_row = self.__dict__.get("starts_row")
        if starts_row is not None and starts_row[start : start + 1].all():
            part.__dict__["starts_row"] = starts_row[start:stop]  # The slice begins at a row, so this is its mask.
        return part

    def take(self, places: Integers) -> Lines:
        """Returns the lines at these places, in their order, which must be that of the rows."""
        indices = integer_array(places, pa.int64())
        return Lines(
            self.rows.take(indices),
            numbers_at(self.timestamps, places),
            numbers_at(self.write_numbers, places),
            self.qualifiers,
            tuple([column.take(indices) for column in self.columns]),
        )

    def filter(self, mask: Mask) -> Lines:
        """Returns the lines where `mask` is true; itself if it is true everywhere."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def select(self, qualifiers: Collection[bytes]) -> Lines:
        """Returns the same lines with these columns only, as far as they exist. A line may have no cell then."""
        kept = [place for place, qualifier in enumerate(self.qualifiers) if qualifier in qualifiers]
        if len(kept) == len(self.values):
            return self
        return Lines(
            self.rows,
            _of_columns(self.timestamps, kept),
            _of_columns(self.write_numbers, kept),
            tuple([self.qualifiers[place] for place in kept]),
            tuple([self.values[place] for place in kept]),
            self.stored,
        )

    def row(self, line: int) -> bytes:
        """Returns the row of a line; -1 is the last one."""
        return bytes_at(self.rows, line)

    def column(self, qualifier: bytes) -> LineColumn | None:
        """Returns the column; None if no line has a cell of it."""
        try:
            return self.values[self.qualifiers.index(qualifier)]
        except ValueError:
            return None

    def numbers_of(self, numbers: Integers, place: int) -> Integers:
        """Returns the timestamps or write numbers of the column at `place`, one a line."""
        of_column = numbers[place if numbers.shape[0] > 1 else 0]
        spread: Integers = np.broadcast_to(of_column, len(self))
        return spread

    def has_cells(self) -> Mask:
        """Returns which lines have a cell."""
        some = np.zeros(len(self), np.bool_)
        for column in self.values:
            if not column.null_count:
                return np.ones(len(self), np.bool_)
            some |= is_present(column)
        return some

    def later_than(self, timestamp: int) -> Lines:
        """Returns the cells with greater timestamps, without lines and columns that have none; itself if all have."""
        if self.timestamps.min(initial=TIMESTAMP_MAX) > timestamp:
            return self
        if len(self.timestamps) == 1:
            return self.filter(self.numbers_of(self.timestamps, 0) > timestamp)
        masks = [
            is_present(column) & (of_column > timestamp)
            for of_column, column in zip(self.timestamps, self.columns, strict=True)
        ]
        kept = [place for place, mask in enumerate(masks) if mask.any()]
        later = Lines(
            self.rows,
            _of_columns(self.timestamps, kept),
            _of_columns(self.write_numbers, kept),
            tuple([self.qualifiers[place] for place in kept]),
            tuple([_values_on(self.columns[place], masks[place]) for place in kept]),
        )
        return later.filter(later.has_cells())

    @cached_property
    def starts_row(self) -> Mask:
        """Which lines are the first of their row."""
        return ~equals_previous(self.rows)

    @property
    def has_versions(self) -> bool:
        """Whether some row has more than one line."""
        return not bool(self.starts_row.all())

    @property
    def distinct_rows(self) -> Column:
        """Each row once."""
        return self.rows.filter(boolean_array(self.starts_row)) if self.has_versions else self.rows

    @property
    def is_by_cell(self) -> bool:
        """Whether the cells of a line may have different numbers."""
        return len(self.timestamps) > 1 or len(self.write_numbers) > 1

    @cached_property
    def cell_count(self) -> int:
        """The number of cells."""
        return sum([len(column) - column.null_count for column in self.values])

    @property
    def bytes_held(self) -> int:
        """The memory of the buffers that the lines refer to, or would refer to if nothing was compressed."""
        arrays = [self.rows, *[column for column in self.values if not isinstance(column, CompressedColumn)]]
        held = sum([buffer.size for array in arrays for buffer in array.buffers() if buffer is not None])
        held += 0 if self.stored is None else self.stored.raw_bytes
        return held + self.timestamps.nbytes + self.write_numbers.nbytes

    def cell_bytes(self) -> Integers:
        """Returns the bytes of each line's cells, counted as those of a table of CELL_SCHEMA."""
        return cell_bytes(self.rows, self.qualifiers, self.columns)

    def check(self) -> None:
        """Asserts what the class promises. O(cells)."""
        count, width = len(self), len(self.columns)
        assert list(self.qualifiers) == sorted(set(self.qualifiers)), f"qualifiers {self.qualifiers}"
        assert len(self.qualifiers) == width, f"{len(self.qualifiers)} qualifiers, {width} columns"
        for numbers in (self.timestamps, self.write_numbers):
            shapes = ((1, 1), (1, count), (width, count))
            assert numbers.shape in shapes, f"numbers of shape {numbers.shape}, not one of {shapes}"
        assert self.rows.type == pa.binary(), f"rows of {self.rows.type}"
        assert self.rows.null_count == 0, "a row is null"
        for column in self.columns:
            assert len(column) == count, f"a column of {len(column)} values for {count} lines"
            column.validate(full=True)
        rows = self.rows.to_pylist()
        for line in range(1, count):
            assert rows[line - 1] <= rows[line], f"{rows[line - 1]!r} before {rows[line]!r}"  # type: ignore[operator]
            if rows[line - 1] == rows[line]:
                assert not self.is_by_cell, f"row {rows[line]!r} has versions, and numbers by cell"
                before, after = (
                    (self.numbers_of(self.timestamps, 0)[at], self.numbers_of(self.write_numbers, 0)[at])
                    for at in (line - 1, line)
                )
                assert before > after, f"row {rows[line]!r}: {before} before {after}"


def _values_on(column: Column, mask: Mask) -> Column:
    """Returns the column with its values where `mask` is true, which is only where it has one, and nulls elsewhere."""
    lines = np.flatnonzero(mask)
    if len(lines) == len(column) - column.null_count:
        return column
    return spread_values(as_binary(column).take(integer_array(lines, pa.int64())), lines, len(column))


def _of_columns(numbers: Integers, places: Sequence[int]) -> Integers:
    """Returns the numbers of these columns; of none, anything."""
    if numbers.shape[0] == 1:
        return numbers
    return numbers[places] if places else np.zeros((1, 1), np.int64)


# ---- lines to cells


def cells_of(lines: Lines) -> pa.Table:
    """Returns the cells as a table of CELL_SCHEMA in store order, with one chunk a column. Some 10 M cells/s."""
    count, width = len(lines), len(lines.columns)
    if not count or not width:
        return empty_cells()
    whole = [[Piece(slice(None), column)] for column in lines.columns]
    if not lines.has_versions and are_dense(whole, count):
        return dense_cells(lines.rows, lines.timestamps, lines.write_numbers, lines.qualifiers, whole)
    present = np.stack([is_present(column) for column in lines.columns])
    if lines.has_versions:
        codes, places = np.nonzero(present)  # by column, then line
        row_numbers = np.cumsum(lines.starts_row)
        order = np.argsort(row_numbers[places] * width + codes, kind="stable")
        codes, places = codes[order], places[order]
    else:
        places, codes = np.nonzero(present.T)
    if not len(places):
        return empty_cells()
    values = pa.concat_arrays([as_binary(column) for column in lines.columns])
    arrays = [
        lines.rows.take(integer_array(places, pa.int64())),
        binary_array(lines.qualifiers).take(integer_array(codes, pa.int64())),
        integer_array(np.broadcast_to(lines.timestamps, present.shape)[codes, places], pa.int64()),
        integer_array(np.broadcast_to(lines.write_numbers, present.shape)[codes, places], pa.int64()),
        integer_array(np.full(len(places), PUT, np.int8), pa.int8()),
        values.take(integer_array(codes * count + places, pa.int64())),
    ]
    return pa.Table.from_arrays(arrays, schema=CELL_SCHEMA)


# ---- numbers


def compact_numbers(numbers: Integers, present: npt.NDArray[np.bool_]) -> Integers:
    """Returns numbers of shape (columns, lines) in the smallest shape that keeps those of present cells.

    Each line has a cell. In the shape by cell, an absent cell has the numbers of another one of its line.
    """
    some = numbers[present]
    if not len(some) or (some == some[0]).all():
        return np.full((1, 1), some[0] if len(some) else 0, np.int64)
    first = np.argmax(present, axis=0)
    of_line = numbers[first, np.arange(numbers.shape[1])]
    if ((numbers == of_line) | ~present).all():
        by_line: Integers = of_line[np.newaxis]
        return by_line
    by_cell: Integers = np.where(present, numbers, of_line)
    return by_cell


def number_bounds(numbers: Integers) -> tuple[int, int]:
    """Returns the least and the greatest, those of absent cells included."""
    return int(numbers.min()), int(numbers.max())
