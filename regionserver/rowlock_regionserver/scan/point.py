"""The point read path: reads one row as tuples, without Arrow.

A row with more cells than the caller accepts at one time raises LongRowError; wide_rows.py reads such a row in parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rowlock_regionserver.cells import Family, ReadPoint
from rowlock_regionserver.found_cells import NO_LIMIT, FoundAnswer, FoundCell, LongRowError, loaded
from rowlock_regionserver.memstore.lines_segment import LinesOfRow
from rowlock_regionserver.operations import EVERY_CELL, EVERYTHING, Selection
from rowlock_regionserver.row_line import RowLine
from rowlock_regionserver.scan.filters import ColumnName, matches_row, required_columns
from rowlock_regionserver.scan.selection import (
    filtered_cells,
    requested_qualifiers,
    selected_versions,
)
from rowlock_regionserver.sources import RowSource
from rowlock_regionserver.storefile.wide_blocks import HeldBlock
from rowlock_regionserver.versions.visibility import visible_cells

# By family number.
Stores = Mapping[int, tuple[Family, Sequence[RowSource]]]


def read_row(
    stores: Stores, row: bytes, selection: Selection, read_point: ReadPoint, cells_max: int = NO_LIMIT
) -> list[FoundAnswer]:
    """Returns the row's cells by family name, qualifier, then newest first; empty when it is absent or does not match.

    The selection has passed check_selection. Blocks on a disk only if a source does. Raises FilterTypeError when a
    stored value doesn't fit the type with which a filter reads it. Raises LongRowError, before it has taken long, when
    it would have to look at more than `cells_max` cells of a family. Without columns, filters and a time range it takes
    some 2 µs and 0.2 µs a cell beyond the sources' own time.
    """
    families = list(stores.values())
    if len(families) > 1:
        families.sort(key=_family_name)
    if selection.columns or selection.where is not None:
        answer = _selected(families, row, selection, read_point, cells_max)
    else:
        answer = []
        for family, sources in families:
            if family.past:
                family = family.as_of(read_point.write_number)
            if cells := visible_row(sources, row, read_point, family, None, cells_max):
                _answer(answer, family, cells, selection)
    if selection.cells is not EVERY_CELL and answer:
        answer = filtered_cells(answer, row, selection.cells)
    return answer


def read_line(stores: Stores, row: bytes, selection: Selection, read_point: ReadPoint) -> RowLine | None:
    """Returns all of a row that is one line of one source, and nowhere else; None if `read_row` has to look.

    stores: what has the row (stores.view_in_memory).
    """
    if selection is not EVERYTHING:
        return None
    held: HeldBlock | LinesOfRow | None = None
    for of_store, sources in stores.values():
        if sources:
            if held is not None or len(sources) > 1:
                return None
            [source] = sources
            if not isinstance(source, HeldBlock | LinesOfRow) or of_store.past or of_store.time_to_live_ms:
                return None
            family, held = of_store, source
    line = None if held is None else held.line(row)
    if line is None or line.write_number > read_point.write_number:
        return None
    return RowLine(family.name, line.qualifiers, line.timestamp, line.values)


def _family_name(store: tuple[Family, Sequence[RowSource]]) -> bytes:
    return store[0].name


def _answer(answer: list[FoundAnswer], family: Family, cells: Sequence[FoundCell], selection: Selection) -> None:
    if selection.versions < family.versions or selection.time_start or selection.time_stop:
        cells = selected_versions(cells, selection, family)
    name = family.name
    answer += [(name, qualifier, -timestamp, value) for qualifier, timestamp, _, _, value in cells]


def _selected(
    families: list[tuple[Family, Sequence[RowSource]]],
    row: bytes,
    selection: Selection,
    read_point: ReadPoint,
    cells_max: int,
) -> list[FoundAnswer]:
    requested = requested_qualifiers(selection.columns)
    required = required_columns(selection.where)
    newest: dict[ColumnName, bytes] = {}
    answer: list[FoundAnswer] = []
    for family, sources in families:
        if family.past:
            family = family.as_of(read_point.write_number)
        name = family.name
        is_requested = requested is None or name in requested
        filtered_by = {qualifier for family_name, qualifier in required if family_name == name}
        if not is_requested and not filtered_by:
            continue
        answered = requested[name] if requested is not None and is_requested else None
        read = None if is_requested and answered is None else sorted(filtered_by | (answered or frozenset()))
        cells = visible_row(sources, row, read_point, family, read, cells_max)
        for cell in cells if filtered_by else ():
            if cell[0] in filtered_by and (name, cell[0]) not in newest:
                newest[name, cell[0]] = loaded(cell[4])
        if is_requested and cells:
            if answered is not None and len(answered) < len(read or ()):
                cells = [cell for cell in cells if cell[0] in answered]
            _answer(answer, family, cells, selection)
    if selection.where is not None and not (answer and matches_row(selection.where, row, newest)):
        return []
    return answer


def visible_row(
    sources: Sequence[RowSource],
    row: bytes,
    read_point: ReadPoint,
    family: Family,
    qualifiers: Sequence[bytes] | None = None,
    cells_max: int = NO_LIMIT,
) -> list[FoundCell]:
    """Returns one family's visible cells of a row in store order, of the ascending `qualifiers` or of all if None.

    Raises LongRowError when the sources have more than `cells_max` of these cells in total.
    """
    gathered: Sequence[FoundCell] = ()
    is_merged = False
    for source in sources:
        if qualifiers is None:
            cells = source.row_cells(row, cells_max)
        else:
            cells = source.columns_cells(row, qualifiers, cells_max)
        if cells:
            is_merged = bool(gathered)
            gathered = [*gathered, *cells] if is_merged else cells
            if len(gathered) > cells_max:
                raise LongRowError
    if not gathered:
        return []
    if is_merged:
        gathered = sorted(gathered)
    return visible_cells(gathered, read_point, family)
