"""The scanner: turns a plan's ranges, window by window, into batches of visible cells.

Each window passes these steps: merge the sources' cells up to a common row and keep those that the read point sees
(windows.py), apply the selection (window_selection.py), lay them out with one cell a line (window_answer.py) or one row
a line (pivot.py), and cut the lines into batches (batches.py). A row that is too large for a window is read in parts
(wide_rows.py). This module itself keeps count: ranges, direction, the row limit, window sizes, and memory held.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from rowlock_regionserver.cells import ReadPoint
from rowlock_regionserver.config import MIB
from rowlock_regionserver.errors import InvalidRequestError
from rowlock_regionserver.found_cells import NO_LIMIT
from rowlock_regionserver.operations import EVERYTHING, FormColumn, ScanPlan, Selection
from rowlock_regionserver.row_ranges import EVERYTHING as ALL_ROWS
from rowlock_regionserver.row_ranges import clipped
from rowlock_regionserver.scan.answer_rows import plain_table
from rowlock_regionserver.scan.batches import Batches, ScanAnswer
from rowlock_regionserver.scan.filters import required_columns
from rowlock_regionserver.scan.line_answer import LineForm
from rowlock_regionserver.scan.lines_as_rows import COLUMNS_MAX
from rowlock_regionserver.scan.ranges import RowsAt, joined, rows_that_may_match
from rowlock_regionserver.scan.row_answers import row_answers, row_line
from rowlock_regionserver.scan.row_form import RowLayout
from rowlock_regionserver.scan.selection import is_whole_time, requested_qualifiers
from rowlock_regionserver.scan.short_scan import ShortScan, is_short
from rowlock_regionserver.scan.wide_rows import RowReading
from rowlock_regionserver.scan.window_answer import EMPTY_ANSWER, WindowAnswer, answer_window
from rowlock_regionserver.scan.window_split import View, WideRow
from rowlock_regionserver.scan.windows import ColumnsRead, WindowReader
from rowlock_regionserver.sources import Reading

__all__ = ["Scan", "ScanAnswer", "scan"]

# A reader often leaves after the first rows, so windows begin with a batch, smaller with a row limit or while the
# scan is being opened, and grow to full size within a few steps. They grow no further than the rows up to the limit are
# expected to need. A window that uses up the scan's time slice makes the next one smaller; if its values stay unread,
# each of its batches takes its own time.
FIRST_WINDOW_BYTES = 256 * 1024
FIRST_SMALL_WINDOW_BYTES = 32 * 1024
LEAST_WINDOW_BYTES = 4 * 1024
FEW_ROWS = 128
WINDOW_GROWTH = 4
ROW_BYTES_ASSUMED = 1000
# With smaller batches, blocks would be decompressed several times.
COMPRESSED_ROWS_MIN, COMPRESSED_BYTES_MIN = 16_384, MIB
# In smaller batches it costs more to read the rows of each than to read a window at once.
UNREAD_BYTES_MIN = 2 * MIB


def scan(
    sources_now: Callable[[], View],
    plan: ScanPlan,
    rows_at: Sequence[RowsAt],
    *,
    window_bytes: int = 8 * MIB,
    merge_bytes_max: int = 64 * MIB,
    line_bytes_max: int = 64 * MIB,
    is_slice_over: Callable[[], bool] = lambda: False,
    reading: Callable[[], Reading] = lambda: Reading.BULK,
    row_bytes: int = ROW_BYTES_ASSUMED,
) -> Scan:
    """Returns the batches of a scan of these rows, ascending, at their read points; the plan has passed check_plan.

    Rows ascend, or descend in a reverse scan. A row's cells are always by family, qualifier, then newest first. Rows
    without an answered cell don't count towards the row limit. Blocks on the sources' disks between batches. Memory is
    about one window (`window_bytes`), one batch, and the chunks read ahead from all sources (`merge_bytes_max`),
    whatever the size of rows and values and the number of sources. The caller keeps the read points registered until
    the end.

    sources_now() is called before each window and returns a view that contains all that the read point sees; if it
    raises, the scan ends. is_slice_over() is called after each window: if it returns true, an answer follows at once,
    with the rows so far, perhaps none, and the resume key. The caller can then send a heartbeat, let other scans
    run, or stop. reading() is called before each window and says how it reads the blocks of store files. While that is
    AT_ONCE, an answer does not block on a disk, and may raise WouldWaitError, which ends the scan. Once it is BULK it
    stays so: rows that are not answered yet may still have to be read. row_bytes: what a row has probably, from which
    the first window of a scan with a limit is guessed.

    Raises FilterTypeError when the scan reaches a row in which a filter reads a value that doesn't fit its type; a row
    limit reached before that row ends the scan without the error. Raises LimitExceededError when the scan reaches a row
    of more than `line_bytes_max` in row form.
    """
    matching = rows_that_may_match(plan.selection.where)
    return Scan(
        sources_now,
        plan,
        [
            RowsAt(row_range, read_point)
            for rows, read_point in rows_at
            for row_range in joined(plan.ranges or (ALL_ROWS,), clipped(rows, matching))
        ],
        window_bytes,
        merge_bytes_max,
        line_bytes_max,
        is_slice_over,
        reading,
        row_bytes,
    )


class Scan(Iterator[ScanAnswer]):
    """A running scan, as an iterator of its answers. Used by one thread at a time."""

    def __init__(
        self,
        sources_now: Callable[[], View],
        plan: ScanPlan,
        rows_at: Sequence[RowsAt],
        window_bytes: int,
        merge_bytes_max: int,
        line_bytes_max: int,
        is_slice_over: Callable[[], bool],
        reading: Callable[[], Reading],
        row_bytes: int,
    ) -> None:
        self._sources_now = sources_now
        self._plan = plan
        self._rows_at = rows_at
        self._window_bytes = window_bytes
        self._merge_bytes_max = merge_bytes_max
        self._line_bytes_max = line_bytes_max
        self._is_slice_over = is_slice_over
        self._reading = reading
        self._row_bytes = row_bytes
        self._rows_left = plan.row_limit  # 0 without a limit
        self.is_at_end = False  # no answer follows the one that was given
        self._form = None if plan.row_form is None else _layout(plan.row_form, plan)
        # In row form a line is a row, and is never cut.
        self._batches = Batches(plan.batch_bytes, plan.batch_rows, None if plan.row_form is None else line_bytes_max)
        self._reader: WindowReader | None = None
        self._answers = self._batched()

    def __next__(self) -> ScanAnswer:
        return next(self._answers)

    def close(self) -> None:
        """Ends the scan and releases its memory."""
        self._answers.close()
        self._reader = None

    @property
    def bytes_held(self) -> int:
        """Memory that only this scan keeps alive between two answers."""
        reader = self._reader
        return self._batches.bytes_held + (0 if reader is None else reader.bytes_held)

    @property
    def bytes_pending(self) -> int:
        """Bytes of rows that were found and are not answered yet."""
        return self._batches.bytes_pending

    @property
    def row_bytes(self) -> int:
        """About the bytes of a row, as it is answered: of those so far, or else what was assumed."""
        row_count, byte_count = self._batches.added
        return byte_count // row_count if row_count else self._row_bytes

    def _batched(self) -> Generator[ScanAnswer, None, None]:
        if is_short(self._plan):
            yield from self._short_answers()
        if not self.is_at_end:
            yield from self._batches_of_windows()

    def _short_answers(self) -> Iterator[ScanAnswer]:
        """Yields the first rows, as far as they are read one by one; the windows go on from there."""
        plan = self._plan
        short = ShortScan(
            self._sources_now, plan.selection.columns, plan.row_limit, self._rows_at, self._is_slice_over, self._reading
        )
        for rows, resume_key in short.answers():
            self._rows_at, self._rows_left = short.rows_at, short.rows_left
            self.is_at_end = short.is_at_end
            if len(rows):
                yield ScanAnswer(rows, len(rows), row_continues=False)
            elif not self.is_at_end and self._is_slice_over():
                yield ScanAnswer(self._empty_table(), 0, row_continues=False, resume_key=resume_key)

    def _batches_of_windows(self) -> Iterator[ScanAnswer]:
        batches = self._batches
        has_limit = self._plan.row_limit > 0
        for answer, resume_key in self._window_answers():
            rows, starts = answer.rows, answer.starts
            is_limited = has_limit and len(starts) >= self._rows_left
            if is_limited and len(starts) > self._rows_left:
                rows, starts = rows.slice(0, int(starts[self._rows_left])), starts[: self._rows_left]
            self._rows_left -= len(starts)
            if answer.is_part:
                yield from batches.add_part(
                    plain_table(rows), is_first=len(starts) > 0, is_last=not answer.row_continues
                )
            else:
                yield from batches.add(rows, starts, answer.columns, answer.bytes_beside)
            if is_limited and not answer.row_continues:
                break
            if answer.error is not None:
                yield from batches.drain()
                raise answer.error
            if resume_key and self._is_slice_over():
                empty = ScanAnswer(self._empty_table(), 0, row_continues=False)
                for batch in list(batches.drain()) or [empty]:
                    yield replace(batch, resume_key=resume_key)
        self.is_at_end = True
        yield from batches.drain()

    def _empty_table(self) -> pa.Table:
        return EMPTY_ANSWER if self._form is None else self._form.empty

    def _window_answers(self) -> Iterator[tuple[WindowAnswer, bytes]]:
        """Yields the answer of each window, in the scan's order, with its resume key.

        The key is empty where the scan can't be resumed: inside a row, and with an error.
        """
        plan, selection = self._plan, self._plan.selection
        columns_read = _columns_read(selection)
        line_form = LineForm.of(selection, self._form)
        is_short = 0 < plan.row_limit <= FEW_ROWS or self._reading() is not Reading.BULK
        bytes_first = min(self._window_bytes, FIRST_SMALL_WINDOW_BYTES if is_short else FIRST_WINDOW_BYTES)
        bytes_max = bytes_first
        if not is_short:  # Then nothing is answered before a batch is full.
            bytes_of_batch = min(plan.batch_bytes, plan.batch_rows * self._row_bytes)
            bytes_max = min(self._window_bytes, max(bytes_first, bytes_of_batch))
        if plan.row_limit:
            bytes_max = min(self._window_bytes, FIRST_WINDOW_BYTES, self._bytes_to_limit())
        bytes_read = 0
        for row_range, read_point in reversed(self._rows_at) if plan.reverse else self._rows_at:
            reader = self._reader = WindowReader(
                self._sources_now,
                columns_read,
                read_point,
                row_range,
                reverse=plan.reverse,
                reads_values=_reads_values(selection),
                window_bytes=self._window_bytes,
                bytes_held_max=self._merge_bytes_max,
                line_columns=None if line_form is None else line_form.columns,
                takes_compressed=_takes_compressed(plan),
                takes_rows=not plan.without_keys,
                newest_only=selection.versions == 1 and is_whole_time(selection),
                takes_lines=plan.lines and selection == EVERYTHING,
                unread_columns_max=_unread_columns_max(plan),
            )
            while (window := reader.next(bytes_max, self._reading())) is not None:
                if isinstance(window, WideRow):
                    yield from self._wide_row_answers(window, read_point)
                    continue
                answer = answer_window(window.families, selection, self._form, line_form, reverse=plan.reverse)
                # One window of many small rows with a costly filter can take longer than a time slice.
                is_slow = self._is_slice_over()
                yield answer, window.resume_key
                bytes_read += bytes_max
                bytes_max = bytes_max // WINDOW_GROWTH if is_slow else bytes_max * WINDOW_GROWTH
                bytes_max = max(bytes_first, min(self._window_bytes, bytes_max))
                found = self._batches.added[0]
                if plan.row_limit and found:
                    bytes_to_limit = self._bytes_to_limit()
                    if selection != Selection():  # Rows may be left out: the next ones are as far apart as these.
                        bytes_to_limit = max(bytes_to_limit, bytes_read * self._rows_left // found)
                    bytes_max = min(bytes_max, bytes_to_limit)

    def _bytes_to_limit(self) -> int:
        """Returns about the bytes that the rows up to the limit will take, judged by the rows so far."""
        # A little more, because a window that misses the limit by a row costs another window.
        return max(LEAST_WINDOW_BYTES, self.row_bytes * self._rows_left * 9 // 8)

    def _wide_row_answers(self, wide: WideRow, read_point: ReadPoint) -> Iterator[tuple[WindowAnswer, bytes]]:
        """Yields the answers of a row that is read in parts; only the last part has the resume key after the row."""
        reading = RowReading(wide.row, wide.view, read_point, self._plan.selection, self._window_bytes)
        empty = WindowAnswer(self._empty_table(), np.zeros(0, np.int64))
        before = wide.row + b"\x00" if self._plan.reverse else wide.row
        parts = row_answers(reading) if self._form is None else row_line(reading, self._form, self._line_bytes_max)
        has_answered = False
        try:
            for part in parts:
                if part is not None:
                    has_answered = True
                    yield part, b"" if part.row_continues else wide.resume_key
                elif not has_answered:
                    yield empty, before
        except InvalidRequestError as error:
            yield replace(empty, error=error), b""
        if not has_answered:
            yield empty, wide.resume_key


def _layout(form: Sequence[FormColumn], plan: ScanPlan) -> RowLayout:
    return RowLayout(form, fixed_size=plan.fixed_size, without_keys=plan.without_keys)


def _takes_compressed(plan: ScanPlan) -> bool:
    """Returns whether lines may be answered as they are stored: not if batches are smaller than the blocks."""
    has_large_batches = plan.batch_rows >= COMPRESSED_ROWS_MIN and plan.batch_bytes >= COMPRESSED_BYTES_MIN
    return (plan.compressed or plan.lines) and has_large_batches


def _unread_columns_max(plan: ScanPlan) -> int:
    """Returns how many columns rows may have whose values stay unread until their batch is made; 0: none may.

    None may if a filter compares values, if rows are read backwards, or if a limit may end the scan within a window.
    Rows of more than COLUMNS_MAX columns are answered as cells, except in row form.
    """
    is_of_all = plan.selection.where is None and not plan.reverse and not plan.row_limit
    if not is_of_all or plan.batch_bytes < UNREAD_BYTES_MIN:
        return 0
    return COLUMNS_MAX if plan.row_form is None else NO_LIMIT


def _reads_values(selection: Selection) -> bool:
    """Returns whether the selection answers or compares values."""
    return not selection.cells.keys_only or selection.cells.value_op is not None or selection.where is not None


def _columns_read(selection: Selection) -> ColumnsRead | None:
    """Returns the columns that are answered or that the filter reads; None means all columns of all families."""
    requested = requested_qualifiers(selection.columns)
    if requested is None:
        return None
    read = dict(requested)
    for family, qualifier in required_columns(selection.where):
        before = read.get(family, frozenset())
        read[family] = None if before is None else before | {qualifier}
    return read
