"""Cuts an arranged batch by rows: for regions that were split since it was staged."""

from __future__ import annotations

from rowlock_regionserver.arrow.cell_columns import first_not_below
from rowlock_regionserver.arrow.columns import Column, bytes_at
from rowlock_regionserver.region.bulk.arranged import FamilyPart, FamilyParts
from rowlock_regionserver.region.bulk.family_lines import FamilyLines
from rowlock_regionserver.region.changed_rows import distinct_rows


def cut(parts: FamilyParts, start: bytes, stop: bytes) -> FamilyParts:
    """Returns the cells of the rows [start, stop); an empty stop means no bound. Families without any are left out."""
    result = {}
    for number, part in parts.items():
        lines = None if part.lines is None else _cut_lines(part.lines, start, stop)
        cells = part.cells
        if cells is not None:
            first, end = _places(_rows_of_cells(part), start, stop)
            cells = cells.slice(first, end - first) if first < end else None
        if lines is not None or cells is not None:
            result[number] = FamilyPart(lines, cells)
    return result


def rows_of(parts: FamilyParts) -> Column:
    """Returns the rows of a batch that has cells, each once, ascending."""
    found = []
    for part in parts.values():
        if part.lines is not None:
            found.append(part.lines.rows)
        if part.cells is not None:
            found.append(_rows_of_cells(part))
    return distinct_rows(iter(found))


def bounds_of(rows: Column) -> tuple[bytes, bytes]:
    """Returns the first and the last row."""
    return bytes_at(rows, 0), bytes_at(rows, len(rows) - 1)


def _rows_of_cells(part: FamilyPart) -> Column:
    assert part.cells is not None
    return part.cells.column("row").combine_chunks()


def _cut_lines(lines: FamilyLines, start: bytes, stop: bytes) -> FamilyLines | None:
    first, end = _places(lines.rows, start, stop)
    if first >= end:
        return None
    count = end - first
    return FamilyLines(
        lines.rows.slice(first, count),
        None if lines.timestamps is None else lines.timestamps.slice(first, count),
        lines.qualifiers,
        tuple([column.slice(first, count) for column in lines.columns]),
    )


def _places(rows: Column, start: bytes, stop: bytes) -> tuple[int, int]:
    return first_not_below(rows, start), first_not_below(rows, stop) if stop else len(rows)
