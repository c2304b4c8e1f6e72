"""What a read reads from: memstore segments and store files behind one interface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from rowlock_regionserver.cells import Cell


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole rows of one source, in store order, and how far they reach.

    Read forwards, every cell of the asked range with row < `frontier` is in `table`; read backwards, every cell with
    row >= `frontier` (the table still ascends). `frontier` None: the range is exhausted. The flags may be
    pessimistic, never optimistic.
    """

    table: pa.Table  # CELL_SCHEMA
    frontier: bytes | None
    has_tombstones: bool
    has_versions: bool  # some column may be there more than once
    write_number_max: int
    timestamp_min: int


class Source(Protocol):
    """One family's cells, sorted, from one place. Safe to read from many threads."""

    @property
    def write_number_min(self) -> int:
        """Least write number in it; NEWEST when empty."""

    @property
    def write_number_max(self) -> int:
        """Greatest write number in it; 0 when empty."""

    def row_cells(self, row: bytes) -> Sequence[Cell]:
        """All cells of the row, tombstones and old versions too, in store order; empty when there are none."""

    def is_row_in_memory(self, row: bytes) -> bool:
        """row_cells(row) will not wait for a disk."""

    def read_rows(self, start: bytes, stop: bytes, bytes_max: int, *, reverse: bool = False) -> Chunk:
        """Whole rows of [start, stop), the first ones or with `reverse` the last ones; an empty stop is no bound.

        About `bytes_max` of cells, but at least one row unless the range is empty.
        """
