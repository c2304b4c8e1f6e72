"""Cuts lines into slices of whole rows, of about a number of bytes each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rowlock_regionserver.arrow.columns import Integers
from rowlock_regionserver.arrow.lines import Lines


def slices_of(lines: Lines, cell_bytes_max: int) -> Iterator[Lines]:
    """Yields the lines in slices of whole rows, each of about `cell_bytes_max` as cells, or of one row."""
    for start, stop in row_ranges(lines, lines.cell_bytes(), cell_bytes_max):
        yield lines.slice(start, stop)


def fitting_lines(lines: Lines, line_bytes: Integers, bytes_max: int) -> int:
    """Returns how many of the first lines fit into `bytes_max`, without dividing a row."""
    reached = int(np.searchsorted(np.cumsum(line_bytes), bytes_max, "right"))
    if reached == len(lines):
        return reached
    return int(np.flatnonzero(lines.starts_row[: reached + 1])[-1])


def row_ranges(lines: Lines, line_bytes: Integers, bytes_max: int, start: int = 0) -> Iterator[tuple[int, int]]:
    """Yields consecutive ranges [start, stop) of whole rows, each of about `bytes_max` or of one row.

    `start`: where the first range begins; a row must begin there.
    """
    ends = np.cumsum(line_bytes)
    starts = np.flatnonzero(lines.starts_row)
    while start < len(lines):
        before = int(ends[start - 1]) if start else 0
        reached = int(np.searchsorted(ends, before + bytes_max, "right"))
        # The last row that starts at or before the place, but after `start`.
        at = int(np.searchsorted(starts, reached, "right")) - 1
        stop = int(starts[at]) if reached < len(lines) else len(lines)
        if stop <= start:
            after = int(np.searchsorted(starts, start, "right"))
            stop = int(starts[after]) if after < len(starts) else len(lines)
        yield start, stop
        start = stop


def last_slice_of(lines: Lines, cell_bytes_max: int) -> Lines:
    """Returns the last whole rows of about `cell_bytes_max` as cells, or the last row."""
    ends = np.cumsum(lines.cell_bytes())
    # Counted from the end, the line after the first one that does not fit.
    fitting = int(np.searchsorted(ends, int(ends[-1]) - cell_bytes_max, "left")) + 1
    starts = np.flatnonzero(lines.starts_row)
    at = min(int(np.searchsorted(starts, fitting, "left")), len(starts) - 1)
    return lines.slice(0 if ends[-1] <= cell_bytes_max else int(starts[at]), len(lines))
