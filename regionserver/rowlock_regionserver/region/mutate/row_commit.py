"""Steps 5 and 6 of a row's change (write_path.py): number it, log it, apply it, and keep its answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.commit.numbering import Numbering
from rowlock_regionserver.config import KIB
from rowlock_regionserver.operations import RequestId, RowResult
from rowlock_regionserver.region.contents import RegionContents
from rowlock_regionserver.region.mutate.check import check_record
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.log import Log
from rowlock_regionserver.wal.mutation import KIND_ROW, UnnumberedCell, encode_row, number_cells

# By family number, what changes in the row.
Change = Sequence[tuple[int, Sequence[UnnumberedCell]]]

# While the cells that a change answers take less, its record is about as large as CHECK could know.
_ANSWER_BYTES_SMALL = 16 * KIB


class RowCommit:
    """Commits changes of one region's rows; the caller holds each row's lock, or the gate alone. Thread-safe."""

    def __init__(self, contents: RegionContents, numbering: Numbering, log: Log) -> None:
        self._region_id = contents.region_id
        self._mvcc = contents.mvcc
        self._requests = contents.requests
        self._memory = contents.memory
        self._applier = contents.applier
        self._config = contents.shared.config
        self._numbering = numbering
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
        log, mvcc = self._log, self._mvcc
        with log.order:
            write_number = self._numbering.begin()
            complete = partial(mvcc.complete, write_number)
            try:
                if durability is Durability.SKIP:
                    log.pass_through(complete)
                else:
                    log.append(self._region_id, write_number, KIND_ROW, payload, durability, complete)
            except BaseException:
                mvcc.complete(write_number)  # Nothing was applied: the number completes empty.
                raise
            self._applier.apply_row(row, [(family, number_cells(cells, write_number)) for family, cells in change])
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
        """The same for a long change of a caller that is alone inside the gate.

        The cells are applied first, so that the order lock is held for the record alone.
        """
        payload = encode_row(row, change, request, result, table.number_by_name)
        next_number = self._mvcc.last + 1
        numbered = [(family, number_cells(cells, next_number)) for family, cells in change]
        take_back = self._applier.apply_row_early(row, numbered, next_number)
        write_number = self._numbering.append_applied(KIND_ROW, payload, durability, take_back)
        if request is not None:
            self._requests.keep(request, row, write_number, result)
        return write_number

    def _check_again(self, row: bytes, record_bytes: int) -> None:
        """1 CHECK once more, for a change whose size depends on what it read; nothing is changed yet."""
        check_record(record_bytes, row, self._config)
        self._memory.check(record_bytes)
        self._log.check_space(record_bytes)
