"""APPLY: numbered cells into a region's memstores, by writers and by recovery alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from rowlock_regionserver.cells import Cell
from rowlock_regionserver.memstore.arrow_segment import ArrowSegment
from rowlock_regionserver.region.bulk_cells import stamped
from rowlock_regionserver.region.memory import MemoryGauge
from rowlock_regionserver.region.stores import Stores
from rowlock_regionserver.scan.cell_columns import CellColumns
from rowlock_regionserver.scan.columns import ROW, column, equals_previous, run_starts


class Applier:
    """Puts cells into the memstores of one region, and counts their bytes.

    The caller holds the log's order lock inside the gate, or is recovery, which is alone. What the log holds must be
    applied: `on_failure` is told when that fails, be it for want of memory, because nothing may go on then.
    """

    def __init__(
        self,
        stores: Stores,
        memory: MemoryGauge,
        oldest_read_point: Callable[[], int],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._stores = stores
        self._memory = memory
        self._oldest_read_point = oldest_read_point
        self._on_failure = on_failure

    def apply_row(self, row: bytes, cells: Sequence[tuple[int, Sequence[Cell]]]) -> None:
        """One row's cells by family number, each in store order."""
        try:
            for family_number, family_cells in cells:
                memstore = self._stores.of(family_number).memstore
                self._memory.add(memstore.apply(row, family_cells, self._oldest_read_point))
        except BaseException as error:
            self._on_failure(error)
            raise

    def apply_tables(self, tables: Mapping[int, pa.Table], write_number: int, stamp: int, *, as_segments: bool) -> None:
        """A bulk batch, BULK_SCHEMA by family number: as immutable segments, or row by row into the active ones."""
        try:
            self._apply_tables(tables, write_number, stamp, as_segments=as_segments)
        except BaseException as error:
            self._on_failure(error)
            raise

    def _apply_tables(
        self, tables: Mapping[int, pa.Table], write_number: int, stamp: int, *, as_segments: bool
    ) -> None:
        numbered = {number: stamped(table, write_number, stamp) for number, table in tables.items()}
        if as_segments:
            self._stores.change(lambda: self._add_segments(numbered))
            return
        for family_number, table in numbered.items():
            columns = CellColumns(table)
            rows = column(table, ROW)
            for start in run_starts(equals_previous(rows)).tolist():
                row = columns.row(start)
                self.apply_row(row, [(family_number, columns.row_cells(row))])

    def _add_segments(self, tables: Mapping[int, pa.Table]) -> None:
        for family_number, table in tables.items():
            segment = ArrowSegment(table)
            self._stores.of(family_number).memstore.add_segment(segment)
            self._memory.add(segment.bytes_held)
