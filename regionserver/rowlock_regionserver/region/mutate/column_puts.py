"""Puts of many rows that came as columns: made by vector operations, with the result of row mutations.

1. Each row is a change of its own, as in write_path.py: it is atomic, has its own request id, outcome and saved answer,
   and its error concerns no other row.
2. Rows of a piece are checked, applied and logged together, with one write number, by the means of a bulk batch. That
   is possible for rows that are new, valid and distinct. If a single row of a piece is not, or may not be, nothing is
   done, and the write path makes all rows of the piece as row mutations. So each row's outcome is the write path's, or
   equals it.
3. A piece holds what a row mutation holds: the gate shared, and the locks of all its rows. So changes of other rows go
   on beside it, on the event loop too. Under the log's order lock, for which they wait, its record is appended, and
   its segments, prepared before, are added. Pieces are bounded, so that this is short, and so that
   a thread that wants the gate exclusively does not wait for long (gate.py).
4. If some rows were made and a later piece fails as a whole, by a deadline say, its rows and all later ones get that
   error as their outcome, as in write_path.py.
5. Each piece becomes a segment of each family. Small segments are merged, with only the gate held: after the last
   piece when all is done that the caller waits for.

The steps have the names and the order of write_path.py: 1 CHECK, 2 LOCK, 3 COMPARE (only the idempotency table),
4 STAMP, 5 BEGIN + APPEND, 6 APPLY, 7 UNLOCK; then 8 and 9.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.commit.commit import Commit
from rowlock_regionserver.commit.numbering import Numbering
from rowlock_regionserver.config import MIB
from rowlock_regionserver.errors import NotServingRegionError, RegionServerError
from rowlock_regionserver.operations import RowResult, WriteOptions
from rowlock_regionserver.region.batch_gate import BatchGate
from rowlock_regionserver.region.bulk.arranged import ArrangedBatch
from rowlock_regionserver.region.bulk.bulk_file import encode_parts
from rowlock_regionserver.region.bulk.bulk_rows import arrange_rows
from rowlock_regionserver.region.bulk.bulk_segments import PreparedSegments
from rowlock_regionserver.region.bulk.put_batch import PutBatch
from rowlock_regionserver.region.check import check_in_region
from rowlock_regionserver.region.mutate.reading_changes import PendingOutcome
from rowlock_regionserver.region.mutate.write_path import Done, WritePath
from rowlock_regionserver.region.region_parts import RegionParts
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.log import Log
from rowlock_regionserver.wal.mutation import KIND_ROW_PUTS, BulkRecord
from rowlock_regionserver.wal.row_requests import RowRequests

# The rows of a piece, and about its bytes.
PIECE_ROWS_MAX = 1000
PIECE_BYTES_MAX = 2 * MIB


@dataclass(frozen=True, slots=True)
class _Checked:
    """A piece after CHECK: it only lacks stamp and write number. `record`: for the log, without the stamp."""

    table: Table
    arranged: ArrangedBatch
    rows: Sequence[bytes]  # ascending, each once
    requests: RowRequests | None
    record: BulkRecord
    durability: Durability


class ColumnPuts:
    """Makes puts in columns in one region. Thread-safe; waits for gate and row locks, so it runs in worker threads."""

    def __init__(
        self,
        parts: RegionParts,
        numbering: Numbering,
        commit: Commit,
        log: Log,
        batch_gate: BatchGate,
        write_path: WritePath,
        *,
        piece_rows_max: int = PIECE_ROWS_MAX,
        piece_bytes_max: int = PIECE_BYTES_MAX,
    ) -> None:
        self._region_id = parts.region_id
        self._start, self._stop = parts.start, parts.stop
        self._stores = parts.stores
        self._gate = parts.gate
        self._batch_gate = batch_gate
        self._row_locks = parts.row_locks
        self._idempotency = parts.idempotency
        self._applier = parts.applier
        self._memory = parts.shared.memory
        self._config = parts.shared.config
        self._numbering = numbering
        self._commit = commit
        self._log = log
        self._region_log = parts.log
        self._write_path = write_path
        self._piece_rows_max = piece_rows_max
        self._piece_bytes_max = piece_bytes_max

    def put(self, batch: PutBatch, options: WriteOptions, done: Done) -> None:
        """Makes the rows, in order; calls `done` once with their outcomes, when all are published. Blocks up to APPLY,
        and while small segments are merged, perhaps after `done` was called.

        `done` is called from any thread, perhaps before this returns. Raises RegionServerError for a failure of the
        whole batch; then nothing was changed.
        """
        pending: list[PendingOutcome] = []
        try:
            for piece in batch.pieces(self._piece_rows_max, self._piece_bytes_max):
                if pending:
                    self._merge_segments()  # Those of the pieces before: else a large batch makes many.
                pending += self._put_piece(piece, options)
        except RegionServerError as error:
            if not pending:
                raise
            failed: PendingOutcome = (error.without_frames(), 0, 0)
            pending += [failed] * (len(batch) - len(pending))
        self._write_path.notify_when_published(done, pending)
        self._merge_segments()

    def _merge_segments(self) -> None:
        """Merges segments, unless a thread wants the gate exclusively: the next batch merges them then."""
        with contextlib.suppress(NotServingRegionError):
            if self._gate.try_enter():
                try:
                    self._applier.merge_segments()
                finally:
                    self._gate.leave()

    def _put_piece(self, piece: PutBatch, options: WriteOptions) -> list[PendingOutcome]:
        made = self._put_together(piece, options)
        if made is not None:
            return [made] * len(piece)
        outcomes = self._write_path.make(piece.mutations(), options)
        return [outcomes[at] for at in range(len(piece))]

    def _put_together(self, piece: PutBatch, options: WriteOptions) -> PendingOutcome | None:
        """Takes steps 1 to 7 for all rows at once. Returns their common outcome; None, with nothing done, if it can't.

        Raises RegionServerError for a failure of the whole piece; then nothing was changed.
        """
        while True:
            checked = self._check(piece, options)
            if checked is None:
                return None
            with self._locked(checked.rows, options.deadline):
                if self._stores.served.table is not checked.table:
                    continue
                if checked.requests is not None and not self._are_new(checked.requests):
                    return None
                stamp = self._numbering.next_stamp()
                if stamp is not None:
                    if self._numbering.reads_rows(stamp) or not checked.arranged.is_in_order_at(stamp):
                        return None
                    return self._apply(checked, stamp)
            self._numbering.wait_for_stamp(options.deadline)

    @contextlib.contextmanager
    def _locked(self, rows: Sequence[bytes], deadline: float) -> Iterator[None]:
        """2 LOCK, and 7 UNLOCK at the end of the block. Raises DeadlineError."""
        row_locks = self._row_locks
        with self._batch_gate.shared(deadline):
            if not row_locks.try_acquire(rows):
                row_locks.acquire(rows, deadline)
            try:
                yield
            finally:
                row_locks.release(rows)

    def _check(self, piece: PutBatch, options: WriteOptions) -> _Checked | None:
        """1 CHECK. Returns None if a row would be refused, has no value, or occurs twice."""
        table = self._stores.served.table
        rows = cast(list[bytes], piece.rows.rows.to_pylist())  # never null
        requests = _requests_of(piece, rows)
        if requests is not None and len(set(requests.sequences)) < len(requests.sequences):
            return None
        numbering = self._numbering
        try:
            arranged = arrange_rows(
                piece.rows, table, self._config, numbering.timestamp_max, stamp_at_least=numbering.newest_stamp
            )
            if arranged.row_count < len(piece):
                return None
            for row in (arranged.first_row, arranged.last_row):
                check_in_region(row, self._start, self._stop, self._region_id)
        except RegionServerError:
            return None  # The write path finds out which rows are refused, and why.
        durability = table.durability_of(options.durability)
        self._memory.check(arranged.byte_count)
        self._region_log.check_space(2 * arranged.byte_count + 4096)
        record = BulkRecord(
            stamp=0,
            cell_count=arranged.cell_count,
            row_count=arranged.row_count,
            first_row=arranged.first_row,
            request=None,
            cells=b"" if durability is Durability.SKIP else b"".join(encode_parts(arranged.parts)),
            row_requests=requests,
        )
        return _Checked(table, arranged, sorted(rows), requests, record, durability)

    def _are_new(self, requests: RowRequests) -> bool:
        """3 COMPARE. Returns whether no row's id has an answer, or may have had one."""
        return self._idempotency.are_new(requests.client, requests.sequences)

    def _apply(self, checked: _Checked, stamp: int) -> PendingOutcome:
        """Takes steps 5 and 6 for rows whose locks are held, and saves the answers."""
        prepared = PreparedSegments(checked.arranged.parts, stamp)
        is_logged = checked.durability is not Durability.SKIP
        payload = replace(checked.record, stamp=stamp).encode() if is_logged else b""

        def apply(write_number: int) -> None:
            self._applier.apply_segments(partial(prepared.numbered, write_number, stamp))

        write_number = self._commit.commit(KIND_ROW_PUTS, payload, checked.durability, apply)
        requests = checked.requests
        if requests is not None:
            self._idempotency.save_each(
                requests.client, requests.floor, requests.rows, requests.sequences, write_number, stamp
            )
        return RowResult(timestamp=stamp), write_number, 0


def _requests_of(piece: PutBatch, rows: Sequence[bytes]) -> RowRequests | None:
    """Returns the ids of the rows that have one; None if there is none."""
    if not any(piece.sequences):
        return None
    sequences = piece.sequences
    if not all(sequences):
        rows = [row for row, sequence in zip(rows, sequences, strict=True) if sequence]
        sequences = [sequence for sequence in sequences if sequence]
    return RowRequests(piece.client, piece.floor, rows, sequences)
