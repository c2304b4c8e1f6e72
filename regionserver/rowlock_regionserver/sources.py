"""What a read reads from: memstore segments and store files behind one interface.

Two ways lead to a row. Points take its cells as tuples; scans take chunks of rows as Arrow tables. A value that is
large, or not needed yet, may be away: an AwayValue stands for it, which says how long it is and reads it when asked.
So who judges keys, which say what is visible, never holds the values of what it will not answer.

A row may be larger than what a reader wants to hold. Such a row is long to a point read (LongRowError) and wide to a
scan (Chunk.wide_row); both then read it in parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pyarrow as pa

from rowlock_regionserver.cells import Cell

# More cells, or bytes, than there ever are.
NO_LIMIT = 1 << 62

# Values up to this are never away: reading one later costs more than holding it.
AWAY_BYTES_MIN = 64 * 1024


class AwayValue:
    """A value that was not read with its cell. `load` reads it, each time anew; it may block on a disk."""

    __slots__ = ("byte_count", "load")

    def __init__(self, byte_count: int, load: Callable[[], bytes]) -> None:
        self.byte_count = byte_count
        self.load = load

    def __len__(self) -> int:
        return self.byte_count

    def __lt__(self, other: object) -> bool:
        """Cells are sorted as tuples; two that differ only in the value, which may be away, are the same cell."""
        return False

    __gt__ = __lt__


# A cell as a point read finds it: (qualifier, -timestamp, -write_number, kind, value); see cells.Cell.
FoundCell = tuple[bytes, int, int, int, bytes | AwayValue]


# A rule for cells with their values holds as well for cells as they are found.
AnyCell = TypeVar("AnyCell", Cell, FoundCell)

# A cell as it is found and answered: (family, qualifier, timestamp, value); see operations.AnswerCell.
FoundAnswer = tuple[bytes, bytes, int, bytes | AwayValue]


def loaded(value: bytes | AwayValue) -> bytes:
    """The value itself."""
    return value if isinstance(value, bytes) else value.load()


class LongRowError(Exception):
    """A row has more cells than the reader wanted to take at once; it reads the row in parts instead."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Cells of one source in store order: of whole rows, or a part of one row.

    Of whole rows `frontier` says how far they reach. Read forwards, every cell of the asked range with row < `frontier`
    is in `table`; read backwards, every cell with row >= `frontier` (the table still ascends); and no other cell is.
    None: the range is exhausted. The flags may be pessimistic, never optimistic.
    """

    table: pa.Table  # CELL_SCHEMA
    frontier: bytes | None
    has_tombstones: bool
    has_versions: bool  # some column may be there more than once
    write_number_max: int
    timestamp_min: int
    # Values that are away, by their places in the table, ascending; the table has an empty value there.
    away: tuple[tuple[int, AwayValue], ...] = ()
    # The row at the frontier, when it is too large to be read whole: the next one, or backwards the one before.
    wide_row: bytes | None = None
    # Memory that this chunk keeps alive, and that would not be there without it.
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

        Raises LongRowError, before it has taken long, when there are more than `cells_max`.
        """

    def columns_cells(self, row: bytes, qualifiers: Sequence[bytes], cells_max: int = NO_LIMIT) -> Sequence[FoundCell]:
        """Of these the cells of some columns, which ascend, and the row's family tombstones: all that decides on them.

        Costs what it gives, and little for the rest of the row.
        """

    def row_cell_count(self, row: bytes) -> int:
        """About how many cells a read of the row takes, as far as that is known without reading; 0 may be few."""

    def is_row_in_memory(self, row: bytes) -> bool:
        """row_cells(row) will not wait for a disk."""

    def empty_until(self, start: bytes, stop: bytes, *, reverse: bool = False) -> bytes | None:
        """A row before which the range [start, stop) has none, with `reverse` from which on it has none.

        None: the range is empty. Known without reading, so that row need not be there; `start` says nothing.
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
