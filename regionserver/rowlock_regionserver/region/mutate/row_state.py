"""The state of one row as COMPARE reads it: stored cells, unpublished ones too, column by column.

A row may have 100,000 columns, and a counter among them must not cost more for it: only what is asked for is read.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowlock_regionserver.cells import Family, ReadPoint
from rowlock_regionserver.config import KIB
from rowlock_regionserver.operations import CellFilter, Selection
from rowlock_regionserver.region.stores import View
from rowlock_regionserver.scan.wide_rows import RowReading
from rowlock_regionserver.sources import NO_LIMIT, FoundCell, LongRowError, Source
from rowlock_regionserver.versions.visibility import visible_cells

# So many cells are read at once to see whether one of them is visible; of a longer row small parts, until one is.
_FEW_CELLS = 256
_PART_BYTES = 64 * KIB
_ANY_CELL = Selection(cells=CellFilter(keys_only=True, first_key_only=True))


class RowState:
    """One row, whose lock the caller holds. What was read is kept, since the row does not change meanwhile."""

    __slots__ = ("_published", "_read", "_read_in_parts", "_row", "_view")

    def __init__(self, view: View, row: bytes, published: int) -> None:
        """`published`: the read point of a moment ago."""
        self._view = view
        self._row = row
        self._published = published
        # By family number and qualifier; None stands for the whole family.
        self._read: dict[tuple[int, bytes | None], Sequence[FoundCell]] = {}
        self._read_in_parts: set[int] = set()  # families, of which nothing is kept

    @property
    def newest_write_number(self) -> int:
        """Of the row, in the families that were read from; 0 when all of that is published.

        Of a row of many cells not less: the newest write of the segment that has it.
        """
        newest = 0
        for number in {number for number, _ in self._read} | self._read_in_parts:
            for source in self._view[number][1]:
                if source.write_number_max > max(self._published, newest):
                    newest = max(newest, self._newest_in(source))
        return newest

    def _newest_in(self, source: Source) -> int:
        try:
            return max([-cell[2] for cell in source.row_cells(self._row, _FEW_CELLS)], default=0)
        except LongRowError:
            return source.write_number_max

    def has_visible(self, family: Family, read_point: ReadPoint) -> bool:
        """Some cell of the row is visible in the family. Of a row of many cells it reads on until it has met one."""
        try:
            return bool(visible_cells(self.family_cells(family, _FEW_CELLS), read_point, family))
        except LongRowError:
            self._read_in_parts.add(family.number)
            reading = RowReading(
                self._row, [(family, self._view[family.number][1])], read_point, _ANY_CELL, _PART_BYTES
            )
            return any(len(run) for _, run in reading.answered())

    def family_cells(self, family: Family, cells_max: int = NO_LIMIT) -> Sequence[FoundCell]:
        """All cells of the row in the family, tombstones and old versions too, in store order.

        Raises LongRowError when some source has more than `cells_max`.
        """
        key = (family.number, None)
        cells = self._read.get(key)
        if cells is None:
            sources = self._view[family.number][1]
            cells = self._read[key] = _merged([source.row_cells(self._row, cells_max) for source in sources])
        return cells

    def column_cells(self, family: Family, qualifier: bytes) -> Sequence[FoundCell]:
        """The cells of one column, and the family's tombstones that may hide them, in store order."""
        key = (family.number, qualifier)
        cells = self._read.get(key)
        if cells is None:
            sources = self._view[family.number][1]
            cells = self._read[key] = _merged([source.columns_cells(self._row, (qualifier,)) for source in sources])
        return cells


def _merged(parts: Sequence[Sequence[FoundCell]]) -> Sequence[FoundCell]:
    """The cells of all sources, each sorted, in store order."""
    found = [part for part in parts if part]
    if len(found) > 1:
        return sorted([cell for part in found for cell in part])
    return found[0] if found else ()
