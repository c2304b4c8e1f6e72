"""Reads single cells of lines as tuples, for point reads of a segment in memory."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from rowlock_regionserver.arrow.cell_columns import BytesColumn, KeyColumn
from rowlock_regionserver.arrow.columns import Column, Integers
from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.cells import PUT, Cell
from rowlock_regionserver.few_rows import FewRows, LineFacts, LineValues, line_values, rows_of_lines
from rowlock_regionserver.found_cells import FoundLine


class LineColumns:
    """Random access to the cells of lines. Created once (some µs a column), then read by any number of threads."""

    __slots__ = (
        "_columns",
        "_is_by_cell",
        "_place_of",
        "_qualifiers",
        "_rows",
        "_timestamps",
        "_whole_lines",
        "_write_numbers",
    )

    def __init__(self, lines: Lines) -> None:
        self._rows = KeyColumn(lines.rows)
        self._timestamps = lines.timestamps
        self._write_numbers = lines.write_numbers
        self._qualifiers = lines.qualifiers
        self._place_of = {qualifier: place for place, qualifier in enumerate(lines.qualifiers)}
        self._columns = [_ValueColumn(column) for column in lines.columns]
        self._is_by_cell = lines.is_by_cell
        # If each line has a cell in each column, all with the same numbers: the values.
        self._whole_lines: list[_Raw] | None = None
        if not (self._is_by_cell or any(column.has_nulls for column in self._columns)):
            self._whole_lines = [column.raw() for column in self._columns]

    def renumbered(self, write_numbers: Integers, timestamps: Integers) -> LineColumns:
        """Returns the same cells with other write numbers and timestamps; as before, all or none by cell. O(1)."""
        renumbered = copy.copy(self)
        renumbered._write_numbers, renumbered._timestamps = write_numbers, timestamps
        return renumbered

    def row(self, line: int) -> bytes:
        """Returns the row of a line."""
        return self._rows.values(line, line + 1)[0]

    def first_at_or_after(self, row: bytes) -> int:
        """Returns the first line with a row >= `row`; the number of lines when there is none. O(log n)."""
        return self._rows.first_at_or_after(row)

    def row_range(self, row: bytes) -> tuple[int, int]:
        """Returns the row's lines as (start, stop); equal when there are none. O(log n)."""
        return self._rows.range_of(row)

    def row_cells(self, start: int, stop: int) -> list[Cell]:
        """Returns all cells of the lines [start, stop), which are of one row, in store order."""
        return self._cells(range(len(self._columns)), start, stop)

    def columns_cells(self, start: int, stop: int, qualifiers: Sequence[bytes]) -> list[Cell]:
        """Returns the cells of the columns, which ascend, in the lines [start, stop) of one row."""
        places = [self._place_of[qualifier] for qualifier in qualifiers if qualifier in self._place_of]
        return self._cells(places, start, stop)

    def line(self, line: int) -> FoundLine | None:
        """Returns a line that has a cell in each column, with the same numbers in all; else None."""
        if self._whole_lines is None:
            return None
        values = []
        for data, width, first, stops in self._whole_lines:
            if stops is None:
                start = first + line * width
                values.append(bytes(data[start : start + width]))
            else:
                values.append(bytes(data[stops[line] : stops[line + 1]]))
        return FoundLine(self._qualifiers, *self._numbers_of(line), values)

    def _numbers_of(self, line: int) -> tuple[int, int]:
        """Returns the timestamp and the write number of the cells of a line, if they have the same."""
        timestamps, write_numbers = self._timestamps[0], self._write_numbers[0]
        return (
            int(timestamps[line if len(timestamps) > 1 else 0]),
            int(write_numbers[line if len(write_numbers) > 1 else 0]),
        )

    def few_rows(
        self, start: int, stop: int, frontier: bytes | None, facts: LineFacts, qualifiers: Collection[bytes] | None
    ) -> FewRows:
        """Returns the lines [start, stop), which are whole rows, with these columns only; None: all.

        Frontier and facts are those of FewRows.
        """
        rows = self._rows.values(start, stop)
        places: Sequence[int] = range(len(self._columns))
        if qualifiers is not None:
            places = sorted([self._place_of[name] for name in qualifiers if name in self._place_of])
        return rows_of_lines(
            rows, start, frontier, partial(self._cells, places), partial(self._line_values, places), facts
        )

    def _line_values(self, places: Sequence[int], start: int, stop: int) -> LineValues:
        columns = [self._columns[place] for place in places]
        values = [column.values(start, stop) for column in columns]
        has_nulls = any(column.has_nulls for column in columns)
        return line_values([self._qualifiers[place] for place in places], values, stop - start, has_nulls=has_nulls)

    def _cells(self, places: Sequence[int], start: int, stop: int) -> list[Cell]:
        """Returns the cells of the lines [start, stop), which are of one row: a row's lines are newest first."""
        if not self._is_by_cell:
            lines = [(line, *self._numbers_of(line)) for line in range(start, stop)]
            return [
                (self._qualifiers[place], -timestamp, -write_number, PUT, value)
                for place in places
                for line, timestamp, write_number in lines
                if (value := self._columns[place].value(line)) is not None
            ]
        found: list[Cell] = []
        for place in places:
            for line in range(start, stop):
                value = self._columns[place].value(line)
                if value is not None:
                    timestamp, write_number = (
                        int(numbers[place if numbers.shape[0] > 1 else 0, line if numbers.shape[1] > 1 else 0])
                        for numbers in (self._timestamps, self._write_numbers)
                    )
                    found.append((self._qualifiers[place], -timestamp, -write_number, PUT, value))
        return found


class _Raw(NamedTuple):
    """The values of a column: each of one width, from `first` on, or between `stops`."""

    data: memoryview
    width: int
    first: int
    stops: memoryview | None


class _ValueColumn:
    """Random access to the values of a binary or fixed-size binary array with nulls."""

    __slots__ = ("_bitmap", "_data", "_offset", "_values", "_width")

    def __init__(self, column: Column) -> None:
        buffers = column.buffers()
        bitmap = buffers[0] if column.null_count else None
        self._offset = column.offset
        self._bitmap = memoryview(bitmap) if bitmap is not None else None
        self._width = 0
        self._data = memoryview(b"")
        self._values: BytesColumn | None = None
        if pa.types.is_fixed_size_binary(column.type):
            self._width = column.type.byte_width
            if buffers[1] is not None:
                self._data = memoryview(buffers[1])
        else:
            self._values = BytesColumn(column)

    @property
    def has_nulls(self) -> bool:
        """Whether some line may have no value."""
        return self._bitmap is not None

    def values(self, start: int, stop: int) -> Sequence[bytes | None]:
        """Returns the values of the lines [start, stop), None for a null."""
        if self._bitmap is not None:
            return [self.value(line) for line in range(start, stop)]
        if self._values is not None:
            return self._values.values(start, stop)
        width = self._width
        first = (self._offset + start) * width
        copied = bytes(self._data[first : first + (stop - start) * width])
        return [copied[at : at + width] for at in range(0, len(copied), width)] if width else [b""] * (stop - start)

    def raw(self) -> _Raw:
        """Returns the values, of which none may be a null."""
        if self._values is not None:
            return _Raw(self._values.data, 0, 0, self._values.offsets)
        return _Raw(self._data, self._width, self._offset * self._width, None)

    def value(self, line: int) -> bytes | None:
        """Returns the value of a line; None for a null."""
        at = self._offset + line
        if self._bitmap is not None and not self._bitmap[at >> 3] >> (at & 7) & 1:
            return None
        if self._values is not None:
            return self._values.values(line, line + 1)[0]
        return bytes(self._data[at * self._width : (at + 1) * self._width])
