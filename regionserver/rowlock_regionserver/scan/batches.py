"""Cuts a scan's answers into batches of whole rows, of about the requested bytes and at most the requested rows.

Only a row that is larger than a batch by itself is cut, between cells; the next batch begins with its remaining cells.
A wide row arrives in parts, and a batch that has a part of it begins with it. In row form a row is one line and is
never cut, so such a row is a batch of its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rowlock_proto.shown_names import row_text

from rowlock_regionserver.arrow.columns import Integers, numbers, single_array
from rowlock_regionserver.arrow.merge import first_row
from rowlock_regionserver.errors import LimitExceededError
from rowlock_regionserver.operations import FormColumn
from rowlock_regionserver.scan.answer_rows import AnswerRows, plain_table
from rowlock_regionserver.scan.compressed_rows import CompressedRows, bytes_before, joined_rows
from rowlock_regionserver.scan.newest_rows import NewestRows
from rowlock_regionserver.scan.unread_rows import UnreadRows


@dataclass(frozen=True, slots=True)
class ScanAnswer:
    """One batch of a scan. `row_count` counts the rows that end in it, so the sum over a scan is its number of rows."""

    # ANSWER_SCHEMA or a RowLayout's schema, any number of chunks; empty only with a resume key.
    rows: pa.Table | CompressedRows | NewestRows
    row_count: int
    row_continues: bool  # the last row continues in the next batch
    # With this batch all rows of the scan before the key, or in reverse from it on, are answered; empty: unknown.
    resume_key: bytes = b""
    # Without a row form: the columns, if the rows are in columns and not cells; see lines_as_rows.py.
    columns: Sequence[FormColumn] = ()

    @property
    def table(self) -> pa.Table:
        """The rows as a table, decompressed."""
        assert not isinstance(self.rows, NewestRows), "rows without families and timestamps"
        return plain_table(self.rows)


class Batches:
    """Collects whole rows and yields batches. Holds less than a batch between calls, as slices of the added tables."""

    def __init__(self, batch_bytes: int, batch_rows: int, line_bytes_max: int | None = None) -> None:
        assert batch_bytes >= 1, f"batches of {batch_bytes} bytes"
        assert batch_rows >= 1, f"batches of {batch_rows} rows"
        self._batch_bytes = batch_bytes
        self._batch_rows = batch_rows
        self._line_bytes_max = line_bytes_max
        self._slices: list[AnswerRows] = []
        self._held: list[int | None] = []  # the bytes that each slice keeps alive; None: not counted yet
        self._columns: Sequence[FormColumn] = ()  # of the slices
        self._bytes = 0
        self._rows = 0  # all of them end here
        self._added_rows = self._added_bytes = 0

    def add(
        self, table: AnswerRows, starts: Integers, columns: Sequence[FormColumn] = (), bytes_beside: int = 0
    ) -> Iterator[ScanAnswer]:
        """Adds whole rows, which begin at `starts`, and yields the batches that are full.

        Rows with other `columns` are in another batch. `bytes_beside` of each row are counted with it: those that the
        client adds when it makes cells. Raises LimitExceededError when it reaches a line of more than `line_bytes_max`.
        """
        if columns != self._columns:
            yield from self.drain()
            self._columns = columns
        if not isinstance(table, pa.Table):
            yield from self._add_blocks(table, bytes_beside)
            return
        bounds = np.append(starts, table.num_rows)
        sizes = _bytes_before(table, bounds) + bytes_beside * np.arange(len(bounds))
        self._added_rows, self._added_bytes = self._added_rows + len(starts), self._added_bytes + int(sizes[-1])
        row, row_count, held = 0, len(starts), _bytes_held(table)
        while row < row_count:
            stop = self._stop(row, sizes)
            if stop == row and not self._slices:
                yield from self._cut(plain_table(table.slice(int(bounds[row]), int(bounds[row + 1] - bounds[row]))))
                row += 1
                does_not_fit = False
            else:
                if stop > row:
                    cells = table.slice(int(bounds[row]), int(bounds[stop] - bounds[row]))
                    self._take(cells, int(sizes[stop] - sizes[row]), stop - row, held)
                    row = stop
                does_not_fit = row < row_count
            if does_not_fit or self._is_full():
                yield from self.drain()

    def _add_blocks(self, rows: CompressedRows | UnreadRows, bytes_beside: int) -> Iterator[ScanAnswer]:
        """Adds rows in blocks, whose single sizes are not known: as if neighbours were equally large."""
        at, bytes_before = rows.byte_bounds()
        places, before = at.tolist(), (bytes_before + bytes_beside * at).tolist()
        self._added_rows, self._added_bytes = self._added_rows + rows.num_rows, self._added_bytes + before[-1]
        row = 0
        while row < rows.num_rows:
            start_bytes = _between(row, places, before)
            fitting = int(_between(start_bytes + self._batch_bytes - self._bytes, before, places))
            stop = _block_end(places, row, min(fitting, row + self._batch_rows - self._rows))
            if stop <= row and self._slices:
                yield from self.drain()
                continue
            if stop <= row:
                yield from self._cut(plain_table(rows.slice(row, 1)))
                row += 1
            else:
                byte_count = int(_between(stop, places, before) - start_bytes)
                self._take(rows.slice(row, stop - row), byte_count, stop - row)
                row = stop
            if self._is_full() or row < rows.num_rows:
                yield from self.drain()

    def add_part(self, table: pa.Table, *, is_first: bool, is_last: bool) -> Iterator[ScanAnswer]:
        """Adds a part of one row, in cells, and yields the batches that are full. Parts of a row are added in order."""
        if is_first:
            yield from self.drain()
            self._columns = ()
        sizes = _bytes_before(table, np.arange(table.num_rows + 1, dtype=np.int64))
        start = 0
        while start < table.num_rows:
            stop = max(start + 1, _last_within(sizes, int(sizes[start]) + self._batch_bytes - self._bytes))
            # The next cell may not fit into the batch beside the cells that are held of the row.
            if self._slices and sizes[stop] - sizes[start] > self._batch_bytes - self._bytes:
                yield self._unfinished_row()
                continue
            self._take(table.slice(start, stop - start), int(sizes[stop] - sizes[start]), 0)
            start = stop
        if is_last:
            self._rows += 1
            if self._is_full():
                yield from self.drain()

    def _unfinished_row(self) -> ScanAnswer:
        """Returns the held cells of a row that continues in the next batch."""
        (answer,) = self.drain()
        return replace(answer, row_continues=True)

    def _stop(self, row: int, sizes: Integers) -> int:
        """Returns the end of the rows from `row` on that fit the batch; `row` itself when not even one does."""
        within = _last_within(sizes, int(sizes[row]) + self._batch_bytes - self._bytes)
        return max(row, min(within, row + self._batch_rows - self._rows))

    def _cut(self, cells: pa.Table) -> Iterator[ScanAnswer]:
        """Yields the batches of a row that is larger than one, each with at least one cell. The last is held."""
        sizes = _bytes_before(cells, np.arange(cells.num_rows + 1, dtype=np.int64))
        start = 0
        while True:
            stop = max(start + 1, _last_within(sizes, int(sizes[start]) + self._batch_bytes))
            if self._line_bytes_max is not None:
                check_line(first_row(cells), int(sizes[1]), self._line_bytes_max)
            part = cells.slice(start, stop - start)
            if stop == cells.num_rows:
                self._take(part, int(sizes[stop] - sizes[start]), 1)
                return
            yield ScanAnswer(part, 0, row_continues=True)
            start = stop

    def _take(self, cells: AnswerRows, byte_count: int, row_count: int, held: int | None = None) -> None:
        self._slices.append(cells)
        self._held.append(held)
        self._bytes += byte_count
        self._rows += row_count

    @property
    def bytes_pending(self) -> int:
        """Bytes of added rows that are not in a batch yet."""
        return self._bytes

    @property
    def added(self) -> tuple[int, int]:
        """How many whole rows were added, and their bytes."""
        return self._added_rows, self._added_bytes

    @property
    def bytes_held(self) -> int:
        """Memory of added rows that are not in a batch yet; a slice keeps the whole table that it was cut from."""
        counted = zip(self._slices, self._held, strict=True)
        return max([_bytes_held(cells) if held is None else held for cells, held in counted], default=0)

    def _is_full(self) -> bool:
        return self._bytes >= self._batch_bytes or self._rows >= self._batch_rows

    def drain(self) -> Iterator[ScanAnswer]:
        """Yields the held rows as a batch, if there are any."""
        if self._slices:
            table = self._slices[0] if len(self._slices) == 1 else _joined(self._slices)
            yield ScanAnswer(_sent(table), self._rows, row_continues=False, columns=self._columns)
            self._slices, self._held = [], []
            self._bytes = self._rows = 0


def _between(place: float, places: Sequence[int], values: Sequence[int]) -> float:
    """Returns the value at a place, interpolated between those at the given places, which ascend.

    The place is not before the first of them. Behind the last one the value is the last one.
    """
    after = bisect_right(places, place)
    if after == len(places):
        return values[-1]
    before = after - 1
    share = (place - places[before]) / (places[after] - places[before])
    return values[before] + share * (values[after] - values[before])


def _block_end(places: Sequence[int], row: int, stop: int) -> int:
    """Returns the last of the places up to `stop`, unless it is nearer to the row: else a block is sent twice."""
    place = places[bisect_right(places, stop) - 1]
    return place if 2 * place >= row + stop else stop


def _last_within(sizes: Integers, bytes_max: int) -> int:
    return int(np.searchsorted(sizes, bytes_max, "right")) - 1


def check_line(row: bytes, byte_count: int, bytes_max: int) -> None:
    """Raises LimitExceededError for a row that is too large for an answer as one line."""
    if byte_count > bytes_max:
        raise LimitExceededError(
            f"row {row_text(row)} takes {byte_count} bytes in row form, more than an answer may have "
            f"(request_bytes_max = {bytes_max}); request fewer columns, or scan without the row form",
            limit="request_bytes_max",
            limit_value=bytes_max,
            found=byte_count,
            row=row,
        )


def _bytes_held(table: AnswerRows) -> int:
    return table.get_total_buffer_size() if isinstance(table, pa.Table) else table.bytes_held


def _bytes_before(table: pa.Table, places: Integers) -> Integers:
    """Returns how many bytes of lines come before each of the places, which ascend from 0 to the end."""
    line_bytes = 0
    before: Integers = np.zeros(len(places), np.int64)
    for chunked in table.columns:
        if chunked.type != pa.binary():
            line_bytes += int(chunked.type.byte_width)
        elif chunked.num_chunks > 1:
            # Only tables of cells, which have no nulls, have many chunks.
            lengths = np.frombuffer(numbers(single_array(pc.call_function("binary_length", [chunked])), "i"), np.int32)
            before += 4 * places + np.append(0, np.cumsum(lengths, dtype=np.int64))[places]
        elif table.num_rows:
            before += bytes_before(chunked.chunks[0], places)
    before += line_bytes * places
    return before


def _sent(rows: AnswerRows) -> pa.Table | CompressedRows:
    """Returns rows in the form in which they are sent. Reads those that are unread."""
    return rows if isinstance(rows, CompressedRows) and rows.is_worth_it else plain_table(rows)


def _joined(parts: Sequence[AnswerRows]) -> AnswerRows:
    """Returns the parts one after the other; a column that has several types becomes binary."""
    first, *others = parts
    if isinstance(first, UnreadRows):
        unread = [part for part in others if isinstance(part, UnreadRows)]
        joined = first.followed_by(unread) if len(unread) == len(others) else None
        if joined is not None:
            return joined
    read = [part.table() if isinstance(part, UnreadRows) else part for part in parts]
    compressed = next((part for part in read if isinstance(part, CompressedRows)), None)
    return _joined_tables(list(map(plain_table, read))) if compressed is None else joined_rows(read, compressed.form)


def _joined_tables(tables: Sequence[pa.Table]) -> pa.Table:
    schema = tables[0].schema
    if any(not table.schema.equals(schema) for table in tables[1:]):
        for place in range(len(schema)):
            if len({table.schema.field(place).type for table in tables}) > 1:
                schema = schema.set(place, schema.field(place).with_type(pa.binary()))
        tables = [table.cast(schema) for table in tables]
    return pa.concat_tables(tables)
