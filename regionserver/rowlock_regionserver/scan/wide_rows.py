"""What a read answers of one row that it does not want to hold whole: cell by cell in parts, or as one line.

1. Family by family, in the order of the answer, the row's columns are read in parts (row_parts.py), or where few are
   asked for, those alone. What the read point sees of a part is judged by its keys and the row's family tombstones.
2. Of that the selection is applied: columns, times, versions, the CellFilter; its page is counted over all parts.
3. The row's filter is judged once, before the first cell is answered, by the plain rules of filters.py.
4. Values are taken for as much as is answered at once. When the page is full, the rest of the row is not read.

A value that doesn't fit its type raises FilterTypeError when the read comes to it: parts of the row may have been
answered by then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from rowlock_regionserver.arrow.columns import QUALIFIER, Mask, cells_table, column
from rowlock_regionserver.arrow.sorted_cells import SortedCells
from rowlock_regionserver.arrow.sorted_run import SortedRun, slices_within
from rowlock_regionserver.cells import DELETE_FAMILY, Family, ReadPoint
from rowlock_regionserver.operations import EVERY_CELL, CellFilter, Selection
from rowlock_regionserver.scan.filters import ColumnName, matches_row, misfit_error, required_columns
from rowlock_regionserver.scan.point import visible_row
from rowlock_regionserver.scan.ranges import clipped, prefix_stop
from rowlock_regionserver.scan.row_parts import family_tombstones, kept_of_row
from rowlock_regionserver.scan.selection import chosen_versions, is_whole_time, qualifiers_asked
from rowlock_regionserver.scan.selection_columns import places_in_runs, qualifiers_pass, values_pass
from rowlock_regionserver.sources import AwayValue, FoundCell, LongRowError, Source, loaded
from rowlock_regionserver.versions.visibility_columns import visible_of

# At most as many cells are read one by one, as tuples; a vector operation costs as much as some hundred of them.
_FEW_CELLS = 10_000

# The families that are asked or judged, by name.
View = Sequence[tuple[Family, Sequence[Source]]]


@dataclass(frozen=True, slots=True)
class RowReading:
    """A row, and how it is read: at which moment, what of it, and about how many bytes at once. May block on disks."""

    row: bytes
    view: View
    read_point: ReadPoint
    selection: Selection
    bytes_max: int

    def answered(self) -> Iterator[tuple[Family, SortedRun]]:
        """The cells that are answered, by family and in store order; a run may be empty: the read goes on.

        Raises FilterTypeError.
        """
        page = _Page(self.selection.cells)
        is_judged = self.selection.where is None
        for family, sources in self.view:
            for run in self._asked(family, sources):
                if len(run) and not is_judged:
                    if not self._matches():
                        return
                    is_judged = True
                yield family, run.kept(page.taken(self._passing(family, run)))
                if page.is_full:
                    return

    @property
    def _few_cells(self) -> int:
        """Each of them repeats the row's key in a run."""
        return min(_FEW_CELLS, 1 + self.bytes_max // (1 + len(self.row)))

    def _asked(self, family: Family, sources: Sequence[Source]) -> Iterator[SortedRun]:
        """What is seen of the family's asked columns, of the asked times and versions; perhaps nothing of a part."""
        asked = qualifiers_asked(self.selection.columns)
        if asked is not None and family.name not in asked:
            return
        qualifiers = None if asked is None else asked[family.name]
        if qualifiers is None:
            yield from self._seen(family, sources, *self._qualifier_range())
            return
        ascending = sorted(qualifiers)
        try:
            cells = visible_row(sources, self.row, self.read_point, family, ascending, self._few_cells)
        except LongRowError:
            for qualifier in ascending:
                yield from self._seen(family, sources, qualifier, qualifier + b"\x00")
        else:
            few = chosen_versions(cells, self.selection, family)
            if few:
                yield _run_of(self.row, few)

    def _qualifier_range(self) -> tuple[bytes, bytes]:
        """The qualifiers that the CellFilter leaves. All, if there is a filter: it is judged whatever that leaves."""
        cells = self.selection.cells
        if self.selection.where is not None:
            return b"", b""
        prefix = cells.qualifier_prefix or b""
        return clipped((prefix, prefix_stop(prefix)), (cells.qualifier_start or b"", cells.qualifier_stop or b""))

    def _seen(self, family: Family, sources: Sequence[Source], start: bytes, stop: bytes) -> Iterator[SortedRun]:
        """The same for the columns [start, stop)."""
        if stop and start >= stop:
            return
        tombstones = _as_sorted_cells(family_tombstones(sources, self.row))

        def seen(cells: SortedCells) -> Mask:
            mask = self._visible(cells, tombstones, family)
            mask[mask] = self._chosen(cells.at(mask), family)
            return mask

        yield from kept_of_row(sources, self.row, self.bytes_max, seen, start, stop)

    def _visible(self, cells: SortedCells, tombstones: SortedCells, family: Family) -> Mask:
        own = np.flatnonzero(cells.kind != DELETE_FAMILY)
        mask = np.zeros(len(cells), np.bool_)
        mask[own] = visible_of(cells.at(own).after(tombstones), self.read_point, family)[len(tombstones) :]
        return mask

    def _chosen(self, puts: SortedCells, family: Family) -> Mask:
        """Which of the row's visible cells are of the asked times and versions, as in selection_columns.chosen."""
        mask = np.ones(len(puts), np.bool_)
        if not is_whole_time(self.selection):
            mask &= puts.timestamp >= self.selection.time_start
            if self.selection.time_stop:
                mask &= puts.timestamp < self.selection.time_stop
        if self.selection.versions < family.versions:
            left = np.flatnonzero(mask)
            mask[left[places_in_runs(puts.column[left]) >= self.selection.versions]] = False
        return mask

    def _matches(self) -> bool:
        """The row's filter holds. Reads the columns that it names, wherever they are in the row."""
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
            for run in alone._seen(family, sources, qualifier, qualifier + b"\x00"):
                if not len(run):
                    continue
                value = run.values.array(np.zeros(1, np.int64))[0].as_py()
                assert isinstance(value, bytes)
                return value
            return None
        return loaded(cells[0][4]) if cells else None

    def _passing(self, family: Family, run: SortedRun) -> Mask:
        """Which cells the CellFilter leaves, but for its page."""
        cell_filter = self.selection.cells
        if cell_filter == EVERY_CELL or not len(run):
            return np.ones(len(run), np.bool_)
        mask = qualifiers_pass(run.keys, cell_filter)
        if cell_filter.value_op is not None:
            for start, stop in slices_within(run.values.byte_counts(), self.bytes_max):
                mask[start:stop] = self._values_pass(family, run.slice(start, stop), mask[start:stop])
        return mask

    def _values_pass(self, family: Family, run: SortedRun, left: Mask) -> Mask:
        passes, unfit = values_pass(run.values, left, self.selection.cells)
        if len(unfit):
            cell = int(unfit[0])
            qualifier = column(run.keys, QUALIFIER)[cell].as_py()
            value = run.values.array(np.array([cell]))[0].as_py()
            assert isinstance(qualifier, bytes)
            assert isinstance(value, bytes)
            raise misfit_error(self.row, family.name, qualifier, value, self.selection.cells.value_type)
        return passes


@dataclass(slots=True)
class _Page:
    """Which of a row's cells are on the page of a CellFilter, counted from part to part."""

    cells: CellFilter
    count: int = field(default=0)  # cells that passed so far

    def taken(self, passing: Mask) -> Mask:
        """Of the next cells those on the page."""
        cells = self.cells
        place = self.count + np.cumsum(passing) - 1
        self.count += int(passing.sum())
        mask = passing.copy()
        if cells.first_key_only:
            mask &= place < 1
        if cells.cell_offset:
            mask &= place >= cells.cell_offset
        if cells.cell_limit:
            mask &= place < cells.cell_offset + cells.cell_limit
        return mask

    @property
    def is_full(self) -> bool:
        """No later cell can be on it, nor be found not to fit a comparison."""
        cells = self.cells
        if cells.value_op is not None:
            return False
        if cells.first_key_only:
            return self.count >= 1
        return cells.cell_limit > 0 and self.count >= cells.cell_offset + cells.cell_limit


def _as_sorted_cells(tombstones: Sequence[FoundCell]) -> SortedCells:
    """The row's family tombstones: its row has number 1, as in SortedCells.of, and they stand before all columns."""
    count = len(tombstones)
    return SortedCells(
        row=np.ones(count, np.int64),
        column=np.zeros(count, np.int64),
        timestamp=np.array([-cell[1] for cell in tombstones], np.int64),
        write_number=np.array([-cell[2] for cell in tombstones], np.int64),
        kind=np.array([cell[3] for cell in tombstones], np.int8),
    )


def _run_of(row: bytes, cells: Sequence[FoundCell]) -> SortedRun:
    away = [(place, cell[4]) for place, cell in enumerate(cells) if isinstance(cell[4], AwayValue)]
    given = [(*cell[:4], cell[4] if isinstance(cell[4], bytes) else b"") for cell in cells]
    return SortedRun.of_table(cells_table([row], [given]), away)
