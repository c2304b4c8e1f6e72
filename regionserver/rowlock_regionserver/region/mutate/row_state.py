"""The state of one row as COMPARE reads it: stored cells, unpublished ones too, column by column.

A row may have 100,000 columns, and an increment of one of them must not cost more for it. So only the columns that are
asked for are read.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowlock_regionserver.cells import Family, ReadPoint
from rowlock_regionserver.config import KIB
from rowlock_regionserver.found_cells import NO_LIMIT, FoundCell, LongRowError
from rowlock_regionserver.operations import CellFilter, Selection
from rowlock_regionserver.region.stores import Lookups
from rowlock_regionserver.scan.wide_rows import RowReading
from rowlock_regionserver.sources import Source
from rowlock_regionserver.versions.visibility import visible_cells

# To find out whether a row has a visible cell, up to this many cells are read at once; a longer row is read in parts.
_FEW_CELLS = 256
_PART_BYTES = 64 * KIB
_ANY_CELL = Selection(cells=CellFilter(keys_only=True, first_key_only=True))


class RowState:
    """One row, whose lock the caller holds. Caches what it reads, since the row does not change meanwhile."""

    __slots__ = ("_candidates", "_lookups", "_published", "_read", "_read_in_parts", "_row")

    def __init__(self, lookups: Lookups, row: bytes, published: int) -> None:
        """`published`: a recent read point."""
        self._lookups = lookups
        # By family number: the sources that may have the row, and others.
        self._candidates: dict[int, Sequence[Source]] = {}
        self._row = row
        self._published = published
        # By family number and qualifier; None means all columns of the family.
        self._read: dict[tuple[int, bytes | None], Sequence[FoundCell]] = {}
        self._read_in_parts: set[int] = set()  # families that were read, but not cached

    def _sources(self, family_number: int) -> Sequence[Source]:
        sources = self._candidates.get(family_number)
        if sources is None:
            sources = self._candidates[family_number] = self._lookups[family_number].candidates(self._row)
        return sources

    @property
    def newest_write_number(self) -> int:
        """The newest unpublished write number among the cells of the families that were read; 0 if all are published.

        An upper bound for a row of many cells: the newest write of the segment that has it.
        """
        newest = 0
        for number in {number for number, _ in self._read} | self._read_in_parts:
            for source in self._sources(number):
                if source.write_number_max > max(self._published, newest):
                    newest = max(newest, self._newest_in(source))
        return newest

    def _newest_in(self, source: Source) -> int:
        try:
            return max([-cell[2] for cell in source.row_cells(self._row, _FEW_CELLS)], default=0)
        except LongRowError:
            return source.write_number_max

    def has_visible(self, family: Family, read_point: ReadPoint) -> bool:
        """Whether the row has a visible cell in the family. Reads a row of many cells in parts, until it finds one."""
        try:
            return bool(visible_cells(self.family_cells(family, _FEW_CELLS), read_point, family))
        except LongRowError:
            sources = self._sources(family.number)
            reading = RowReading(self._row, [(family, sources)], read_point, _ANY_CELL, _PART_BYTES)
            return any(len(run) for _, run in reading.answered())

    def family_cells(self, family: Family, cells_max: int = NO_LIMIT) -> Sequence[FoundCell]:
        """Returns all cells of the row in the family, tombstones and old versions too, in store order.

        Raises LongRowError if some source has more than `cells_max` of them.
        """
        key = (family.number, None)
        cells = self._read.get(key)
        if cells is None:
            sources = self._sources(family.number)
            try:
                cells = _merged([source.row_cells(self._row, cells_max) for source in sources])
            except LongRowError:
                self._read_in_parts.add(family.number)
                raise
            self._read[key] = cells
        return cells

    def column_cells(self, family: Family, qualifier: bytes) -> Sequence[FoundCell]:
        """Returns the cells of one column, and the family's tombstones that may hide them, in store order."""
        key = (family.number, qualifier)
        cells = self._read.get(key)
        if cells is None:
            sources = self._sources(family.number)
            cells = self._read[key] = _merged([source.columns_cells(self._row, (qualifier,)) for source in sources])
        return cells

    def newest_column_cells(self, family: Family, qualifier: bytes) -> Sequence[FoundCell]:
        """As `column_cells`, but perhaps without cells that are older than the first one.

        Not for a caller that asks for `newest_write_number` later: it is not recorded as read.
        """
        found: list[Sequence[FoundCell]] = []
        newest = 0  # timestamp
        # Memory comes before the files, which are mostly older. To sort all by their timestamps would take longer than
        # it can save.
        for source in self._sources(family.number):
            if source.timestamp_max >= newest:
                cells = source.columns_cells(self._row, (qualifier,))
                if cells:
                    found.append(cells)
                    newest = max(newest, -cells[0][1])
        return _merged(found)


def _merged(parts: Sequence[Sequence[FoundCell]]) -> Sequence[FoundCell]:
    """Merges the sorted cells of all sources into store order."""
    found = [part for part in parts if part]
    if len(found) > 1:
        return sorted([cell for part in found for cell in part])
    return found[0] if found else ()
