"""A row's sorted list of cells: reads some of its columns or parts of it, counts its tombstones, and adds cells."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice

import pyarrow as pa

from rowlock_regionserver.arrow.columns import cells_table
from rowlock_regionserver.arrow.sorted_cells import TableProperties
from rowlock_regionserver.cells import DELETE_FAMILY, PUT, Cell
from rowlock_regionserver.few_rows import CELL_BYTES, FEW_BYTES_MAX, FEW_CELLS_MAX, FewRows
from rowlock_regionserver.found_cells import AWAY_BYTES_MIN, AwayValue, FoundCell, LongRowError
from rowlock_regionserver.sources import Chunk, FewWanted

# A cell's bytes in Arrow without row, qualifier and value: timestamp, write number, kind and three offsets.
ARROW_CELL_BYTES = 8 + 8 + 1 + 3 * 4


def columns_of(held: Sequence[Cell], qualifiers: Sequence[bytes], cells_max: int) -> list[Cell]:
    """Returns the columns' cells and the row's family tombstones; see Source.columns_cells. O(columns * log cells)."""
    found: list[Cell] = []
    if not held[0][0] and (not qualifiers or qualifiers[0]):
        # Family tombstones come first, among the cells of the empty qualifier.
        named = bisect_left(held, (b"\x00",))
        if named > cells_max:
            raise LongRowError
        found = [cell for cell in held[:named] if cell[3] == DELETE_FAMILY]
    for qualifier in qualifiers:
        first, last = bisect_left(held, (qualifier,)), bisect_left(held, (qualifier + b"\x00",))
        if len(found) + last - first > cells_max:
            raise LongRowError
        found += held[first:last]
    return found


def parts_of(row: bytes, cells: Sequence[Cell], bytes_max: int, start: bytes, stop: bytes) -> Iterator[Chunk]:
    """Yields the cells with qualifiers in [start, stop), in parts; see Source.row_parts.

    A large value is copied only when it is loaded.
    """
    place = bisect_left(cells, (start,))
    last = bisect_left(cells, (stop,)) if stop else len(cells)
    while place < last:
        part: list[Cell] = []
        away: list[tuple[int, AwayValue]] = []
        byte_count = 0
        for qualifier, timestamp, write_number, kind, value in islice(cells, place, last):
            is_large = len(value) > AWAY_BYTES_MIN
            byte_count += len(qualifier) + len(row) + ARROW_CELL_BYTES + (0 if is_large else len(value))
            if part and byte_count > bytes_max:
                break
            if is_large:
                away.append((len(part), AwayValue(len(value), partial(bytes, value))))
            part.append((qualifier, timestamp, write_number, kind, b"" if is_large else value))
        place += len(part)
        yield chunk_of(cells_table([row], [part]), None, away=tuple(away))


def chunk_of(
    table: pa.Table,
    frontier: bytes | None,
    *,
    wide_row: bytes | None = None,
    away: tuple[tuple[int, AwayValue], ...] = (),
) -> Chunk:
    """Returns a chunk of cells that were copied for it."""
    facts = TableProperties.of(table)
    return Chunk(
        table,
        frontier,
        has_tombstones=facts.has_tombstones,
        has_versions=facts.has_versions,
        write_number_max=facts.write_number_max,
        timestamp_min=facts.timestamp_min,
        away=away,
        wide_row=wide_row,
        bytes_held=table.get_total_buffer_size(),
    )


def few_rows_of(
    ascending: Iterator[tuple[bytes, list[Cell]]], start: bytes, stop: bytes, wanted: FewWanted
) -> FewRows | None:
    """Returns the first of the rows of [start, stop), with their cells; see Source.few_rows."""
    rows: list[bytes] = []
    cells_of_rows: list[Sequence[FoundCell]] = []
    byte_count = 0
    frontier = None
    for row, cells in ascending:
        row_bytes = len(row) + sum([len(cell[0]) + len(cell[4]) for cell in cells])
        if len(cells) > FEW_CELLS_MAX or row_bytes > FEW_BYTES_MAX:
            if not rows:
                return None
            frontier = row
            break
        rows.append(row)
        cells_of_rows.append(cells)
        byte_count += row_bytes + CELL_BYTES * len(cells)
        if len(rows) == wanted.rows_max or byte_count >= wanted.bytes_max:
            frontier = frontier_of(row, start, stop, reverse=False)
            break
    return FewRows(rows, frontier, cells_of_rows.__getitem__)


def weights_of(
    rows: Sequence[bytes], stride: int, row_count: int, cell_count: int, value_bytes: int
) -> list[tuple[bytes, int]]:
    """Returns pairs (row, estimated Arrow bytes of the cells from it on), given every `stride`th row of a segment.

    value_bytes: those of all rows, qualifiers and values.
    """
    if not rows:
        return []
    # Each cell of an Arrow table repeats the row's key.
    key_bytes = sum(map(len, rows)) * (cell_count - row_count) // len(rows)
    byte_count = value_bytes + key_bytes + ARROW_CELL_BYTES * cell_count
    return [(row, byte_count * min(stride, row_count - i * stride) // row_count) for i, row in enumerate(rows)]


def frontier_of(last: bytes, start: bytes, stop: bytes, reverse: bool) -> bytes | None:
    """Returns the frontier of a chunk of [start, stop) whose last row read is `last`; None if that ends the range."""
    if reverse:
        return last if last > start else None
    after = last + b"\x00"
    return after if not stop or after < stop else None


def tombstones_of(cells: Sequence[Cell]) -> int:
    """Returns how many of the cells are tombstones."""
    return sum([cell[3] != PUT for cell in cells])


def merge_into(held: list[Cell], cells: Sequence[Cell]) -> None:
    """Merges sorted `cells` into the sorted list, by the cheaper of two ways for their numbers."""
    if len(cells) * 8 < len(held) or len(cells) == 1:
        for cell in cells:
            insort(held, cell)
    else:
        held += cells
        held.sort()  # two sorted runs: one merge
