"""Steps 5 and 6 of a row's change (write_path.py): its log record, its commit, and its saved answer."""

from __future__ import annotations

from collections.abc import Sequence

from rowlock_regionserver.cells import Cell, Durability
from rowlock_regionserver.commit.commit import Commit, TakeBack
from rowlock_regionserver.config import KIB
from rowlock_regionserver.operations import RequestId, RowResult
from rowlock_regionserver.region.check import check_record
from rowlock_regionserver.region.region_parts import RegionParts
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.log import Log
from rowlock_regionserver.wal.mutation import KIND_ROW, UnnumberedCell, encode_row, number_cells

# The new cells of one row, by family number.
CellsByFamily = Sequence[tuple[int, Sequence[UnnumberedCell]]]

# With fewer bytes of cells in the answer, the record is about as large as CHECK computed.
_ANSWER_BYTES_SMALL = 16 * KIB


class RowCommit:
    """Commits changes of one region's rows. The caller holds the row's lock, or the gate exclusively. Thread-safe."""

    def __init__(self, parts: RegionParts, commit: Commit, log: Log) -> None:
        self._idempotency = parts.idempotency
        self._memory = parts.shared.memory
        self._applier = parts.applier
        self._config = parts.shared.config
        self._commit = commit
        self._log = log

    def commit(
        self,
        table: Table,
        row: bytes,
        cells: CellsByFamily,
        request: RequestId | None,
        result: RowResult,
        durability: Durability,
        answer_bytes: int = 0,
    ) -> int:
        """5 BEGIN + APPEND and 6 APPLY. Returns the write number. `answer_bytes`: of the cells in the answer.

        Raises RegionServerError; then nothing was changed.
        """
        payload = encode_row(row, cells, request, result, table.number_by_name)
        if answer_bytes > _ANSWER_BYTES_SMALL:
            self._check_again(row, len(payload))

        def apply(write_number: int) -> None:
            self._applier.apply_row(row, _numbered(cells, write_number))

        write_number = self._commit.commit(KIND_ROW, payload, durability, apply)
        if request is not None:
            self._idempotency.save(request, row, write_number, result)
        return write_number

    def commit_exclusive(
        self,
        table: Table,
        row: bytes,
        cells: CellsByFamily,
        request: RequestId | None,
        result: RowResult,
        durability: Durability,
    ) -> int:
        """Commits a long change. The caller holds the gate exclusively. See Commit.commit_applied."""
        payload = encode_row(row, cells, request, result, table.number_by_name)

        def apply(write_number: int) -> TakeBack:
            return self._applier.apply_row_early(row, _numbered(cells, write_number), write_number)

        write_number = self._commit.commit_applied(KIND_ROW, payload, durability, apply)
        if request is not None:
            self._idempotency.save(request, row, write_number, result)
        return write_number

    def _check_again(self, row: bytes, record_bytes: int) -> None:
        """1 CHECK again, for a change whose size depends on what COMPARE read; nothing has changed yet."""
        check_record(record_bytes, row, self._config)
        self._memory.check(record_bytes)
        self._log.check_space(record_bytes)


def _numbered(cells: CellsByFamily, write_number: int) -> list[tuple[int, Sequence[Cell]]]:
    return [(family, number_cells(of_family, write_number)) for family, of_family in cells]
