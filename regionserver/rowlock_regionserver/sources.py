"""The sources of a read: memstore segments and store files behind one interface.

Point reads take the cells of a row as tuples; scans take chunks of rows as Arrow tables. A value that is large, or not
needed yet, may be away: an AwayValue replaces it, which has its length and loads it on demand. So the code that decides
by keys which cells are visible never holds the values of other cells.

A row may be larger than a reader wants to hold. Such a row is long to a point read (LongRowError) and wide to a scan
(Chunk.wide_row); both then read it in parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pyarrow as pa

from rowlock_regionserver.cells import Cell

# More cells, or bytes, than can exist.
NO_LIMIT = 1 << 62

# Values up to this are never away: reading one later costs more than holding it.
AWAY_BYTES_MIN = 64 * 1024


class AwayValue:
    """A value that was not read with its cell. Each call of `load` reads it; it may block on a disk."""

    __slots__ = ("byte_count", "load")

    def __init__(self, byte_count: int, load: Callable[[], bytes]) -> None:
        self.byte_count = byte_count
        self.load = load

    def __len__(self) -> int:
        return self.byte_count

    def __lt__(self, other: object) -> bool:
        """Cells are sorted as tuples. Two that differ only in the value, which may be away, are the same cell."""
        return False

    __gt__ = __lt__


# A cell as a point read finds it: (qualifier, -timestamp, -write_number, kind, value); see cells.Cell.
FoundCell = tuple[bytes, int, int, int, bytes | AwayValue]


# For rules that apply to cells with values and to cells with away values.
AnyCell = TypeVar("AnyCell", Cell, FoundCell)

# A cell of an answer whose value may be away: (family, qualifier, timestamp, value); see operations.AnswerCell.
FoundAnswer = tuple[bytes, bytes, int, bytes | AwayValue]


def loaded(value: bytes | AwayValue) -> bytes:
    """Returns the value; loads it if it is away."""
    return value if isinstance(value, bytes) else value.load()


class LongRowError(Exception):
    """A row has more cells than the reader wanted to take at once; it reads the row in parts instead."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Cells of one source in store order: of whole rows, or a part of one row.

    For whole rows `frontier` is their end. Read forwards, every cell of the range with row < `frontier` is in `table`;
    read backwards, every cell with row >= `frontier` (the table still ascends); and no other cell is.
    None: the range is exhausted. The flags may be pessimistic, never optimistic.
    """

    table: pa.Table  # CELL_SCHEMA
    frontier: bytes | None
    has_tombstones: bool
    has_versions: bool  # a column may occur more than once
    write_number_max: int
    timestamp_min: int
    # Values that are away, by their places in the table, ascending; the table has an empty value there.
    away: tuple[tuple[int, AwayValue], ...] = ()
    # The row at the frontier, when it is too large to be read whole: the next one, or backwards the one before.
    wide_row: bytes | None = None
    # Memory that only this chunk keeps alive.
    bytes_held: int = 0


class Source(Protocol):
    """One family's cells, sorted, from one place. Safe to read from many threads."""

    @property
    def write_number_min(self) -> int:
        """Least write number in it; NEWEST when empty."""

    @property
    def write_number_max(self) -> int:
        """Greatest write number in it; 0 when empty."""

    def row_cells(self, row: bytes, cells_max: int = NO_LIMIT) -> Sequence[FoundCell]:
        """All cells of the row, tombstones and old versions too, in store order; empty when there are none.

        Raises LongRowError, early, when there are more than `cells_max`.
        """

    def columns_cells(self, row: bytes, qualifiers: Sequence[bytes], cells_max: int = NO_LIMIT) -> Sequence[FoundCell]:
        """The cells of some columns of the row, which ascend, and the row's family tombstones, which may hide them.

        The cost is that of the result, and little for other cells of the row.
        """

    def row_cell_count(self, row: bytes) -> int:
        """An estimate, without reading, of the cells that a read of the row takes; 0: few or none."""

    def is_row_in_memory(self, row: bytes) -> bool:
        """Whether row_cells(row) never waits for a disk."""

    def empty_until(self, start: bytes, stop: bytes, *, reverse: bool = False) -> bytes | None:
        """A row before which the range [start, stop) is empty; with `reverse`, a row from which on it is empty.

        None: the whole range is empty. Known without reading, so the row need not exist; `start` excludes nothing.
        """

    def read_rows(
        self, start: bytes, stop: bytes, bytes_max: int, row_bytes_max: int = NO_LIMIT, *, reverse: bool = False
    ) -> Chunk:
        """Whole rows of [start, stop), the first ones or with `reverse` the last ones; an empty stop is no bound.

        About `bytes_max` of cells, but at least one row unless the range is empty, or unless the first row has more
        than `row_bytes_max`: then the chunk is empty and has it as its `wide_row`.
        """

    def row_parts(self, row: bytes, bytes_max: int, start: bytes = b"", stop: bytes = b"") -> Iterator[Chunk]:
        """All cells of the row with qualifiers of [start, stop), in store order, in parts that may end anywhere.

        A part has at least one cell, and about `bytes_max` at most if it has several. An empty stop is no bound.
        """
