"""Puts the lines of several parts together.

`concatenated_lines` is for parts that follow one another, `merged_lines` for parts that have no row in common; it
copies nothing if they don't overlap. `merged_versions` makes one part of several, in which a row may have several
lines, its versions, and `newest_whole_lines` one with the newest line of each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowlock_regionserver.arrow.block_lines import joined_blocks
from rowlock_regionserver.arrow.columns import Integers, Mask, equals_previous, integer_array, integers
from rowlock_regionserver.arrow.compressed_columns import CompressedColumn, Concatenation, LineColumn
from rowlock_regionserver.arrow.dense_lines import Piece, are_dense, dense_cells
from rowlock_regionserver.arrow.line_forming import ROW_CELL_BYTES_MAX, VERSIONS_MAX
from rowlock_regionserver.arrow.line_numbers import at_columns, concatenated_numbers, numbers_at
from rowlock_regionserver.arrow.lines import Lines, cells_of
from rowlock_regionserver.arrow.stored_lines import StoredLines


@dataclass(frozen=True, slots=True)
class LinesInOrder:
    """Lines of distinct rows, in parts.

    `order` has for each line, by row, its place among the lines of all parts, one part after the other. None: the parts
    follow one another.
    """

    parts: Sequence[Lines]
    order: Integers | None = None

    def lines(self) -> Lines:
        """Returns the lines as one. Copies them, except for compressed values of parts that follow one another."""
        lines = concatenated_lines(self.parts)
        return lines if self.order is None else lines.take(self.order)

    def cells(self) -> pa.Table:
        """Returns the cells as a table of CELL_SCHEMA. Copies the values once if the parts are dense."""
        return cells_of_parts(self.parts, self.order)


def may_be_concatenated(before: Lines, after: Lines) -> bool:
    """Returns whether both together keep the rule that rows with several lines have one number a line."""
    return not (before.is_by_cell or after.is_by_cell) or not (before.has_versions or after.has_versions)


def concatenated_lines(parts: Sequence[Lines]) -> Lines:
    """Returns the lines of several parts, one after the other.

    They may be concatenated, and are in order, unless the caller puts the lines in order afterwards. Copies them,
    except for compressed values.
    """
    if len(parts) == 1:
        return parts[0]
    blocks = joined_blocks(parts)
    if blocks is not None:
        return blocks
    qualifiers = tuple(sorted({qualifier for part in parts for qualifier in part.qualifiers}))
    counts = [len(part) for part in parts]
    concatenation = Concatenation(counts)
    all_stored = [part.stored for part in parts if part.stored is not None]
    stored = concatenation.stored(all_stored) if len(all_stored) == len(parts) else None
    return Lines(
        pa.concat_arrays([part.rows for part in parts]),
        concatenated_numbers([at_columns(part.timestamps, part.qualifiers, qualifiers) for part in parts], counts),
        concatenated_numbers([at_columns(part.write_numbers, part.qualifiers, qualifiers) for part in parts], counts),
        qualifiers,
        tuple([concatenation.column([_column(part, qualifier) for part in parts]) for qualifier in qualifiers]),
        stored,
    )


def _column(part: Lines, qualifier: bytes) -> LineColumn | None:
    """Returns the column; of stored lines also one of which they have no cell."""
    column = part.column(qualifier)
    if column is None and part.stored is not None and not _have(part.stored, qualifier):
        return CompressedColumn(part.stored, qualifier)
    return column


def _have(stored: StoredLines, qualifier: bytes) -> bool:
    return any(block.has(qualifier) for block, _, _ in stored.slices)


def cells_of_parts(parts: Sequence[Lines], order: Integers | None = None) -> pa.Table:
    """Returns the cells of lines that follow one another, in several parts, or are in an order; see LinesInOrder.

    Without an order, a row may have several lines. Copies the values once if the parts are dense.
    """
    counts, qualifiers = list(map(len, parts)), parts[0].qualifiers
    columns = _pieces(parts, order)
    if columns is None or not are_dense(columns, sum(counts)):
        return cells_of(LinesInOrder(parts, order).lines())
    rows = parts[0].rows if len(parts) == 1 else pa.concat_arrays([part.rows for part in parts])
    if order is None and equals_previous(rows).any():
        return cells_of(concatenated_lines(parts))
    timestamps = concatenated_numbers([part.timestamps for part in parts], counts)
    write_numbers = concatenated_numbers([part.write_numbers for part in parts], counts)
    if order is not None:
        rows = rows.take(integer_array(order, pa.int64()))
        timestamps, write_numbers = numbers_at(timestamps, order), numbers_at(write_numbers, order)
    return dense_cells(rows, timestamps, write_numbers, qualifiers, columns)


def _pieces(parts: Sequence[Lines], order: Integers | None) -> list[list[Piece]] | None:
    """Returns the pieces of each column; None if the parts differ in their columns, or if cells are absent."""
    qualifiers = parts[0].qualifiers
    if not qualifiers or any(part.qualifiers != qualifiers for part in parts):
        return None
    places = None
    if order is not None:
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
    columns: list[list[Piece]] = [[] for _ in qualifiers]
    first = 0
    for part in parts:
        for column, values in zip(columns, part.values, strict=True):
            pieces = values.pieces() if isinstance(values, CompressedColumn) else [Piece(slice(0, len(part)), values)]
            if pieces is None or values.null_count:
                return None
            column += [Piece(_moved(lines, first, places), each) for lines, each in pieces]
        first += len(part)
    return columns


def _moved(lines: slice | Integers, first: int, places: Integers | None) -> slice | Integers:
    """Returns where lines of a part are among all: after the `first` ones, and then at these places."""
    moved = slice(first + lines.start, first + lines.stop) if isinstance(lines, slice) else first + lines
    return moved if places is None else places[moved]


def in_succession(parts: Sequence[Lines]) -> list[Lines] | None:
    """Returns the parts, none empty, in an order in which all rows of one precede those of the next; None if none is.

    A part may have several lines of a row.
    """
    ordered = sorted(parts, key=lambda part: part.row(0))
    return ordered if all(before.row(-1) < after.row(0) for before, after in pairwise(ordered)) else None


def merged_lines(parts: Sequence[Lines]) -> list[Lines] | None:
    """Returns the lines in row order, uncopied if no part reaches into another. None if some row has several lines."""
    if any(part.has_versions for part in parts):
        return None
    successive = in_succession(parts)
    if successive is not None:
        return successive
    merged = _by_row(parts)
    return None if merged.has_versions else [merged]


def merged_versions(parts: Sequence[Lines]) -> Lines | None:
    """Returns all lines of the parts as one. Copies them twice. Some 3 M lines/s of ten columns.

    None if the parts differ in their columns, if numbers are by cell, or if a row would be too large or have too many
    versions.
    """
    if any(part.is_by_cell or part.qualifiers != parts[0].qualifiers for part in parts):
        return None
    lines = concatenated_lines(parts)
    order, starts_row = _store_order(lines)
    if not starts_row.all():
        rows = np.cumsum(starts_row) - 1
        if np.bincount(rows).max() > VERSIONS_MAX:
            return None
        if np.bincount(rows, lines.cell_bytes()[order]).max() > ROW_CELL_BYTES_MAX:
            return None
    return lines.take(order)


def newest_whole_lines(parts: Sequence[Lines]) -> Lines | None:
    """Returns the newest line of each row. Copies the lines, and then those that stay. At least one part.

    None unless each line has all columns, with one number, so that it hides all older ones of its row.
    """
    qualifiers = parts[0].qualifiers
    for part in parts:
        if part.is_by_cell or part.qualifiers != qualifiers:
            return None
        if any(column.null_count for column in part.values):
            return None
    lines = concatenated_lines(parts)
    order, starts_row = _store_order(lines)
    return lines.take(order[starts_row])


def _store_order(lines: Lines) -> tuple[Integers, Mask]:
    """Returns the places of the lines in store order, and which of these are the first of their row.

    The lines are in any order, and their numbers are not by cell.
    """
    by_row = _places_by_row(lines)
    starts_row = ~equals_previous(lines.rows.take(integer_array(by_row, pa.int64())))
    if starts_row.all():
        return by_row, starts_row
    timestamps, write_numbers = (
        lines.numbers_of(numbers, 0)[by_row] for numbers in (lines.timestamps, lines.write_numbers)
    )
    return by_row[np.lexsort((-write_numbers, -timestamps, np.cumsum(starts_row)))], starts_row


def _by_row(parts: Sequence[Lines]) -> Lines:
    """Returns the lines of all parts by row, those of one row in the order of the parts. Copies them twice."""
    lines = concatenated_lines(parts)
    return lines.take(_places_by_row(lines))


def _places_by_row(lines: Lines) -> Integers:
    return integers(pc.call_function("array_sort_indices", [lines.rows]).cast("int64"))
