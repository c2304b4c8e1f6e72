"""Ranges of rows: half-open, an empty bound is no bound. Sorted, joined, clipped, and narrowed by a row filter."""

from __future__ import annotations

from collections.abc import Iterable

from rowlock_regionserver.operations import AllOf, CompareOp, RowComparison, RowFilter, RowPrefix

# (start, stop)
RowRange = tuple[bytes, bytes]

EVERYTHING: RowRange = (b"", b"")


def prefix_stop(prefix: bytes) -> bytes:
    """The first row after all rows that start with the prefix; empty when there is none, as after ff ff."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes((trimmed[-1] + 1,)) if trimmed else b""


def is_empty(row_range: RowRange) -> bool:
    """No row can be in it."""
    start, stop = row_range
    return stop != b"" and start >= stop


def clipped(row_range: RowRange, bounds: RowRange) -> RowRange:
    """The rows that are in both; may be empty."""
    stops = [stop for stop in (row_range[1], bounds[1]) if stop]
    start = max(row_range[0], bounds[0])
    stop = min(stops) if stops else b""
    return (start, stop)


def joined(ranges: Iterable[RowRange], bounds: RowRange) -> list[RowRange]:
    """The ranges clipped to `bounds`, ascending, with those that overlap or touch made one and empty ones left out."""
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
    """A range outside of which no row matches the filter.

    Of an AllOf only the leading conditions on the row count: the ones behind a column's are not reached by rows where
    that column's value is an error, and such a row has to be met.
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
        # Nothing is less than the empty row, and an empty stop would say "no bound".
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
