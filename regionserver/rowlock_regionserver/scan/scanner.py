"""The scanner: a plan's ranges, window by window, as batches of visible cells.

For each window: the sources' cells up to a common row (windows.py), what the read point sees of them (visibility.py),
what the selection answers of that (window_choice.py), laid out one cell a line (window_answer.py) or one row a line
(pivot.py), cut to batches (batches.py). A row that is too large for a window is read in parts (wide_rows.py). The rest
is counting: ranges, direction, the row limit, how large a window to read, and what is held.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from rowlock_regionserver.cells import ReadPoint
from rowlock_regionserver.config import MIB
from rowlock_regionserver.errors import InvalidRequestError
from rowlock_regionserver.operations import ScanPlan, Selection
from rowlock_regionserver.scan.batches import Batches, ScanAnswer
from rowlock_regionserver.scan.filters import required_columns
from rowlock_regionserver.scan.ranges import EVERYTHING, RowRange, clipped, joined, rows_that_may_match
from rowlock_regionserver.scan.row_answers import row_answers, row_line
from rowlock_regionserver.scan.row_form import RowForm
from rowlock_regionserver.scan.selection import qualifiers_asked
from rowlock_regionserver.scan.wide_rows import RowReading
from rowlock_regionserver.scan.window_answer import EMPTY_ANSWER, WindowAnswer, answer_window
from rowlock_regionserver.scan.windows import ColumnsRead, View, WideRow, WindowReader

__all__ = ["Scan", "ScanAnswer", "scan"]

# A reader often leaves after the first rows: windows begin small and grow to full size within few, and begin smaller
# where few rows are asked for. With each turn that a window ends they become smaller again.
FIRST_WINDOW_BYTES = 256 * 1024
FIRST_LIMITED_WINDOW_BYTES = 32 * 1024
FEW_ROWS = 16
WINDOW_GROWTH = 4


def scan(
    sources_now: Callable[[], View],
    plan: ScanPlan,
    start: bytes,
    stop: bytes,
    read_point: ReadPoint,
    *,
    window_bytes: int = 8 * MIB,
    merge_bytes_max: int = 64 * MIB,
    line_bytes_max: int = 64 * MIB,
    is_slice_over: Callable[[], bool] = lambda: False,
) -> Scan:
    """The batches of a scan of [start, stop) at a read point; the plan has passed check_plan.

    Rows ascend, or descend in a reverse scan; a row's cells are always by family, qualifier, then newest first. Rows
    without an answered cell don't count. Blocks on the sources' disks between batches. Memory: about a window
    (`window_bytes`), a batch, and what was read ahead of all sources (`merge_bytes_max`), whatever the rows, the values
    and the number of sources. The caller keeps the read point registered until the end. In row form a row of more than
    `line_bytes_max` raises LimitExceededError when the scan comes to it.

    sources_now() is asked before each window and gives a view that has all the read point sees; it may raise, which
    ends the scan. is_slice_over() is asked after each window: if so, an answer comes at once, of the rows that there
    are, perhaps none, with the row reached: the place for signs of life, for other scans and for leaving. Raises
    FilterTypeError when the scan comes to a row where a filter meets a value that doesn't fit its type; a limit that is
    met before it is not disturbed.
    """
    return Scan(
        sources_now,
        plan,
        joined(plan.ranges or (EVERYTHING,), clipped((start, stop), rows_that_may_match(plan.selection.where))),
        read_point,
        window_bytes,
        merge_bytes_max,
        line_bytes_max,
        is_slice_over,
    )


class Scan(Iterator[ScanAnswer]):
    """A scan under way: its answers, and what it holds. Used by one thread at a time."""

    def __init__(
        self,
        sources_now: Callable[[], View],
        plan: ScanPlan,
        ranges: Sequence[RowRange],
        read_point: ReadPoint,
        window_bytes: int,
        merge_bytes_max: int,
        line_bytes_max: int,
        is_slice_over: Callable[[], bool],
    ) -> None:
        self._sources_now = sources_now
        self._plan = plan
        self._ranges = ranges
        self._read_point = read_point
        self._window_bytes = window_bytes
        self._merge_bytes_max = merge_bytes_max
        self._line_bytes_max = line_bytes_max
        self._is_slice_over = is_slice_over
        self._form = None if plan.row_form is None else RowForm(plan.row_form)
        # One line is one row then, and is never cut.
        self._batches = Batches(plan.batch_bytes, plan.batch_rows, None if plan.row_form is None else line_bytes_max)
        self._reader: WindowReader | None = None
        self._given = self._batched()

    def __next__(self) -> ScanAnswer:
        return next(self._given)

    def close(self) -> None:
        """Ends the scan where it is, and lets go of all that it holds."""
        self._given.close()
        self._reader = None

    @property
    def bytes_held(self) -> int:
        """Memory that the scan holds between two answers, as far as it would not be there without it."""
        reader = self._reader
        return self._batches.bytes_held + (0 if reader is None else reader.bytes_held)

    def _batched(self) -> Generator[ScanAnswer, None, None]:
        batches = self._batches
        rows_left = self._plan.row_limit
        for answer, resume_key in self._answers():
            table, starts = answer.table, answer.starts
            is_limited = bool(self._plan.row_limit) and len(starts) >= rows_left
            if is_limited and len(starts) > rows_left:
                table, starts = table.slice(0, int(starts[rows_left])), starts[:rows_left]
            rows_left -= len(starts)
            if answer.is_part:
                yield from batches.add_part(table, is_first=len(starts) > 0, is_last=not answer.row_continues)
            else:
                yield from batches.add(table, starts)
            if is_limited and not answer.row_continues:
                break
            if answer.error is not None:
                yield from batches.rest()
                raise answer.error
            if resume_key and self._is_slice_over():
                nothing = ScanAnswer(self._nothing(), 0, row_continues=False)
                for given in list(batches.rest()) or [nothing]:
                    yield replace(given, resume_key=resume_key)
        yield from batches.rest()

    def _nothing(self) -> pa.Table:
        return EMPTY_ANSWER if self._form is None else self._form.empty

    def _answers(self) -> Iterator[tuple[WindowAnswer, bytes]]:
        """What the selection answers of each window, in the scan's order, and the row reached; empty at the end."""
        plan, selection = self._plan, self._plan.selection
        columns_read = _columns_read(selection)
        is_short = 0 < plan.row_limit <= FEW_ROWS
        bytes_first = min(self._window_bytes, FIRST_LIMITED_WINDOW_BYTES if is_short else FIRST_WINDOW_BYTES)
        bytes_max = bytes_first
        for row_range in reversed(self._ranges) if plan.reverse else self._ranges:
            reader = self._reader = WindowReader(
                self._sources_now,
                columns_read,
                self._read_point,
                row_range,
                reverse=plan.reverse,
                reads_values=_reads_values(selection),
                window_bytes=self._window_bytes,
                bytes_held_max=self._merge_bytes_max,
            )
            while (window := reader.next(bytes_max)) is not None:
                if isinstance(window, WideRow):
                    yield from self._of_wide_row(window)
                    continue
                answer = answer_window(window.families, selection, self._form, reverse=plan.reverse)
                # A window of many small rows with a costly filter can take longer than a turn by itself.
                is_slow = self._is_slice_over()
                yield answer, window.resume_key
                bytes_max = bytes_max // WINDOW_GROWTH if is_slow else bytes_max * WINDOW_GROWTH
                bytes_max = max(bytes_first, min(self._window_bytes, bytes_max))

    def _of_wide_row(self, wide: WideRow) -> Iterator[tuple[WindowAnswer, bytes]]:
        """The same of a row that is read in parts: the row is reached when its last part is answered."""
        reading = RowReading(wide.row, wide.view, self._read_point, self._plan.selection, self._window_bytes)
        nothing = WindowAnswer(self._nothing(), np.zeros(0, np.int64))
        before = wide.row + b"\x00" if self._plan.reverse else wide.row
        parts = row_answers(reading) if self._form is None else row_line(reading, self._form, self._line_bytes_max)
        is_begun = False
        try:
            for part in parts:
                if part is not None:
                    is_begun = True
                    yield part, b"" if part.row_continues else wide.resume_key
                elif not is_begun:
                    yield nothing, before
        except InvalidRequestError as error:
            yield replace(nothing, error=error), b""
        if not is_begun:
            yield nothing, wide.resume_key


def _reads_values(selection: Selection) -> bool:
    """Some value is answered or compared."""
    return not selection.cells.keys_only or selection.cells.value_op is not None or selection.where is not None


def _columns_read(selection: Selection) -> ColumnsRead | None:
    """The columns that are answered or judged; None: all of all families."""
    asked = qualifiers_asked(selection.columns)
    if asked is None:
        return None
    read = dict(asked)
    for family, qualifier in required_columns(selection.where):
        before = read.get(family, frozenset())
        read[family] = None if before is None else before | {qualifier}
    return read
