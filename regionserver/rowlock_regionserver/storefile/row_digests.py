"""Divides the rows of a file's lines into row groups, and computes their digests.

Where a group begins depends on the row itself: so the groups of two families with the same rows begin at the same rows,
although their blocks do not, and after a row that only one of them has, they soon begin at the same rows again.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from rowlock_regionserver.arrow.cell_columns import first_not_below
from rowlock_regionserver.arrow.columns import Column, offsets
from rowlock_regionserver.arrow.line_forming import COLUMNS_MAX
from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.row_groups import RowGroups

# One row in 4096 may begin a group, which has at least 1024 rows then, unless it is the last one.
CANDIDATE_BITS = 12
ROWS_MIN = 1024
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SAMPLE_BYTES = 8


class RowDigests:
    """The digests of the groups so far. Not thread-safe."""

    def __init__(self) -> None:
        self._first_rows: list[bytes] = []
        self._digests: list[bytes] = []
        self._complete_columns: list[frozenset[bytes]] = []
        self._last_row = b""
        # Of the last group:
        self._row_count = 0
        self._complete: frozenset[bytes] | None = None
        self._lengths = hashlib.sha256()
        self._rows = hashlib.sha256()

    def add(self, lines: Lines) -> None:
        """Adds the next lines, of whole rows, and begins groups where it chooses."""
        rows = lines.distinct_rows
        starts: list[int] = []
        row_count = self._row_count
        place = 0
        for candidate in np.flatnonzero(_may_begin(rows)).tolist():
            if row_count + candidate - place >= ROWS_MIN:
                starts.append(candidate)
                row_count, place = 0, candidate
        self._add(lines, rows, starts if self._first_rows else [0, *starts])

    def _add(self, lines: Lines, rows: Column, starts: Sequence[int]) -> None:
        """Adds lines, at least one, and their distinct rows, of which groups begin at the places `starts`."""
        line_starts = np.flatnonzero(lines.starts_row) if lines.has_versions else None
        place = first_line = 0
        for start in (*starts, len(rows)):
            line = start if line_starts is None else int(line_starts[start]) if start < len(rows) else len(lines)
            if start > place:
                self._extend(rows, place, start)
                self._add_columns(lines, first_line, line)
            place, first_line = start, line
            if start < len(rows):
                self._end_group()
                self._first_rows.append(rows[start].as_py() or b"")
        self._last_row = rows[-1].as_py() or b""

    def add_like(self, lines: Lines, groups: RowGroups) -> None:
        """Adds the next lines, and begins groups where `groups` do."""
        rows = lines.distinct_rows
        stop = bisect_right(groups.first_rows, rows[-1].as_py() or b"")
        self._add(lines, rows, [first_not_below(rows, row) for row in groups.first_rows[len(self._first_rows) : stop]])

    def finish(self) -> RowGroups:
        """Returns the groups of all rows."""
        self._end_group()
        if len(frozenset().union(*self._complete_columns)) > COLUMNS_MAX:
            self._complete_columns = [frozenset()] * len(self._digests)
        return RowGroups(self._first_rows, self._digests, self._complete_columns, self._last_row)

    def _extend(self, rows: Column, start: int, stop: int) -> None:
        bounds = offsets(rows)[start : stop + 1]
        self._lengths.update(np.diff(bounds).astype("<u4").tobytes())
        data = rows.buffers()[2]
        if data is not None:
            self._rows.update(memoryview(data)[int(bounds[0]) : int(bounds[-1])])
        self._row_count += stop - start

    def _add_columns(self, lines: Lines, start: int, stop: int) -> None:
        """Adds the lines [start, stop) to the last group."""
        complete = frozenset(
            [
                qualifier
                for qualifier, column in zip(lines.qualifiers, lines.columns, strict=True)
                if not column.null_count or not column.slice(start, stop - start).null_count
            ]
        )
        self._complete = complete if self._complete is None else self._complete & complete

    def _end_group(self) -> None:
        if self._row_count:
            self._complete_columns.append(self._complete or frozenset())
            self._complete = None
            self._digests.append(hashlib.sha256(self._lengths.digest() + self._rows.digest()).digest())
            self._lengths, self._rows, self._row_count = hashlib.sha256(), hashlib.sha256(), 0


def _may_begin(rows: Column) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Returns at which rows a group may begin: by the last bytes of each, in which rows mostly differ."""
    bounds = offsets(rows)
    data = rows.buffers()[2]
    used = memoryview(b"" if data is None else data)[int(bounds[0]) : int(bounds[-1])]
    padded = bytes(_SAMPLE_BYTES) + bytes(used)
    # Numbers at every byte, of which each row's last one is taken.
    at_bytes = np.ndarray(len(padded) - _SAMPLE_BYTES + 1, "<u8", padded, strides=(1,))
    samples = at_bytes[bounds[1:] - bounds[0]]
    lengths = np.diff(bounds)
    if lengths.min() < _SAMPLE_BYTES:
        # Without the bytes of the row before.
        samples = samples >> (8 * (_SAMPLE_BYTES - np.clip(lengths, 1, _SAMPLE_BYTES))).astype(np.uint64)
    begins: np.ndarray[tuple[int], np.dtype[np.bool_]] = (samples * _MULTIPLIER) >> np.uint64(64 - CANDIDATE_BITS) == 0
    return begins
