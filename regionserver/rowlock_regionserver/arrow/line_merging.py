"""Merges lines of several sources that have no row in common."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pyarrow.compute as pc

from rowlock_regionserver.arrow.columns import equals_previous, integers
from rowlock_regionserver.arrow.lines import Lines, concatenated_lines


def merged_lines(parts: Sequence[Lines]) -> list[Lines] | None:
    """Returns the lines in row order, uncopied if no part reaches into another. None if some row has several lines."""
    if any(part.has_versions for part in parts):
        return None
    in_order = sorted(parts, key=lambda part: _row(part, 0))
    if all(_row(before, -1) < _row(after, 0) for before, after in pairwise(in_order)):
        return in_order
    joined = concatenated_lines(in_order)
    places = pc.call_function("array_sort_indices", [joined.rows]).cast("int64")
    merged = joined.take(integers(places))
    return None if equals_previous(merged.rows).any() else [merged]


def _row(lines: Lines, place: int) -> bytes:
    row = lines.rows[place].as_py()
    assert isinstance(row, bytes)
    return row
