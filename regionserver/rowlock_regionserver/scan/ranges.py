"""Ranges of rows for scans: joins them, and derives them from row filters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rowlock_proto.prefixes import prefix_stop

from rowlock_regionserver.cells import ReadPoint
from rowlock_regionserver.operations import AllOf, CompareOp, RowComparison, RowFilter, RowPrefix
from rowlock_regionserver.row_ranges import EVERYTHING, RowRange, clipped, is_empty


class RowsAt(NamedTuple):
    """The rows of a range at one read point."""

    rows: RowRange
    read_point: ReadPoint


def joined(ranges: Iterable[RowRange], bounds: RowRange) -> list[RowRange]:
    """Returns the ranges clipped to `bounds`, ascending, without empty ones; those that overlap or touch are joined."""
    result: list[RowRange] = []
    for start, stop in sorted(clipped(row_range, bounds) for row_range in ranges):
        if is_empty((start, stop)):
            continue
        if result and (not result[-1][1] or start <= result[-1][1]):
            first, last = result[-1]
            result[-1] = (first, max(last, stop) if last and stop else b"")
        else:
            result.append((start, stop))
    return result


def rows_that_may_match(row_filter: RowFilter | None) -> RowRange:
    """Returns a range outside of which no row matches the filter.

    Of an AllOf only the leading conditions on the row count. A condition after a column's condition can't narrow the
    range: a row outside of it may have a column value that doesn't fit its type, and the scan must raise that error.
    """
    if isinstance(row_filter, RowPrefix):
        return (row_filter.prefix, prefix_stop(row_filter.prefix))
    if isinstance(row_filter, RowComparison):
        return _rows_compared(row_filter)
    bounds = EVERYTHING
    if isinstance(row_filter, AllOf):
        for part in row_filter.filters:
            if not isinstance(part, RowPrefix | RowComparison | AllOf):
                break
            bounds = clipped(bounds, rows_that_may_match(part))
            if isinstance(part, AllOf):
                break
    return bounds


def _rows_compared(comparison: RowComparison) -> RowRange:
    row = comparison.operand
    after = row + b"\x00"
    match comparison.op:
        case CompareOp.EQUAL:
            return (row, after)
        # No row is less than the empty row, and an empty stop would mean no bound.
        case CompareOp.LESS:
            return (b"", row) if row else (b"\x00", b"\x00")
        case CompareOp.LESS_OR_EQUAL:
            return (b"", after)
        case CompareOp.GREATER:
            return (after, b"")
        case CompareOp.GREATER_OR_EQUAL:
            return (row, b"")
        case CompareOp.NOT_EQUAL:
            return EVERYTHING
