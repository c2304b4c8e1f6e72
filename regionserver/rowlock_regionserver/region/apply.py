"""APPLY: adds numbered cells to a region's memstores, for writers and for recovery."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow as pa

from rowlock_regionserver.arrow.cell_columns import CellColumns
from rowlock_regionserver.arrow.columns import ROW, column, equals_previous, run_starts
from rowlock_regionserver.arrow.line_slices import slices_of
from rowlock_regionserver.arrow.lines import cells_of
from rowlock_regionserver.cells import Cell, ProtectedReadPoints
from rowlock_regionserver.memstore.memstore import BulkSegment
from rowlock_regionserver.process import yield_now
from rowlock_regionserver.region.bulk.arranged import FamilyPart, FamilyParts
from rowlock_regionserver.region.bulk.bulk_cells import stamped
from rowlock_regionserver.region.bulk.bulk_segments import segments_of
from rowlock_regionserver.region.memory import MemoryGauge
from rowlock_regionserver.region.stores import Stores

logger = logging.getLogger(__name__)

# Rows of a batch that are applied before yielding to other threads: half a millisecond.
_ROWS_BETWEEN_YIELDS = 64
# Lines are made into cells in slices of this size.
_CELL_BYTES_AT_ONCE = 1 << 20

# A row of a bulk batch: its key, the family's number, and its cells in store order.
BatchRow = tuple[bytes, int, Sequence[Cell]]


class Applier:
    """Adds cells to the memstores of one region, and counts their bytes.

    Every record in the log must be applied. If that fails, for example by lack of memory, `on_failure` is called with
    the error, because no write may continue then.
    """

    def __init__(
        self,
        stores: Stores,
        memory: MemoryGauge,
        protected_read_points: Callable[[], ProtectedReadPoints],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._stores = stores
        self._memory = memory
        self._protected_read_points = protected_read_points
        self._on_failure = on_failure

    def apply_row(self, row: bytes, cells: Sequence[tuple[int, Sequence[Cell]]]) -> None:
        """Applies one row's cells by family number, each family's in store order.

        The caller holds the gate and the log's order lock, or is recovery, which is single-threaded.
        """
        try:
            for family_number, family_cells in cells:
                memstore = self._stores.of(family_number).memstore
                self._memory.add(memstore.apply(row, family_cells, self._protected_read_points))
        except BaseException as error:
            self._on_failure(error)
            raise

    def apply_row_early(
        self, row: bytes, cells: Sequence[tuple[int, Sequence[Cell]]], write_number: int
    ) -> Callable[[], None]:
        """Applies one row's cells before their record is appended; see `apply_early`."""
        return self._apply_rows_early(
            [(row, family_number, of_family) for family_number, of_family in cells], write_number
        )

    def apply_segments(self, numbered: Callable[[], Sequence[tuple[int, BulkSegment]]]) -> None:
        """Adds the segments of one write that `numbered` returns, by family number.

        The caller holds what `Memstore.insert_segment` requires.
        """
        try:
            segments = numbered()

            def add() -> None:
                for family_number, segment in segments:
                    self._memory.add(self._stores.of(family_number).memstore.insert_segment(segment))

            self._stores.change(add)
        except BaseException as error:
            self._on_failure(error)
            raise

    def merge_segments(self) -> None:
        """Merges small segments of all families. The caller holds only the gate; see Memstore.merge_run.

        Raises nothing: the writes that led to it are made.
        """
        for store in self._stores.all():
            try:
                store.memstore.merge_run(self._stores.change, self._memory.add)
            except Exception:
                logger.exception("could not merge segments of a memstore; reads are slower")

    def apply_early(
        self, parts: FamilyParts, write_number: int, stamp: int, *, as_segments: bool
    ) -> Callable[[], None]:
        """Applies an arranged bulk batch before its record is appended.

        No reader sees the cells yet, because their write number is not published. The batch becomes immutable segments,
        or is applied row by row, yielding to other threads in between. Takes time in proportion to the cells, so the
        caller does not hold the log's order lock; it holds the gate exclusively, or is recovery. Returns a function
        that removes the cells, for a record that the log refuses. If applying fails, no cell remains.
        """
        if as_segments:
            return self.add_segments_early(segments_of(parts, write_number, stamp))
        rows = [row for number, part in parts.items() for row in _rows(number, part, write_number, stamp)]
        return self._apply_rows_early(rows, write_number)

    def _apply_rows_early(self, rows: Sequence[BatchRow], write_number: int) -> Callable[[], None]:
        take_back = partial(self._take_back, rows, write_number)
        try:
            for count, (row, family_number, cells) in enumerate(rows, 1):
                self._memory.add(self._stores.of(family_number).memstore.apply(row, cells, self._protected_read_points))
                if count % _ROWS_BETWEEN_YIELDS == 0:
                    yield_now()
        except BaseException:
            take_back()
            raise
        return take_back

    def _take_back(self, rows: Sequence[BatchRow], write_number: int) -> None:
        try:
            for row, family_number, _ in rows:
                self._memory.add(self._stores.of(family_number).memstore.take_back(row, write_number))
        except BaseException as error:
            self._on_failure(error)
            raise

    def merge_before(self, write_number: int) -> None:
        """Lets only segments from before this write be merged, so that `take_back_after` can follow; NEWEST: all."""
        for store in self._stores.all():
            store.memstore.merge_before(write_number)

    def take_back_after(self, write_number: int) -> None:
        """Removes the segments of all later writes, of which none was published.

        The caller has held the gate exclusively since it called `merge_before`.
        """

        def drop() -> None:
            for store in self._stores.all():
                later = [each for each in store.memstore.sources()[1:] if each.write_number_min > write_number]
                store.memstore.drop(later)
                self._memory.add(-sum([each.bytes_held for each in later]))

        try:
            self._stores.change(drop)
        except BaseException as error:
            self._on_failure(error)
            raise

    def add_segments_early(self, segments: Sequence[tuple[int, BulkSegment]]) -> Callable[[], None]:
        """Adds the segments of an arranged batch, by family number; see `apply_early`."""
        added: list[tuple[int, BulkSegment]] = []

        def add() -> None:
            for family_number, segment in segments:
                self._memory.add(self._stores.of(family_number).memstore.add_segment(segment))
                added.append((family_number, segment))

        take_back = partial(self._drop_segments, added)
        try:
            self._stores.change(add)
        except BaseException:
            take_back()
            raise
        return take_back

    def _drop_segments(self, segments: Sequence[tuple[int, BulkSegment]]) -> None:
        def drop() -> None:
            for family_number, segment in segments:
                self._stores.of(family_number).memstore.drop([segment])
                self._memory.add(-segment.bytes_held)

        try:
            self._stores.change(drop)
        except BaseException as error:
            self._on_failure(error)
            raise


def _rows(family_number: int, part: FamilyPart, write_number: int, stamp: int) -> Iterator[BatchRow]:
    """Yields the rows of lines and of cells; a row may be in both, and then comes twice."""
    if part.lines is not None:
        lines = part.lines.numbered(write_number, stamp)
        for some in slices_of(lines, _CELL_BYTES_AT_ONCE):
            yield from _rows_of_table(family_number, cells_of(some))
    if part.cells is not None:
        yield from _rows_of_table(family_number, stamped(part.cells, write_number, stamp))


def _rows_of_table(family_number: int, table: pa.Table) -> Iterator[BatchRow]:
    columns = CellColumns(table)
    for start in run_starts(equals_previous(column(table, ROW))).tolist():
        row = columns.row(start)
        yield row, family_number, columns.row_cells(row)
