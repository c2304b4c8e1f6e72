"""APPLY: numbered cells into a region's memstores, by writers and by recovery alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa

from rowlock_regionserver.cells import Cell, ReadSpans
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
        read_spans: Callable[[], ReadSpans],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._stores = stores
        self._memory = memory
        self._read_spans = read_spans
        self._on_failure = on_failure

    def apply_row(self, row: bytes, cells: Sequence[tuple[int, Sequence[Cell]]]) -> None:
        """One row's cells by family number, each in store order."""
        try:
            for family_number, family_cells in cells:
                memstore = self._stores.of(family_number).memstore
                self._memory.add(memstore.apply(row, family_cells, self._read_spans))
        except BaseException as error:
            self._on_failure(error)
            raise

    def prepared(
        self, tables: Mapping[int, pa.Table], write_number: int, stamp: int, *, as_segments: bool
    ) -> Callable[[], None]:
        """What applies a bulk batch, BULK_SCHEMA by family number: as immutable segments, or row by row.

        The work is done here, which needs no lock: to call what it gives is short.
        """
        numbered = {number: stamped(table, write_number, stamp) for number, table in tables.items()}
        if as_segments:
            return partial(self._add_segments, {number: ArrowSegment(table) for number, table in numbered.items()})
        return partial(self._apply_rows, [row for number, table in numbered.items() for row in _rows(number, table)])

    def _apply_rows(self, rows: Sequence[tuple[bytes, int, Sequence[Cell]]]) -> None:
        for row, family_number, cells in rows:
            self.apply_row(row, [(family_number, cells)])

    def _add_segments(self, segments: Mapping[int, ArrowSegment]) -> None:
        def add() -> None:
            for family_number, segment in segments.items():
                self._stores.of(family_number).memstore.add_segment(segment)
                self._memory.add(segment.bytes_held)

        try:
            self._stores.change(add)
        except BaseException as error:
            self._on_failure(error)
            raise


def _rows(family_number: int, table: pa.Table) -> Iterator[tuple[bytes, int, Sequence[Cell]]]:
    columns = CellColumns(table)
    for start in run_starts(equals_previous(column(table, ROW))).tolist():
        row = columns.row(start)
        yield row, family_number, columns.row_cells(row)
