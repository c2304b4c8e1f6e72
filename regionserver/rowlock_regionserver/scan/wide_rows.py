"""Reads one row that is too large to hold whole, and applies a selection to it part by part.

1. The row's columns are read in parts (row_parts.py), family by family in the order of the answer; if few columns are
   requested, only those are read. The visible cells of a part follow from its keys and the row's family tombstones.
2. The selection is applied to them: columns, times, versions, CellFilter. Its page is counted over all parts.
3. The row filter is evaluated once, before the first cell is answered, by the rules of filters.py.
4. Values are loaded for the cells that are answered at one time. When the page is full, reading stops.

A value that doesn't fit its type raises FilterTypeError when the read reaches it: parts of the row may have been
answered before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from rowlock_proto.prefixes import prefix_stop

from rowlock_regionserver.arrow.columns import QUALIFIER, Mask, cells_table, column
from rowlock_regionserver.arrow.sorted_cells import SortedCells
from rowlock_regionserver.arrow.sorted_run import SortedRun, slices_within
from rowlock_regionserver.cells import Family, ReadPoint
from rowlock_regionserver.found_cells import AwayValue, FoundCell, LongRowError, loaded
from rowlock_regionserver.operations import EVERY_CELL, CellFilter, Selection
from rowlock_regionserver.row_ranges import clipped
from rowlock_regionserver.scan.filters import ColumnName, matches_row, mismatch_error, required_columns
from rowlock_regionserver.scan.point import visible_row
from rowlock_regionserver.scan.row_parts import filtered_row_parts, judged_with_family_tombstones
from rowlock_regionserver.scan.selection import requested_qualifiers, selected_versions
from rowlock_regionserver.scan.selection_columns import (
    drop_older_versions,
    in_times,
    on_page,
    qualifiers_pass,
    values_pass,
)
from rowlock_regionserver.scan.window_split import View
from rowlock_regionserver.sources import Source
from rowlock_regionserver.versions.visibility_columns import visible_of

# At most this many cells are read one by one, as tuples; a vector operation costs as much as some hundred of them.
_FEW_CELLS = 10_000


@dataclass(frozen=True, slots=True)
class RowReading:
    """A read of one row at a read point, with a selection, in parts of about `bytes_max`. May block on disks."""

    row: bytes
    view: View
    read_point: ReadPoint
    selection: Selection
    bytes_max: int

    def answered(self) -> Iterator[tuple[Family, SortedRun]]:
        """Yields the answered cells, by family and in store order. An empty run means that the read made progress.

        Raises FilterTypeError.
        """
        page = _Page(self.selection.cells)
        is_matched = self.selection.where is None
        for family, sources in self.view:
            for run in self._requested_cells(family, sources):
                if len(run) and not is_matched:
                    if not self._matches():
                        return
                    is_matched = True
                yield family, run.filter(page.take(self._passing(family, run)))
                if page.is_full:
                    return

    @property
    def _few_cells(self) -> int:
        """How many cells may be read as tuples: fewer for a long key, which a run repeats for each cell."""
        return min(_FEW_CELLS, 1 + self.bytes_max // (1 + len(self.row)))

    def _requested_cells(self, family: Family, sources: Sequence[Source]) -> Iterator[SortedRun]:
        """Yields the family's visible cells of the requested columns, times and versions; a run may be empty."""
        requested = requested_qualifiers(self.selection.columns)
        if requested is not None and family.name not in requested:
            return
        qualifiers = None if requested is None else requested[family.name]
        if qualifiers is None:
            yield from self._visible_cells(family, sources, *self._qualifier_range())
            return
        ascending = sorted(qualifiers)
        try:
            cells = visible_row(sources, self.row, self.read_point, family, ascending, self._few_cells)
        except LongRowError:
            for qualifier in ascending:
                yield from self._visible_cells(family, sources, qualifier, qualifier + b"\x00")
        else:
            few = selected_versions(cells, self.selection, family)
            if few:
                yield _run_of(self.row, few)

    def _qualifier_range(self) -> tuple[bytes, bytes]:
        """Returns the range of qualifiers that pass the CellFilter.

        With a row filter it is all qualifiers: whether the row matches does not depend on the CellFilter.
        """
        cells = self.selection.cells
        if self.selection.where is not None:
            return b"", b""
        prefix = cells.qualifier_prefix or b""
        return clipped((prefix, prefix_stop(prefix)), (cells.qualifier_start or b"", cells.qualifier_stop or b""))

    def _visible_cells(
        self, family: Family, sources: Sequence[Source], start: bytes, stop: bytes
    ) -> Iterator[SortedRun]:
        """Yields the visible cells of the requested times and versions with qualifiers of [start, stop)."""
        if stop and start >= stop:
            return
        is_visible = judged_with_family_tombstones(
            sources, self.row, lambda cells: visible_of(cells, self.read_point, family)
        )

        def is_selected(cells: SortedCells) -> Mask:
            mask = is_visible(cells)
            mask[mask] = self._selected(cells.at(mask), family)
            return mask

        yield from filtered_row_parts(sources, self.row, self.bytes_max, is_selected, start, stop)

    def _selected(self, puts: SortedCells, family: Family) -> Mask:
        """Returns which visible cells have the requested times and versions."""
        mask = in_times(puts.timestamp, self.selection)
        if self.selection.versions < family.versions:
            drop_older_versions(mask, puts.column, self.selection.versions)
        return mask

    def _matches(self) -> bool:
        """Returns whether the row matches its filter. Reads the columns that the filter names."""
        assert self.selection.where is not None
        newest: dict[ColumnName, bytes] = {}
        for name, qualifier in sorted(required_columns(self.selection.where)):
            for family, sources in self.view:
                if family.name == name:
                    value = self._newest(family, sources, qualifier)
                    if value is not None:
                        newest[name, qualifier] = value
        return matches_row(self.selection.where, self.row, newest)

    def _newest(self, family: Family, sources: Sequence[Source], qualifier: bytes) -> bytes | None:
        try:
            cells = visible_row(sources, self.row, self.read_point, family, [qualifier], self._few_cells)
        except LongRowError:
            alone = RowReading(self.row, self.view, self.read_point, Selection(), self.bytes_max)
            for run in alone._visible_cells(family, sources, qualifier, qualifier + b"\x00"):
                if not len(run):
                    continue
                value = run.values.array(np.zeros(1, np.int64))[0].as_py()
                assert isinstance(value, bytes)
                return value
            return None
        return loaded(cells[0][4]) if cells else None

    def _passing(self, family: Family, run: SortedRun) -> Mask:
        """Returns which cells pass the CellFilter, apart from its page."""
        cell_filter = self.selection.cells
        if cell_filter == EVERY_CELL or not len(run):
            return np.ones(len(run), np.bool_)
        mask = qualifiers_pass(run.keys, cell_filter)
        if cell_filter.value_op is not None:
            for start, stop in slices_within(run.values.byte_counts(), self.bytes_max):
                mask[start:stop] = self._values_pass(family, run.slice(start, stop), mask[start:stop])
        return mask

    def _values_pass(self, family: Family, run: SortedRun, candidates: Mask) -> Mask:
        passes, mismatched = values_pass(run.values, candidates, self.selection.cells)
        if len(mismatched):
            cell = int(mismatched[0])
            qualifier = column(run.keys, QUALIFIER)[cell].as_py()
            value = run.values.array(np.array([cell]))[0].as_py()
            assert isinstance(qualifier, bytes)
            assert isinstance(value, bytes)
            raise mismatch_error(self.row, family.name, qualifier, value, self.selection.cells.value_type)
        return passes


@dataclass(slots=True)
class _Page:
    """The page of a CellFilter, counted over the parts of a row."""

    cells: CellFilter
    count: int = field(default=0)  # cells that passed so far

    def take(self, passing: Mask) -> Mask:
        """Counts the next passing cells and returns which of them are on the page."""
        places = self.count + np.cumsum(passing) - 1
        self.count += int(passing.sum())
        return passing & on_page(places, self.cells)

    @property
    def is_full(self) -> bool:
        """Whether the rest of the row need not be read: no later cell can be on the page or be a type mismatch."""
        cells = self.cells
        if cells.value_op is not None:
            return False
        if cells.first_key_only:
            return self.count >= 1
        return cells.cell_limit > 0 and self.count >= cells.cell_offset + cells.cell_limit


def _run_of(row: bytes, cells: Sequence[FoundCell]) -> SortedRun:
    away = [(place, cell[4]) for place, cell in enumerate(cells) if isinstance(cell[4], AwayValue)]
    present = [(*cell[:4], cell[4] if isinstance(cell[4], bytes) else b"") for cell in cells]
    return SortedRun.of_table(cells_table([row], [present]), away)
