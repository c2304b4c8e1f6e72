"""What a row procedure reads: the newest visible cells of its row, unpublished ones too, up to a bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rowlock_proto.shown_names import name_text

from rowlock_regionserver.cells import NEWEST, Family, ReadPoint
from rowlock_regionserver.errors import ProcedureFailedError, listed
from rowlock_regionserver.found_cells import FoundCell, LongRowError, loaded
from rowlock_regionserver.operations import ColumnSelector, ProcedureCall
from rowlock_regionserver.procedures.failure import failed
from rowlock_regionserver.region.mutate.conditional import NewestRow
from rowlock_regionserver.region.mutate.row_state import RowState
from rowlock_regionserver.scan.filters import FAMILY_BYTES_SHOWN
from rowlock_regionserver.table import Table
from rowlock_regionserver.versions.visibility import visible_cells

# Counted for each cell beyond its names and its value, so that the bound holds for small cells too.
CELL_BYTES = 100


class ProcedureReads:
    """The reads of one call. The caller holds the row's lock; one thread at a time."""

    def __init__(self, call: ProcedureCall, table: Table, state: RowState, now_ms: int, bytes_max: int) -> None:
        """`bytes_max`: of the argument and all cells that are read, CELL_BYTES more for each."""
        self._call = call
        self._families = table.by_name
        self._table_name = table.name
        self._state = state
        self._now = ReadPoint(NEWEST, now_ms)
        self._newest = NewestRow(state, self._families, now_ms)
        self._bytes_max = bytes_max
        self._byte_count = len(call.argument)
        self.timestamp_max = 0  # of the cells that were read

    @property
    def newest(self) -> NewestRow:
        """The newest cells of the row."""
        return self._newest

    def read(self, columns: Sequence[ColumnSelector]) -> list[tuple[bytes, bytes, bytes]]:
        """Returns (family, qualifier, value) of each column that is there; without columns, of the whole row.

        Raises ProcedureFailedError for an unknown family, and when the call has read too much.
        """
        found: list[tuple[bytes, bytes, bytes]] = []
        for selector in columns or [ColumnSelector(family) for family in self._families]:
            family = self._families.get(selector.family)
            if family is None:
                raise failed(
                    self._call,
                    f"table {self._table_name!r} has no column family "
                    f"{name_text(selector.family[:FAMILY_BYTES_SHOWN])}; it has: {listed(self._families)}",
                )
            for cell in self._cells(family, selector.qualifier):
                self._count(len(family.name) + len(cell[0]) + len(cell[4]))
                self.timestamp_max = max(self.timestamp_max, -cell[1])
                found.append((family.name, cell[0], loaded(cell[4])))
        return found

    def _cells(self, family: Family, qualifier: bytes | None) -> Iterator[FoundCell]:
        """Yields the newest visible cell of one column, or of each column of the family."""
        if qualifier is not None:
            cell = self._newest.cell(family.name, qualifier)
            if cell is not None:
                yield cell
            return
        try:
            cells = self._state.family_cells(family, self._bytes_max // CELL_BYTES)
        except LongRowError:
            raise self._too_much() from None
        last: bytes | None = None
        for cell in visible_cells(cells, self._now, family):
            if cell[0] != last:
                last = cell[0]
                yield cell

    def _count(self, byte_count: int) -> None:
        self._byte_count += CELL_BYTES + byte_count
        if self._byte_count > self._bytes_max:
            raise self._too_much()

    def _too_much(self) -> ProcedureFailedError:
        return failed(
            self._call,
            f"it read more than procedure_read_bytes_max = {self._bytes_max} bytes of its row; read columns by name, "
            "or fewer of them",
        )
