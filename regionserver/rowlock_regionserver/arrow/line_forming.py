"""Forms lines of sorted cells, as far as lines are denser, and leaves the other cells as they are.

These stay cells:

- rows with a tombstone, with a large value or many bytes, or with many versions: so a row of lines is never large;
- columns that few rows have, and all columns if there are very many;
- everything if the lines would not take fewer bytes than the cells.

One row may have both, lines and cells.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowlock_regionserver.arrow.by_qualifier import by_qualifier
from rowlock_regionserver.arrow.columns import (
    QUALIFIER,
    ROW,
    VALUE,
    Column,
    Integers,
    Mask,
    boolean_array,
    column,
    empty_cells,
    integer_array,
    keep,
    offsets,
    single_chunk,
)
from rowlock_regionserver.arrow.line_values import spread_values
from rowlock_regionserver.arrow.lines import Lines, compact_numbers
from rowlock_regionserver.arrow.masks import SmallPlaces, places_among
from rowlock_regionserver.arrow.sorted_cells import SortedCells, changes
from rowlock_regionserver.cells import CELL_BYTES_BESIDE, PUT

# The bounds of a row of lines: its bytes as cells, and its versions.
ROW_CELL_BYTES_MAX = 64 * 1024
VERSIONS_MAX = 64
# Reading a chunk of a column costs some 20 µs, even if it has few cells.
COLUMNS_MAX = 1000
# A column stays cells if fewer than one row in this many has it.
SPARSE_LINES = 32
# Bytes of a line beside its row and its values: timestamp, write number, an offset.
_LINE_BYTES_BESIDE = 8 + 8 + 4


def lines_of(table: pa.Table) -> tuple[Lines | None, pa.Table]:
    """Returns the lines, and the cells that stay cells, both in store order.

    `table` has whole rows of CELL_SCHEMA in store order.
    """
    if not table.num_rows:
        return None, table
    table = single_chunk(table)
    cells = SortedCells.of(table)
    fits = _of_small_rows(table, cells)
    if not fits.any():
        return None, table
    fitting = single_chunk(keep(table, fits))
    distinct = pc.unique(column(fitting, QUALIFIER))
    if len(distinct) > COLUMNS_MAX:
        return None, table
    distinct = distinct.take(pc.call_function("array_sort_indices", [distinct]))
    codes = by_qualifier(fitting, partial(places_among, operands=distinct))
    counts = np.bincount(codes, minlength=len(distinct))
    is_common = counts * SPARSE_LINES >= int(changes(cells.row[fits]).sum())
    if not is_common.any():
        return None, table
    if not is_common.all():
        kept = is_common[codes]
        fitting, fits[fits] = single_chunk(keep(fitting, kept)), kept
        codes = (np.cumsum(is_common, dtype=np.int16) - np.int16(1))[codes[kept]]
    formed = _formed(fitting, codes, [name.as_py() for name in distinct.filter(boolean_array(is_common))])
    if formed is None:
        return None, table
    return formed, empty_cells() if fits.all() else single_chunk(keep(table, ~fits))


def of_small_rows(lines: Lines) -> Mask:
    """Returns which lines are of rows that may be lines: neither large nor with many versions."""
    starts = np.flatnonzero(lines.starts_row)
    byte_counts = np.add.reduceat(lines.cell_bytes(), starts)
    line_counts = np.diff(np.append(starts, len(lines)))
    is_small = (byte_counts <= ROW_CELL_BYTES_MAX) & (line_counts <= VERSIONS_MAX)
    result: Mask = np.repeat(is_small, line_counts)
    return result


def _of_small_rows(table: pa.Table, cells: SortedCells) -> Mask:
    """Returns the cells of rows that may be lines: without tombstones, and neither large nor with many versions."""
    rows = cells.row - 1
    byte_counts = np.full(table.num_rows, CELL_BYTES_BESIDE, np.int64)
    for place in (ROW, QUALIFIER, VALUE):
        byte_counts += np.diff(offsets(column(table, place)))
    is_small = np.bincount(rows, byte_counts) <= ROW_CELL_BYTES_MAX
    if cells.kind.any():
        is_small[rows[cells.kind != PUT]] = False
    if cells.has_versions:
        many = np.bincount(cells.column - 1) > VERSIONS_MAX
        is_small[rows[many[cells.column - 1]]] = False
        # Versions of different columns may have different numbers, and then more lines than a column has versions.
        lines, _ = _line_numbers(cells)
        distinct = np.bincount(np.unique(np.stack([rows, lines]), axis=1)[0]) > VERSIONS_MAX
        is_small[np.flatnonzero(distinct)] = False
    result: Mask = is_small[rows]
    return result


def _line_numbers(cells: SortedCells) -> tuple[Integers, int]:
    """Returns the line of each cell, and the number of lines: the rows, or if there are versions, those."""
    if not cells.has_versions:
        lines = np.cumsum(changes(cells.row)) - 1
        return lines, int(lines[-1]) + 1
    order = np.lexsort((-cells.write_number, -cells.timestamp, cells.row))
    is_first = changes(cells.row[order]) | changes(cells.timestamp[order]) | changes(cells.write_number[order])
    lines = np.empty(len(cells), np.int64)
    lines[order] = np.cumsum(is_first) - 1
    return lines, int(is_first.sum())


def _is_denser(table: pa.Table, lines: Integers, line_count: int) -> bool:
    """Returns whether the lines take fewer bytes than the cells, values aside."""
    row_bytes = np.diff(offsets(column(table, ROW))).astype(np.int64)
    qualifier_bytes = np.diff(offsets(column(table, QUALIFIER)))
    as_cells = int(row_bytes.sum() + qualifier_bytes.sum()) + CELL_BYTES_BESIDE * table.num_rows
    of_line = np.zeros(line_count, np.int64)
    of_line[lines] = row_bytes
    return int(of_line.sum()) + _LINE_BYTES_BESIDE * line_count < as_cells


def _formed(table: pa.Table, codes: SmallPlaces, names: list[bytes]) -> Lines | None:
    """Returns the lines of all cells, of which `codes` are the columns; None if the cells are denser."""
    cells = SortedCells.of(table)
    lines, line_count = _line_numbers(cells)
    if not _is_denser(table, lines, line_count):
        return None
    # Column by column, and in each column by line.
    order = np.lexsort((lines, codes)) if cells.has_versions else np.argsort(codes, kind="stable")
    counts = np.bincount(codes, minlength=len(names))
    values: Column = column(table, VALUE).take(integer_array(order, pa.int64()))
    of_lines = lines[order]
    present = np.zeros((len(names), line_count), np.bool_)
    present[codes, lines] = True
    timestamps, write_numbers = np.zeros((2, len(names), line_count), np.int64)
    timestamps[codes, lines] = cells.timestamp
    write_numbers[codes, lines] = cells.write_number
    # Of the assignments to one line the last one stays, so this is the line's first cell.
    first_cells = np.zeros(line_count, np.int64)
    first_cells[lines[::-1]] = np.arange(len(lines))[::-1]
    columns = [
        spread_values(values.slice(int(stop - count), int(count)), of_lines[stop - count : stop], line_count)
        for count, stop in zip(counts, np.cumsum(counts), strict=True)
    ]
    rows = column(table, ROW).take(integer_array(first_cells, pa.int64()))
    return Lines(
        rows,
        compact_numbers(timestamps, present),
        compact_numbers(write_numbers, present),
        tuple(names),
        tuple(columns),
    )
