"""A wide block in memory: looks up the cells of single rows, and returns its lines to scans.

Columns are decompressed one by one, when a point read first needs them, and kept. Look-ups read them as bytes objects,
of which slices cost a third of those of a memoryview; scans take the same memory as Arrow columns.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.cells import PUT
from rowlock_regionserver.few_rows import FewRows, LineFacts, LineValues, line_values, rows_of_lines
from rowlock_regionserver.found_cells import FoundCell, FoundLine, LongRowError
from rowlock_regionserver.sources import EVERY_LINE, LinesWanted
from rowlock_regionserver.storefile.wide_chunks import WideChunks
from rowlock_regionserver.storefile.wide_directory import Directory
from rowlock_regionserver.storefile.wide_form import ROWS_CHUNK
from rowlock_regionserver.storefile.wide_lines import decoded_lines

# Memory of a WideBlock beside its buffers, and of each of its columns.
_OVERHEAD_BYTES = 3000
_COLUMN_OVERHEAD_BYTES = 500


class _Values(NamedTuple):
    """Rows or values for look-ups: of one width, or between `stops` from `start` on."""

    data: bytes
    width: int
    start: int
    stops: memoryview | None


class _Column(NamedTuple):
    """A column for look-ups; its numbers are None if they are those of the line."""

    qualifier: bytes
    values: _Values
    validity: bytes | None  # None: every line has a cell
    timestamps: memoryview | None
    write_numbers: memoryview | None


class _Keys(NamedTuple):
    """The keys of the lines; the numbers are None if the directory has them, or each column its own."""

    rows: _Values
    timestamps: memoryview | None
    write_numbers: memoryview | None


class WideBlock:
    """A block whose directory was verified. Safe to use from many threads.

    Grows as columns are decompressed: `bytes_held` says what it holds now.
    """

    __slots__ = (
        "_chunks",
        "_columns",
        "_directory",
        "_form",
        "_has_whole_lines",
        "_keys",
        "_lock",
        "_missing_count",
        "_raw",
        "bytes_held",
    )

    def __init__(self, chunks: WideChunks) -> None:
        """`chunks` has all chunks of the block."""
        self._directory = chunks.directory
        self._form = form = chunks.directory.form
        # Whether each line has a cell in each column, and no column has timestamps or write numbers of its own.
        self._has_whole_lines = all(column[:3] == (None, None, None) for column in form.columns)
        self._lock = threading.Lock()
        # Guarded by self._lock while they change; read without it:
        self._chunks = chunks
        self._raw: dict[int, bytes] = {}  # the chunks that were decompressed for look-ups
        self._keys: _Keys | None = None
        self._columns: list[_Column | None] = [None] * len(form.columns)
        self._missing_count = len(form.columns)
        self.bytes_held = chunks.bytes_held + _OVERHEAD_BYTES + _COLUMN_OVERHEAD_BYTES * len(form.columns)

    @property
    def directory(self) -> Directory:
        """The directory."""
        return self._directory

    # ---- points

    def cells(self, row: bytes, qualifiers: Iterable[bytes] | None, cells_max: int) -> list[FoundCell]:
        """Returns the row's cells in these columns, which ascend; None: in all. O(log lines + columns).

        In store order. Raises LongRowError when there are more than `cells_max`.
        """
        keys = self._keys or self._decoded_keys()
        start, stop = _range_of(keys.rows, self._directory.line_count, row)
        if start == stop:
            return []
        place_of = self._form.place_of
        places = None if qualifiers is None else [place_of[name] for name in qualifiers if name in place_of]
        found = self._cells_of(start, stop, keys, self._decoded_columns(places))
        if len(found) > cells_max:
            raise LongRowError
        if stop - start > 1:
            found.sort()
        return found

    def line(self, row: bytes) -> FoundLine | None:
        """Returns the row if it is one line, with a cell in each column and the same numbers in all of them.

        None: the row is absent, or `cells` has to find it.
        """
        if not self._has_whole_lines:
            return None
        keys = self._keys or self._decoded_keys()
        line, stop = _range_of(keys.rows, self._directory.line_count, row)
        if stop - line != 1:
            return None
        values = []
        for _, (data, width, first, stops), _, _, _ in self._decoded_columns(None):
            if stops is None:
                values.append(data[line * width : stop * width])
            else:
                values.append(data[first + stops[line] : first + stops[stop]])
        return FoundLine(self._form.qualifiers, *self._numbers_of(line, keys), values)

    def _numbers_of(self, line: int, keys: _Keys) -> tuple[int, int]:
        """Returns the timestamp and the write number of a line whose columns have none of their own."""
        _, timestamps, write_numbers = keys
        return (
            self._directory.timestamp if timestamps is None else timestamps[line],
            self._directory.write_number if write_numbers is None else write_numbers[line],
        )

    def _cells_of(self, start: int, stop: int, keys: _Keys, columns: Sequence[_Column]) -> list[FoundCell]:
        """Returns the cells of the lines [start, stop), line by line."""
        found: list[FoundCell] = []
        for line in range(start, stop):
            timestamp, write_number = self._numbers_of(line, keys)
            timestamp, write_number = -timestamp, -write_number
            for qualifier, (data, width, first, stops), validity, own_timestamps, own_write_numbers in columns:
                if validity is not None and not validity[line >> 3] >> (line & 7) & 1:
                    continue
                if stops is None:
                    value = data[line * width : (line + 1) * width]
                else:
                    value = data[first + stops[line] : first + stops[line + 1]]
                if own_timestamps is not None:
                    timestamp = -own_timestamps[line]
                if own_write_numbers is not None:
                    write_number = -own_write_numbers[line]
                found.append((qualifier, timestamp, write_number, PUT, value))
        return found

    def few_rows(
        self,
        start: bytes,
        stop: bytes,
        rows_max: int,
        frontier: bytes | None,
        facts: LineFacts,
        qualifiers: Collection[bytes] | None,
    ) -> FewRows:
        """Returns the first rows of [start, stop), about `rows_max`, with these columns only; None: all.

        frontier: that of the range if the block has no other row of it. `facts` are the block's.
        """
        keys, line_count = self._keys or self._decoded_keys(), self._directory.line_count
        place_of = self._form.place_of
        places = None if qualifiers is None else sorted([place_of[name] for name in qualifiers if name in place_of])
        columns = self._decoded_columns(places)
        first, _ = _range_of(keys.rows, line_count, start)
        last = min(first + rows_max, line_count)
        rows = _values_of(keys.rows, first, last)
        if stop and rows and rows[-1] >= stop:
            last = first + bisect_left(rows, stop)
            rows = rows[: last - first]
        elif last < line_count:
            _, after = _range_of(keys.rows, line_count, rows[-1])
            rows += rows[-1:] * (after - last)
            last = after
            if last < line_count:
                [following] = _values_of(keys.rows, last, last + 1)
                frontier = following if not stop or following < stop else None

        def cells(start: int, stop: int) -> list[FoundCell]:
            found = self._cells_of(start, stop, keys, columns)
            return sorted(found) if stop - start > 1 else found

        return rows_of_lines(rows, first, frontier, cells, partial(self._line_values, columns), facts)

    def _line_values(self, columns: Sequence[_Column], start: int, stop: int) -> LineValues:
        """Returns the values of the lines [start, stop)."""
        values: list[Sequence[bytes | None]] = []
        for column in columns:
            of_column: Sequence[bytes | None] = _values_of(column.values, start, stop)
            validity = column.validity
            if validity is not None:
                of_column = [
                    value if validity[line >> 3] >> (line & 7) & 1 else None
                    for line, value in enumerate(of_column, start)
                ]
            values.append(of_column)
        has_nulls = any(column.validity is not None for column in columns)
        return line_values([column.qualifier for column in columns], values, stop - start, has_nulls=has_nulls)

    def _decoded_keys(self) -> _Keys:
        with self._lock:
            if self._keys is None:
                timestamps = self._numbers(self._form.timestamps)
                write_numbers = self._write_numbers(self._form.write_numbers)
                self._keys = _Keys(self._values(ROWS_CHUNK), timestamps, write_numbers)
            return self._keys

    def _decoded_columns(self, places: Sequence[int] | None) -> list[_Column]:
        columns = self._columns
        if self._missing_count:
            with self._lock:
                for place in range(len(columns)) if places is None else places:
                    if columns[place] is None:
                        columns[place] = self._decoded_column(place)
                        self._missing_count -= 1
        chosen = columns if places is None else [columns[place] for place in places]
        return cast("list[_Column]", chosen)  # checking each again would take as long as the look-up

    def _decoded_column(self, place: int) -> _Column:
        validity, timestamps, write_numbers, values = self._form.columns[place]
        return _Column(
            self._form.qualifiers[place],
            self._values(values),
            None if validity is None else self._kept(validity),
            self._numbers(timestamps),
            self._write_numbers(write_numbers),
        )

    def _values(self, number: int) -> _Values:
        raw, width = self._kept(number), self._form.chunks[number].width
        start = 0 if width else 4 * (self._directory.line_count + 1)
        return _Values(raw, width, start, None if width else memoryview(raw)[:start].cast("i"))

    def _numbers(self, number: int | None) -> memoryview | None:
        return None if number is None else memoryview(self._kept(number)).cast("q")

    def _write_numbers(self, number: int | None) -> memoryview | None:
        numbers, base = self._numbers(number), self._directory.write_number_base
        return (
            numbers
            if numbers is None or not base
            else memoryview((np.frombuffer(numbers, "<i8") + base).tobytes()).cast("q")
        )

    def _kept(self, number: int) -> bytes:
        """Returns a chunk, which it decompresses once and keeps. After the last one it releases what was read."""
        raw = self._raw.get(number)
        if raw is None:
            raw = self._raw[number] = self._chunks.raw_bytes(number)
            self.bytes_held += len(raw)
            if len(self._raw) == len(self._form.chunks):
                self.bytes_held -= self._chunks.bytes_held
                self._chunks = self._chunks.without_any()
        return raw

    # ---- scans

    def chunks(self) -> tuple[WideChunks, Mapping[int, bytes]]:
        """Returns the chunks as they are stored, and those that are decompressed; each is among one of them."""
        with self._lock:
            return self._chunks, dict(self._raw)

    def kept_lines(self, wanted: LinesWanted = EVERY_LINE) -> Lines:
        """Returns the lines with the columns that are wanted, and keeps what it decompresses, as look-ups do."""

        def raw_of(number: int) -> pa.Buffer:
            raw = self._raw.get(number)
            if raw is None:
                with self._lock:
                    raw = self._kept(number)
            return pa.py_buffer(raw)

        return decoded_lines(self._directory, raw_of, wanted)

    def lines(self, wanted: LinesWanted = EVERY_LINE) -> Lines:
        """Returns the lines with the columns that are wanted. What has to be decompressed for that is not kept."""
        chunks, kept = self.chunks()

        def raw_of(number: int) -> pa.Buffer:
            raw = kept.get(number)
            return chunks.raw(number) if raw is None else pa.py_buffer(raw)

        return decoded_lines(self._directory, raw_of, wanted)


def _values_of(values: _Values, start: int, stop: int) -> list[bytes]:
    """Returns the rows or values of the lines [start, stop)."""
    data, width, first, stops = values
    if stops is None:
        return [data[at : at + width] for at in range(start * width, stop * width, width)]
    ends = stops[start : stop + 1].tolist()
    return [data[first + before : first + end] for before, end in pairwise(ends)]


def _range_of(rows: _Values, line_count: int, row: bytes) -> tuple[int, int]:
    """Returns the row's lines as (start, stop); equal when there are none."""
    data, width, first, stops = rows
    start, stop = 0, line_count
    if stops is None:
        while start < stop:
            middle = (start + stop) >> 1
            if data[middle * width : (middle + 1) * width] < row:
                start = middle + 1
            else:
                stop = middle
        while stop < line_count and data[stop * width : (stop + 1) * width] == row:
            stop += 1
        return start, stop
    while start < stop:
        middle = (start + stop) >> 1
        if data[first + stops[middle] : first + stops[middle + 1]] < row:
            start = middle + 1
        else:
            stop = middle
    while stop < line_count and data[first + stops[stop] : first + stops[stop + 1]] == row:
        stop += 1
    return start, stop
