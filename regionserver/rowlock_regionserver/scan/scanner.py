"""The scanner: a plan's ranges, window by window, as batches of visible cells.

For each window: the sources' cells up to a common row (windows.py), what the read point sees of them (visibility.py),
what the selection answers of that (window_choice.py), laid out one cell a line (window_answer.py) or one row a line
(pivot.py), cut to batches (batches.py). The rest is counting: ranges, direction, the row limit, and how large a window
to read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from rowlock_regionserver.cells import ReadPoint
from rowlock_regionserver.config import MIB
from rowlock_regionserver.operations import ScanPlan, Selection
from rowlock_regionserver.scan.batches import Batches, ScanAnswer
from rowlock_regionserver.scan.filters import required_columns
from rowlock_regionserver.scan.ranges import EVERYTHING, clipped, joined, rows_that_may_match
from rowlock_regionserver.scan.row_form import RowForm
from rowlock_regionserver.scan.selection import qualifiers_asked
from rowlock_regionserver.scan.window_answer import WindowAnswer, answer_window
from rowlock_regionserver.scan.windows import ColumnsRead, View, WindowReader

__all__ = ["ScanAnswer", "scan"]

# A limit is often met by the first rows: windows begin small and grow to full size within few. With each turn that a
# window ends they become smaller again.
FIRST_WINDOW_BYTES = 256 * 1024
FIRST_LIMITED_WINDOW_BYTES = 32 * 1024
WINDOW_GROWTH = 4


def scan(
    sources_now: Callable[[], View],
    plan: ScanPlan,
    start: bytes,
    stop: bytes,
    read_point: ReadPoint,
    *,
    window_bytes: int = 8 * MIB,
    merge_bytes_max: int = 256 * MIB,
    line_bytes_max: int = 64 * MIB,
    is_turn_over: Callable[[], bool] = lambda: False,
) -> Iterator[ScanAnswer]:
    """The batches of a scan of [start, stop) at a read point; the plan has passed check_plan.

    Rows ascend, or descend in a reverse scan; a row's cells are always by family, qualifier, then newest first. Rows
    without an answered cell don't count. Blocks on the sources' disks between batches. Memory: about a window
    (`window_bytes`) of each source and a batch. The caller keeps the read point registered until the end. In row form a
    row of more than `line_bytes_max` raises LimitExceededError when the scan comes to it.

    sources_now() is asked before each window and gives a view that has all the read point sees; it may raise, which
    ends the scan. is_turn_over() is asked after each window: if so, an answer comes at once, of the rows that there
    are, perhaps none, with the row reached: the place for signs of life, for other scans and for leaving. Raises
    FilterTypeError when the scan comes to a row where a filter meets a value that doesn't fit its type; a limit that is
    met before it is not disturbed.
    """
    # One line is one row then, and is never cut.
    batches = Batches(plan.batch_bytes, plan.batch_rows, None if plan.row_form is None else line_bytes_max)
    rows_left = plan.row_limit
    answers = _answers(sources_now, plan, start, stop, read_point, window_bytes, merge_bytes_max, is_turn_over)
    for answer, row_reached in answers:
        table, starts = answer.table, answer.starts
        is_last = bool(plan.row_limit) and len(starts) >= rows_left
        if is_last and len(starts) > rows_left:
            table, starts = table.slice(0, int(starts[rows_left])), starts[:rows_left]
        rows_left -= len(starts)
        yield from batches.add(table, starts)
        if is_last:
            break
        if answer.error is not None:
            raise answer.error
        if row_reached and is_turn_over():
            for given in list(batches.rest()) or [ScanAnswer(table.slice(0, 0), 0, row_continues=False)]:
                yield replace(given, row_reached=row_reached)
    yield from batches.rest()


def _answers(
    sources_now: Callable[[], View],
    plan: ScanPlan,
    start: bytes,
    stop: bytes,
    read_point: ReadPoint,
    window_bytes: int,
    merge_bytes_max: int,
    is_turn_over: Callable[[], bool],
) -> Iterator[tuple[WindowAnswer, bytes]]:
    """What the selection answers of each window, in the scan's order, and the row reached; empty at the end."""
    selection = plan.selection
    form = None if plan.row_form is None else RowForm(plan.row_form)
    bounds = clipped((start, stop), rows_that_may_match(selection.where))
    ranges = joined(plan.ranges or (EVERYTHING,), bounds)
    columns_read = _columns_read(selection)
    bytes_first = min(window_bytes, FIRST_LIMITED_WINDOW_BYTES if plan.row_limit else FIRST_WINDOW_BYTES)
    bytes_max = bytes_first
    for row_range in reversed(ranges) if plan.reverse else ranges:
        reader = WindowReader(sources_now, columns_read, read_point, row_range, reverse=plan.reverse)
        while (window := reader.next(bytes_max, merge_bytes_max)) is not None:
            answer = answer_window(window, selection, form, reverse=plan.reverse)
            # A window of many small rows with a costly filter can take longer than a turn by itself.
            is_slow = is_turn_over()
            yield answer, reader.row_reached
            bytes_max = bytes_max // WINDOW_GROWTH if is_slow else bytes_max * WINDOW_GROWTH
            bytes_max = max(bytes_first, min(window_bytes, bytes_max))


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
