"""Steps 5 and 6 of a row's change (write_path.py): its record, its commit, and its kept answer."""

from __future__ import annotations

from collections.abc import Sequence

from rowlock_regionserver.cells import Cell, Durability
from rowlock_regionserver.commit.commit import Commit, TakeBack
from rowlock_regionserver.config import KIB
from rowlock_regionserver.operations import RequestId, RowResult
from rowlock_regionserver.region.mutate.check import check_record
from rowlock_regionserver.region.region_parts import RegionParts
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.log import Log
from rowlock_regionserver.wal.mutation import KIND_ROW, UnnumberedCell, encode_row, number_cells

# By family number, what changes in the row.
Change = Sequence[tuple[int, Sequence[UnnumberedCell]]]

# While the cells that a change answers take less, its record is about as large as CHECK could know.
_ANSWER_BYTES_SMALL = 16 * KIB


class RowCommit:
    """Commits changes of one region's rows; the caller holds each row's lock, or the gate alone. Thread-safe."""

    def __init__(self, parts: RegionParts, commit: Commit, log: Log) -> None:
        self._requests = parts.requests
        self._memory = parts.shared.memory
        self._applier = parts.applier
        self._config = parts.shared.config
        self._commit = commit
        self._log = log

    def commit(
        self,
        table: Table,
        row: bytes,
        change: Change,
        request: RequestId | None,
        result: RowResult,
        durability: Durability,
        answer_bytes: int = 0,
    ) -> int:
        """5 BEGIN + APPEND and 6 APPLY. Gives the write number. `answer_bytes`: of the cells that the change answers.

        Raises RegionServerError; then nothing was changed.
        """
        payload = encode_row(row, change, request, result, table.number_by_name)
        if answer_bytes > _ANSWER_BYTES_SMALL:
            self._check_again(row, len(payload))

        def apply(write_number: int) -> None:
            self._applier.apply_row(row, _numbered(change, write_number))

        write_number = self._commit.commit(KIND_ROW, payload, durability, apply)
        if request is not None:
            self._requests.keep(request, row, write_number, result)
        return write_number

    def commit_alone(
        self,
        table: Table,
        row: bytes,
        change: Change,
        request: RequestId | None,
        result: RowResult,
        durability: Durability,
    ) -> int:
        """`commit` for a long change, of a caller that holds the gate alone; see Commit.commit_applied."""
        payload = encode_row(row, change, request, result, table.number_by_name)

        def apply(write_number: int) -> TakeBack:
            return self._applier.apply_row_early(row, _numbered(change, write_number), write_number)

        write_number = self._commit.commit_applied(KIND_ROW, payload, durability, apply)
        if request is not None:
            self._requests.keep(request, row, write_number, result)
        return write_number

    def _check_again(self, row: bytes, record_bytes: int) -> None:
        """1 CHECK once more, for a change whose size depends on what it read; nothing is changed yet."""
        check_record(record_bytes, row, self._config)
        self._memory.check(record_bytes)
        self._log.check_space(record_bytes)


def _numbered(change: Change, write_number: int) -> list[tuple[int, Sequence[Cell]]]:
    return [(family, number_cells(cells, write_number)) for family, cells in change]
