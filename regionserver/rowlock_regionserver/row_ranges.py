"""Half-open ranges of rows, in which an empty bound means no bound, and what two of them have in common."""

from __future__ import annotations

# (start, stop)
RowRange = tuple[bytes, bytes]

EVERYTHING: RowRange = (b"", b"")


def is_empty(row_range: RowRange) -> bool:
    """Returns whether no row can be in the range."""
    start, stop = row_range
    return stop != b"" and start >= stop


def clipped(row_range: RowRange, bounds: RowRange) -> RowRange:
    """Returns the intersection of two ranges; it may be empty."""
    stops = [stop for stop in (row_range[1], bounds[1]) if stop]
    start = max(row_range[0], bounds[0])
    stop = min(stops) if stops else b""
    return (start, stop)


def intersection(one: RowRange, other: RowRange) -> RowRange | None:
    """Returns the rows that both ranges have; None if there are none."""
    both = clipped(one, other)
    return None if is_empty(both) else both
