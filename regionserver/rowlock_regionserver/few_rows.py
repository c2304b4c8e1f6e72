"""A few rows of one source as Python objects, for scans that end after some tens of rows.

Vector operations take some microseconds each, however few the rows are, and a chunk needs several for each column. A
few rows take less time one by one. A source returns them as it has them: lines as tuples of values, cells as lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rowlock_regionserver.found_cells import FoundCell

# A row with more cells or bytes is left to the readers of whole windows.
FEW_CELLS_MAX = 1000
FEW_BYTES_MAX = 64 * 1024
# What a cell counts beside its bytes where the bytes of rows are bounded: the time that it takes.
CELL_BYTES = 40


class LineValues(NamedTuple):
    """The values of rows of which each is one line: for each row a value of each column, None where it has no cell."""

    qualifiers: tuple[bytes, ...]  # ascending
    of_rows: Sequence[tuple[bytes | None, ...]]
    has_nulls: bool


class LineFacts(NamedTuple):
    """Bounds of the cells of lines, perhaps pessimistic, as in sources.Chunk."""

    write_number_max: int
    timestamp_min: int


@dataclass(frozen=True, slots=True)
class FewRows:
    """Whole rows of one source, distinct and ascending. Their cells are copied when they are asked for.

    frontier: `rows` has every row of the range before it. None: every row of the range.
    cells_of: returns the cells of the row at a place, tombstones and old versions too, in store order. None is away.
    lines_of: returns the values of this many first rows. None: not each row is one line.

    If only some columns were wanted, lines have no others, and cells of others may be missing; so a row may have none.
    """

    rows: Sequence[bytes]
    frontier: bytes | None
    cells_of: Callable[[int], Sequence[FoundCell]]
    lines_of: Callable[[int], LineValues] | None = None
    facts: LineFacts | None = None  # of the lines


def line_values(
    qualifiers: Sequence[bytes], columns: Sequence[Sequence[bytes | None]], line_count: int, *, has_nulls: bool
) -> LineValues:
    """Returns the values of lines, given those of each column."""
    of_rows = list(zip(*columns, strict=True)) if columns else [()] * line_count
    return LineValues(tuple(qualifiers), of_rows, has_nulls)


NO_FEW_ROWS = FewRows((), None, ().__getitem__)


def rows_of_lines(
    rows: list[bytes],
    first: int,
    frontier: bytes | None,
    cells: Callable[[int, int], Sequence[FoundCell]],
    values: Callable[[int, int], LineValues],
    facts: LineFacts,
) -> FewRows:
    """Returns the rows of consecutive lines, given the row of each line, ascending, and the place of the first line.

    `cells` and `values` return those of the lines [start, stop); the cells are of one row, in store order.
    """
    if len(set(rows)) == len(rows):
        return FewRows(
            rows,
            frontier,
            lambda place: cells(first + place, first + place + 1),
            lambda count: values(first, first + count),
            facts,
        )
    starts = [place for place, row in enumerate(rows) if not place or rows[place - 1] != row]
    ends = [*starts[1:], len(rows)]
    distinct = [rows[start] for start in starts]
    return FewRows(distinct, frontier, lambda place: cells(first + starts[place], first + ends[place]))
