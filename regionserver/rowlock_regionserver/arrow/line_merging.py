"""Merges lines of several sources, without a look at single cells.

`merged_lines` is for sources that have no row in common, and copies nothing if they don't overlap. `merged_versions`
makes one of several, in which a row may have several lines, its versions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow.compute as pc

from rowlock_regionserver.arrow.columns import equals_previous, integers
from rowlock_regionserver.arrow.line_forming import ROW_CELL_BYTES_MAX, VERSIONS_MAX
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


def merged_versions(parts: Sequence[Lines]) -> Lines | None:
    """Returns all lines of the parts as one. Copies them. Some 3 M lines/s of ten columns.

    None if the parts differ in their columns, if numbers are by cell, or if a row would be too large or have too many
    versions.
    """
    by_line = all(part.timestamps.shape[0] == part.write_numbers.shape[0] == 1 for part in parts)
    if not by_line or any(part.qualifiers != parts[0].qualifiers for part in parts):
        return None
    joined = concatenated_lines(parts)
    merged = joined.take(integers(pc.call_function("array_sort_indices", [joined.rows]).cast("int64")))
    if not merged.has_versions:
        return merged
    rows = np.cumsum(merged.starts_row) - 1
    if np.bincount(rows).max() > VERSIONS_MAX or np.bincount(rows, merged.cell_bytes()).max() > ROW_CELL_BYTES_MAX:
        return None
    timestamps, write_numbers = (merged.numbers_of(numbers, 0) for numbers in (merged.timestamps, merged.write_numbers))
    return merged.take(np.lexsort((-write_numbers, -timestamps, rows)))


def _row(lines: Lines, place: int) -> bytes:
    row = lines.rows[place].as_py()
    assert isinstance(row, bytes)
    return row
