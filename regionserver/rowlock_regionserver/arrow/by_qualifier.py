"""Computes a function of the qualifiers once for all rows that have the same columns.

In a table that is used like a relational one each row has the same columns, so the qualifiers of a window repeat from
row to row. Checking that takes at most a quarter of the time of computing the function for each cell.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowlock_regionserver.arrow.columns import QUALIFIER, ROW, Column, column, offsets
from rowlock_regionserver.arrow.masks import buffer_of

Scalar = TypeVar("Scalar", bound=np.generic)


def by_qualifier(table: pa.Table, compute: Callable[[Column], npt.NDArray[Scalar]]) -> npt.NDArray[Scalar]:
    """Returns compute(qualifiers) for a sorted table, whose rows and qualifiers are one chunk each.

    `compute` returns one number an element, which depends on that element alone. 500 M cells/s if qualifiers repeat.
    """
    qualifiers = column(table, QUALIFIER)
    count = _cells_of_first_row(table)
    if count < len(qualifiers) and _repeats(qualifiers, count):
        of_first_row = compute(qualifiers.slice(0, count))
        return np.tile(of_first_row, len(qualifiers) // count + 1)[: len(qualifiers)]
    return compute(qualifiers)


def _cells_of_first_row(table: pa.Table) -> int:
    rows = column(table, ROW)
    return bisect_right(range(1, len(rows)), rows[0].as_py(), key=lambda cell: rows[cell].as_py()) + 1


def _repeats(array: Column, period: int) -> bool:
    """Returns whether each element equals the one `period` before it; the last period may be cut short."""
    bounds = offsets(array)
    lengths = np.diff(bounds)
    if not np.array_equal(lengths[period:], lengths[:-period]):
        return False
    # The lengths repeat, so the bytes of all periods can be compared in one step.
    start, stop = int(bounds[0]), int(bounds[-1])
    period_bytes = int(bounds[period]) - start
    data = np.frombuffer(buffer_of(array, 2), np.uint8)
    return np.array_equal(data[start + period_bytes : stop], data[start : stop - period_bytes])
