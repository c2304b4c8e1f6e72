"""Bulk batches: many cells or rows as Arrow, applied atomically at one write number.

1. CHECK and arrange (bulk_cells.py, bulk_rows.py): vector operations, before anything is changed. The segments
   are made too, so that they only need their number and stamp. Steps 1 and 2 are paced as background work, with
   pauses between the pieces of step 1; the permit is released while they wait for a sync, and before they wait for the
   gate, in which nothing pauses.
2. A large batch is written and synced as a bulk file of its own, and the log record only names the file. A batch with
   durability SKIP has neither file nor record.
3. With the gate held exclusively, so that no row is between COMPARE and APPLY: request id, stamp, APPLY, BEGIN +
   APPEND. The batch becomes immutable segments of each family's memstore; one that is small as cells is applied row by
   row to the active segments. Readers don't see the cells yet, because their number is not published. APPLY can come
   first because no other writer takes the next number, so the log's order lock is held only for the record, however
   many cells there are. If the log refuses the record, the cells are removed again. If the families have changed since
   step 1, or the stamp has reached the timestamp of a cell in a column that also has cells without one, nothing is
   done, and all steps are repeated.
4. SYNC and PUBLISH as for a row (write_path.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.commit.commit import Commit, TakeBack
from rowlock_regionserver.commit.numbering import Numbering
from rowlock_regionserver.errors import DeadlineError, DiskFullError, RegionServerError, UnknownOutcomeError
from rowlock_regionserver.operations import RequestId, RowResult, WriteOptions
from rowlock_regionserver.process_limits import memory_error_refused
from rowlock_regionserver.region.background_pacing import BATCH, Permit
from rowlock_regionserver.region.batch_gate import BatchGate
from rowlock_regionserver.region.bulk.arranged import ArrangedBatch, FamilyParts, bytes_as_cells
from rowlock_regionserver.region.bulk.bulk_cells import arrange
from rowlock_regionserver.region.bulk.bulk_file import bulk_file_path, encode_parts, write_bulk_file
from rowlock_regionserver.region.bulk.bulk_rows import arrange_rows
from rowlock_regionserver.region.bulk.bulk_segments import PreparedSegments
from rowlock_regionserver.region.bulk.region_commit import RegionCommit
from rowlock_regionserver.region.bulk.row_batch import BulkBatch, RowBatch
from rowlock_regionserver.region.bulk.staged import StagedBatch, halves
from rowlock_regionserver.region.check import check_in_region
from rowlock_regionserver.region.idempotency.answer import RepeatedAnswer
from rowlock_regionserver.region.idempotency.repeated import is_definite_without_change
from rowlock_regionserver.region.region_parts import RegionParts
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.log import Log
from rowlock_regionserver.wal.mutation import KIND_BULK, KIND_BULK_LINES, BulkRecord

_BATCH = "a bulk batch"


@dataclass(frozen=True, slots=True)
class BulkResult:
    """The result of a bulk batch. Counts the cells and rows that were written, after collapsing."""

    cell_count: int
    row_count: int
    timestamp: int  # the stamp of cells without a timestamp
    repeated_request: bool = False
    staged_batch: int = 0  # of a staged batch: its number within the bulk write


BulkOutcome = BulkResult | RegionServerError


class _Applied(NamedTuple):
    """A batch that was applied now or earlier, or refused earlier; `write_number` must be published first."""

    write_number: int
    stamp: int
    is_repeated: bool = False
    refusal: RegionServerError | None = None


class BulkNumbers:
    """Hands out numbers for bulk files; one counter for each server, whose log names the files. Thread-safe."""

    def __init__(self, first: int) -> None:
        self._next = itertools.count(first)

    def next(self) -> int:
        return next(self._next)


class BulkLoad:
    """Applies bulk batches to one region. Thread-safe; waits for disk and gate, so it runs in worker threads."""

    def __init__(
        self,
        parts: RegionParts,
        numbers: BulkNumbers,
        numbering: Numbering,
        commit: Commit,
        log: Log,
        batch_gate: BatchGate,
    ) -> None:
        self._parts = parts
        self._region_id = parts.region_id
        self._start, self._stop = parts.start, parts.stop
        self._stores = parts.stores
        self._mvcc = parts.mvcc
        self._gate = parts.gate
        self._batch_gate = batch_gate
        self._idempotency = parts.idempotency
        self._memory = parts.shared.memory
        self._applier = parts.applier
        self._bulk_files = parts.bulk_files
        self._numbers = numbers
        self._numbering = numbering
        self._commit = commit
        self._log = log
        self._region_log = parts.log
        shared = parts.shared
        self._folder = shared.bulk_folder
        self._files = shared.files
        self._config = shared.config
        self._clock = shared.clock
        self._pacing = shared.pacing
        self._on_fatal = shared.on_fatal

    def put(
        self, batch: BulkBatch, request: RequestId | None, options: WriteOptions, done: Callable[[BulkOutcome], None]
    ) -> None:
        """Applies the batch; calls `done` when it is published, from any thread. See BulkBatch.

        Waits for a permit for background work, for the gate, and for a stamp, until the options' deadline.
        If nothing was changed, raises RegionServerError or passes it to `done`.
        """
        try:
            while not self._put(batch, request, options, done):
                if self._clock.monotonic() >= options.deadline:
                    raise DeadlineError(
                        "the deadline passed before the bulk batch could be applied: the table's families or the stamp "
                        "changed during each attempt; nothing was changed, retry"
                    )
        except RegionServerError as error:
            if request is None or not is_definite_without_change(error):
                raise
            refusal = error.without_frames()
        else:
            return
        # Not raised: a saved error must not hold the frames that it passed through, and with them the batch.
        done(self._saved_refusal(request, refusal, options.deadline))

    def stage(self, batch: BulkBatch, deadline: float) -> list[StagedBatch]:
        """Takes steps 1 and 2, and returns the durable files, which a later commit may apply. Blocks.

        Raises RegionServerError and MemoryError, and then leaves no file.
        """
        staged: list[StagedBatch] = []
        try:
            for half in halves(batch):
                with self._pacing.permit(BATCH, deadline) as permit:
                    arranged = self._arranged(half, self._stores.served.table, self._numbering.newest_stamp, permit)
                    if arranged.parts:
                        for row in (arranged.first_row, arranged.last_row):
                            check_in_region(row, self._start, self._stop, self._region_id)
                        record = self._write_file(arranged, None, permit)
                        numbers = tuple(sorted(arranged.parts))
                        staged.append(StagedBatch(self._region_id, record, arranged.last_row, numbers))
        except BaseException:
            for each in staged:
                self._files.remove_if_there(bulk_file_path(self._folder, each.record.file_number))
            raise
        return staged

    def write_file(self, parts: FamilyParts, record: BulkRecord) -> BulkRecord:
        """Writes the parts to a bulk file; returns the record with the file. Raises DiskFullError and OSError."""
        written = write_bulk_file(self._files, self._folder, self._numbers.next(), parts)
        return replace(
            record, file_number=written.number, file_bytes=written.byte_count, file_checksum=written.checksum
        )

    def region_commit(self) -> RegionCommit:
        """Returns what commits this region's part of a bulk write."""
        return RegionCommit(self._parts, self._numbering, self._commit, self._log)

    def _saved_refusal(self, request: RequestId, refusal: RegionServerError, deadline: float) -> RegionServerError:
        """Saves the refusal as the answer for late copies. Returns the saved answer if there is one already."""
        with self._gate.exclusive(deadline):
            saved = self._saved(request, None)
            if saved is None:
                self._idempotency.save(request, None, 0, refusal, is_bulk=True)
                return refusal
        if isinstance(saved.outcome, RegionServerError):
            return saved.outcome
        return UnknownOutcomeError(
            f"bulk batch {request.sequence} was applied before, but the table as it is now would refuse it: {refusal}"
        )

    def _put(
        self, batch: BulkBatch, request: RequestId | None, options: WriteOptions, done: Callable[[BulkOutcome], None]
    ) -> bool:
        """Takes all steps once. Returns False, with nothing done, if families or stamp changed after step 1."""
        record: BulkRecord | None = None
        with memory_error_refused(_BATCH), self._pacing.permit(BATCH, options.deadline) as permit:
            table = self._stores.served.table
            durability = table.durability_of(options.durability)
            is_logged = durability is not Durability.SKIP
            stamp = self._numbering.stamp(options.deadline)
            arranged = self._arranged(batch, table, stamp, permit)
            if not arranged.parts:
                done(BulkResult(0, 0, stamp))
                return True
            for row in (arranged.first_row, arranged.last_row):
                check_in_region(row, self._start, self._stop, self._region_id)
            # A batch that is large as cells is not applied row by row, and one that is large as it is gets a file.
            as_segments = bytes_as_cells(arranged.parts) >= self._config.bulk_file_bytes_min
            is_large = arranged.byte_count >= self._config.bulk_file_bytes_min
            self._memory.check(arranged.byte_count if as_segments else bytes_as_cells(arranged.parts))
            self._region_log.check_space(2 * arranged.byte_count + 4096 if is_logged and not is_large else 4096)
            permit.pause()
            prepared = PreparedSegments(arranged.parts, stamp) if as_segments else None
            permit.pause()
            if is_logged:
                record = self._write_file(arranged, request, permit) if is_large else _inline(arranged, request)
        try:
            applied = self._apply_in_gate(table, arranged, prepared, request, record, durability, options.deadline)
        except BaseException:
            self._remove_unless_logged(record)
            raise
        if applied is None or applied.is_repeated:
            self._remove_unless_logged(record)
        if applied is None:
            return False
        outcome: BulkOutcome = BulkResult(arranged.cell_count, arranged.row_count, applied.stamp, applied.is_repeated)
        if applied.refusal is not None:
            outcome = applied.refusal
        self._mvcc.when_published(applied.write_number, partial(_notify, done, outcome))
        return True

    def _arranged(self, batch: BulkBatch, table: Table, stamp: int, permit: Permit) -> ArrangedBatch:
        """Takes step 1."""
        timestamp_max = self._numbering.timestamp_max
        if isinstance(batch, RowBatch):
            return arrange_rows(batch, table, self._config, timestamp_max, stamp, permit.pause)
        return arrange(batch, table, self._config, timestamp_max, stamp, permit.pause)

    def _apply_in_gate(
        self,
        table: Table,
        arranged: ArrangedBatch,
        prepared: PreparedSegments | None,
        request: RequestId | None,
        record: BulkRecord | None,
        durability: Durability,
        deadline: float,
    ) -> _Applied | None:
        """Takes step 3. Returns None if families or stamp changed since the cells were arranged."""
        while True:
            with self._batch_gate.exclusive(deadline):
                if self._stores.served.table is not table:
                    return None
                if request is not None and (before := self._applied_before(request, arranged.first_row)) is not None:
                    return before
                if arranged.is_stamped:
                    self._numbering.pass_over_cells()  # Their rows are not read.
                stamp = self._numbering.next_stamp()
                if stamp is not None:
                    if not arranged.is_in_order_at(stamp):
                        return None
                    return self._apply(arranged, prepared, stamp, request, record, durability)
            self._numbering.wait_for_stamp(deadline)

    def _applied_before(self, request: RequestId, first_row: bytes) -> _Applied | None:
        """Returns the answer to an earlier request with this id, or why it is unknown; None if there was none."""
        try:
            saved = self._saved(request, first_row)
        except RegionServerError as error:
            return _Applied(0, 0, is_repeated=True, refusal=error.without_frames())
        if saved is None:
            return None
        if isinstance(saved.outcome, RegionServerError):
            return _Applied(saved.write_number, 0, is_repeated=True, refusal=saved.outcome)
        return _Applied(saved.write_number, saved.outcome.timestamp, is_repeated=True)

    def _saved(self, request: RequestId, first_row: bytes | None) -> RepeatedAnswer | None:
        """Returns the answer to an earlier request with this id, or to a batch that this one is a part of."""
        saved = self._idempotency.find(request, first_row, is_bulk=True)
        for sequence in request.parts_of:
            if saved is None:
                saved = self._idempotency.find(request._replace(sequence=sequence), None, is_bulk=True)
        return saved

    def _write_file(self, arranged: ArrangedBatch, request: RequestId | None, permit: Permit) -> BulkRecord:
        """Writes the cells to a bulk file, which is durable before the batch is logged. Returns the record for it.

        The file is synced even if the batch asks for less than `fsync`: the next writer's sync makes the record
        durable, and a record whose file is lost would be damage, not a lost batch.
        """
        if self._files.free_bytes(self._folder) < arranged.byte_count + self._config.disk_free_bytes_min:
            raise self._disk_full(arranged)  # The last disk_free_bytes_min are reserved for flushes.
        try:
            written = write_bulk_file(self._files, self._folder, self._numbers.next(), arranged.parts, permit.released)
        except DiskFullError as error:
            raise self._disk_full(arranged) from error
        except OSError as error:
            self._on_fatal(error)
            raise
        return BulkRecord(
            stamp=0,
            cell_count=arranged.cell_count,
            row_count=arranged.row_count,
            first_row=arranged.first_row,
            request=request,
            file_number=written.number,
            file_bytes=written.byte_count,
            file_checksum=written.checksum,
        )

    def _disk_full(self, arranged: ArrangedBatch) -> DiskFullError:
        return DiskFullError(
            f"no space for a bulk file of {arranged.byte_count} bytes in {self._folder}; nothing was changed. Free "
            "disk space; writes then continue without a restart",
            retry_after_ms=self._config.retry_after_ms,
        )

    def _apply(
        self,
        arranged: ArrangedBatch,
        prepared: PreparedSegments | None,
        stamp: int,
        request: RequestId | None,
        record: BulkRecord | None,
        durability: Durability,
    ) -> _Applied:
        """Applies, begins and appends, with the gate held exclusively. Without a record nothing is logged.

        `prepared`: None for a batch that is applied row by row.
        """
        with memory_error_refused(_BATCH):
            payload = b"" if record is None else replace(record, stamp=stamp).encode()

        def apply(write_number: int) -> TakeBack:
            with memory_error_refused(_BATCH):
                if prepared is None:
                    return self._applier.apply_early(arranged.parts, write_number, stamp, as_segments=False)
                return self._applier.add_segments_early(prepared.numbered(write_number, stamp))

        kind = KIND_BULK_LINES if arranged.has_lines else KIND_BULK
        write_number = self._commit.commit_applied(kind, payload, durability, apply)
        if record is not None and record.file_number:
            self._bulk_files.add(record.file_number, write_number)
        if request is not None:
            self._idempotency.save(request, arranged.first_row, write_number, RowResult(timestamp=stamp), is_bulk=True)
        return _Applied(write_number, stamp)

    def _remove_unless_logged(self, record: BulkRecord | None) -> None:
        """Removes the bulk file of a record that is not in the log; a logged record needs its file."""
        if record is not None and record.file_number and record.file_number not in self._bulk_files:
            self._files.remove_if_there(bulk_file_path(self._folder, record.file_number))


def _inline(arranged: ArrangedBatch, request: RequestId | None) -> BulkRecord:
    return BulkRecord(
        stamp=0,
        cell_count=arranged.cell_count,
        row_count=arranged.row_count,
        first_row=arranged.first_row,
        request=request,
        cells=b"".join(encode_parts(arranged.parts)),
    )


def _notify(done: Callable[[BulkOutcome], None], result: BulkOutcome, failure: UnknownOutcomeError | None) -> None:
    done(result if failure is None else failure)
