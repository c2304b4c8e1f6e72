"""An arranged bulk batch: checked, split by family, sorted and collapsed; it only lacks write number and stamp."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rowlock_regionserver.region.bulk.family_lines import FamilyLines

# One family's cells of a bulk batch, sorted and collapsed; a null timestamp is stamped when the batch is applied.
FAMILY_CELLS_FIELDS: list[pa.Field[Any]] = [
    pa.field("row", pa.binary(), nullable=False),
    pa.field("qualifier", pa.binary(), nullable=False),
    pa.field("timestamp", pa.int64()),
    pa.field("kind", pa.int8(), nullable=False),
    pa.field("value", pa.binary(), nullable=False),
]
FAMILY_CELLS_SCHEMA = pa.schema(FAMILY_CELLS_FIELDS)


@dataclass(frozen=True, slots=True)
class FamilyPart:
    """One family's part of a batch: lines, cells, or both. No column of a row is in both."""

    lines: FamilyLines | None = None
    cells: pa.Table | None = None  # FAMILY_CELLS_SCHEMA

    @property
    def cell_count(self) -> int:
        """The number of cells, those of the lines too."""
        of_lines = self.lines.cell_count if self.lines is not None else 0
        return of_lines + (self.cells.num_rows if self.cells is not None else 0)

    @property
    def byte_count(self) -> int:
        """The bytes of lines and cells."""
        of_lines = self.lines.byte_count if self.lines is not None else 0
        return of_lines + (self.cells.nbytes if self.cells is not None else 0)

    @property
    def bytes_as_cells(self) -> int:
        """About the bytes that the part takes as cells."""
        of_lines = self.lines.bytes_as_cells if self.lines is not None else 0
        return of_lines + (self.cells.nbytes if self.cells is not None else 0)


# The parts of a batch, by family number.
FamilyParts = Mapping[int, FamilyPart]


def bytes_as_cells(parts: FamilyParts) -> int:
    """Returns about the bytes that the parts take as cells.

    They decide whether a batch becomes segments: if it is applied row by row, each cell costs time and memory.
    """
    return sum([part.bytes_as_cells for part in parts.values()])


@dataclass(frozen=True, slots=True)
class ArrangedBatch:
    """An arranged bulk batch. Without parts it has no cell, and the first and last row are empty."""

    parts: FamilyParts
    row_count: int
    first_row: bytes
    last_row: bytes
    is_stamped: bool  # some cell has no timestamp of its own
    stamp_at_least: int
    # The lowest explicit timestamp at or above stamp_at_least, in a column that also has a cell without one; or None.
    timestamp_ahead: int | None

    @property
    def cell_count(self) -> int:
        """The number of cells."""
        return sum([part.cell_count for part in self.parts.values()])

    @property
    def byte_count(self) -> int:
        """The bytes of lines and cells."""
        return sum([part.byte_count for part in self.parts.values()])

    @property
    def has_lines(self) -> bool:
        """Whether some part has lines."""
        return any(part.lines is not None for part in self.parts.values())

    def is_in_order_at(self, stamp: int) -> bool:
        """Whether the cells are sorted and collapsed correctly for this stamp too.

        If it is later than the stamp that they were arranged by, and has reached `timestamp_ahead`, they must be
        arranged again.
        """
        assert stamp >= self.stamp_at_least, (stamp, self.stamp_at_least)
        return stamp == self.stamp_at_least or self.timestamp_ahead is None or stamp < self.timestamp_ahead
