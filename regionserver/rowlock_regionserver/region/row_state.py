"""The state of one row as COMPARE reads it: stored cells, unpublished ones too, column by column.

A row may have 100,000 columns, and a counter among them must not cost more for it: only what is asked for is read.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowlock_regionserver.cells import Cell, Family
from rowlock_regionserver.region.stores import View


class RowState:
    """One row, whose lock the caller holds. What was read is kept, since the row does not change meanwhile."""

    __slots__ = ("_published", "_read", "_row", "_view")

    def __init__(self, view: View, row: bytes, published: int) -> None:
        """`published`: the read point of a moment ago."""
        self._view = view
        self._row = row
        self._published = published
        # By family number and qualifier; None stands for the whole family.
        self._read: dict[tuple[int, bytes | None], Sequence[Cell]] = {}

    @property
    def newest_write_number(self) -> int:
        """Of the row, in the families that were read from; 0 when all of that is published."""
        return -min(
            (
                cell[2]
                for number in {number for number, _ in self._read}
                for source in self._view[number][1]
                if source.write_number_max > self._published
                for cell in source.row_cells(self._row)
            ),
            default=0,
        )

    def family_cells(self, family: Family) -> Sequence[Cell]:
        """All cells of the row in the family, tombstones and old versions too, in store order."""
        key = (family.number, None)
        cells = self._read.get(key)
        if cells is None:
            sources = self._view[family.number][1]
            cells = self._read[key] = _merged([source.row_cells(self._row) for source in sources])
        return cells

    def column_cells(self, family: Family, qualifier: bytes) -> Sequence[Cell]:
        """The cells of one column, and the family's tombstones that may hide them, in store order."""
        key = (family.number, qualifier)
        cells = self._read.get(key)
        if cells is None:
            sources = self._view[family.number][1]
            cells = self._read[key] = _merged([source.column_cells(self._row, qualifier) for source in sources])
        return cells


def _merged(parts: Sequence[Sequence[Cell]]) -> Sequence[Cell]:
    """The cells of all sources, each sorted, in store order."""
    found = [part for part in parts if part]
    if len(found) > 1:
        return sorted([cell for part in found for cell in part])
    return found[0] if found else ()
