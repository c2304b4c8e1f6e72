"""Divides the pieces of a new store file, tables of cells and lines, into lines and the cells that stay cells.

Small tables are gathered, so that lines are formed of many rows at a time. A row that continues from table to table
stays cells, because only whole rows can be lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from rowlock_regionserver.arrow.columns import single_chunk
from rowlock_regionserver.arrow.line_forming import lines_of, of_small_rows
from rowlock_regionserver.arrow.lines import Lines, cells_of
from rowlock_regionserver.arrow.merge import first_at_or_after, last_row
from rowlock_regionserver.cells import CELL_SCHEMA
from rowlock_regionserver.storefile.cell_properties import CellProperties
from rowlock_regionserver.storefile.wide_encoding import with_least_numbers

# This many bytes of cells are gathered before lines are formed of them: some 600 rows of fifteen columns. Forming them
# takes some ten milliseconds, during which other threads wait for the interpreter.
GATHERED_BYTES_MIN = 512 << 10

# Lines and cells, each in store order and after all before; either may be None.
Divided = tuple[Lines | None, pa.Table | None]


class Divider:
    """Holds some tables between calls. Not thread-safe."""

    def __init__(self, properties: CellProperties, *, forms_lines: bool = True) -> None:
        """`properties` gets every piece. Without `forms_lines` tables stay cells."""
        self._properties = properties
        self._forms_lines = forms_lines
        self._tables: list[pa.Table] = []
        self._byte_count = 0
        # The row of which the last table returned some cells, and which may continue.
        self._divided_row: bytes | None = None

    def divided(self, pieces: Iterable[pa.Table | Lines]) -> Iterator[Divided]:
        """Yields the cells of all pieces, which are in store order. Raises OutOfOrderError when they are not."""
        for piece in pieces:
            if isinstance(piece, Lines):
                yield from self._formed(is_last=True)
                yield self._of_lines(piece)
            else:
                assert piece.schema.equals(CELL_SCHEMA), f"a store file holds cells, not {piece.schema}"
                if piece.num_rows:
                    self._tables.append(piece)
                    self._byte_count += piece.nbytes
                if self._byte_count >= GATHERED_BYTES_MIN:
                    yield from self._formed(is_last=False)
        yield from self._formed(is_last=True)

    def _of_lines(self, lines: Lines) -> Divided:
        lines = lines.filter(lines.has_cells())
        if not len(lines):
            return None, None
        lines = with_least_numbers(lines)
        self._properties.add_lines(lines)
        is_small = of_small_rows(lines)
        if is_small.all():
            return lines, None
        small = lines.filter(is_small)
        return small if len(small) else None, cells_of(lines.filter(~is_small))

    def _formed(self, *, is_last: bool) -> Iterator[Divided]:
        """Yields the gathered cells. The last row is kept, as it may continue, unless `is_last`."""
        if not self._tables:
            return
        table = single_chunk(pa.concat_tables(self._tables))
        self._tables, self._byte_count = [], 0
        if self._divided_row is not None:
            stop = first_at_or_after(table, self._divided_row + b"\x00")
            if stop:
                yield self._of_cells(table.slice(0, stop), may_be_lines=False)
                table = table.slice(stop)
            if table.num_rows:
                self._divided_row = None
        if is_last:
            if table.num_rows:
                yield self._of_cells(table, may_be_lines=True)
        elif table.num_rows:
            row = last_row(table)
            start = first_at_or_after(table, row)
            if start:
                yield self._of_cells(table.slice(0, start), may_be_lines=True)
            last = table.slice(start)
            if last.nbytes >= GATHERED_BYTES_MIN:
                self._divided_row = row
                yield self._of_cells(last, may_be_lines=False)
            else:
                self._tables, self._byte_count = [last], last.nbytes

    def _of_cells(self, table: pa.Table, *, may_be_lines: bool) -> Divided:
        table = single_chunk(table)
        [batch] = table.to_batches()
        self._properties.add(batch)
        if not (may_be_lines and self._forms_lines):
            return None, table
        lines, rest = lines_of(table)
        return lines, rest if rest.num_rows else None
