"""Bulk batches: many cells as Arrow, applied whole at one write number.

1. CHECK and arrange (bulk_cells.py): vector operations, before anything is changed. This and 2 are a turn at long work,
   which nobody has while a sync or the gate is waited for.
2. A large batch is written and synced as a bulk file of its own, so that the log record only names it. One that is not
   to be logged has neither.
3. Under the exclusive gate, where no row is between COMPARE and APPLY: request id, stamp, APPLY, BEGIN + APPEND. The
   cells become an immutable segment of each family's memstore; a small batch goes row by row into the active ones.
   Readers don't see it yet: its number is not published. APPLY can come first because nobody else takes the next
   number, so the log's order lock is held for the record alone, however many cells there are; when the log refuses the
   record, the cells are taken back. If the families have changed since step 1, or the stamp has reached a timestamp
   that a cell brought in a column of cells without one, nothing is done and all begins again.
4. SYNC and PUBLISH as for a row (write_path.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.commit.commit import Commit, TakeBack
from rowlock_regionserver.commit.numbering import Numbering
from rowlock_regionserver.errors import DeadlineError, DiskFullError, RegionServerError, UnknownOutcomeError
from rowlock_regionserver.operations import RequestId, RowResult, WriteOptions
from rowlock_regionserver.region.background_pacing import Permit
from rowlock_regionserver.region.bulk.bulk_cells import BulkCells, arrange
from rowlock_regionserver.region.bulk.bulk_file import bulk_file_path, encode_tables, write_bulk_file
from rowlock_regionserver.region.idempotency.repeated import is_definite_without_change
from rowlock_regionserver.region.mutate.check import check_in_region
from rowlock_regionserver.region.region_parts import RegionParts
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.log import Log
from rowlock_regionserver.wal.mutation import KIND_BULK, BulkRecord


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What became of a bulk batch. Counts are of what was written, after collapsing."""

    cell_count: int
    row_count: int
    timestamp: int  # the stamp of cells without a timestamp
    repeated_request: bool = False


BulkOutcome = BulkResult | RegionServerError


class _Applied(NamedTuple):
    """A batch that was applied now or before, or refused before; `write_number` must be published first."""

    write_number: int
    stamp: int
    is_repeated: bool = False
    refusal: RegionServerError | None = None


class BulkNumbers:
    """Numbers for bulk files; one counter a server, since its log names them. Thread-safe."""

    def __init__(self, first: int) -> None:
        self._next = itertools.count(first)

    def next(self) -> int:
        return next(self._next)


class BulkLoad:
    """Applies bulk batches to one region. Thread-safe; blocks for disk and gate, so it runs in worker threads."""

    def __init__(
        self,
        parts: RegionParts,
        numbers: BulkNumbers,
        numbering: Numbering,
        commit: Commit,
        log: Log,
    ) -> None:
        self._region_id = parts.region_id
        self._start, self._stop = parts.start, parts.stop
        self._stores = parts.stores
        self._mvcc = parts.mvcc
        self._gate = parts.gate
        self._requests = parts.requests
        self._memory = parts.shared.memory
        self._applier = parts.applier
        self._bulk_files = parts.bulk_files
        self._numbers = numbers
        self._numbering = numbering
        self._commit = commit
        self._log = log
        shared = parts.shared
        self._folder = shared.bulk_folder
        self._files = shared.files
        self._config = shared.config
        self._clock = shared.clock
        self._pacing = shared.pacing
        self._on_fatal = shared.on_fatal

    def put(
        self, batch: pa.Table, request: RequestId | None, options: WriteOptions, done: Callable[[BulkOutcome], None]
    ) -> None:
        """Applies the batch; `done` is told once it is published, from any thread. bulk_cells.arrange has its schema.

        Waits for a turn at long work, for the gate, and for a stamp, until the options' deadline.
        Raises RegionServerError, or gives it to `done`, when nothing was changed.
        """
        try:
            while not self._put(batch, request, options, done):
                if self._clock.monotonic() >= options.deadline:
                    raise DeadlineError(
                        "the deadline passed, and what the bulk batch was arranged by, families or stamp, has changed "
                        "each time; nothing was changed, try again"
                    )
        except RegionServerError as error:
            if request is None or not is_definite_without_change(error):
                raise
            refusal = error.without_frames()
        else:
            return
        # Not raised, because a kept error must not hold the frames that it passed, and with them the batch.
        done(self._saved_refusal(request, refusal, options.deadline))

    def _saved_refusal(self, request: RequestId, refusal: RegionServerError, deadline: float) -> RegionServerError:
        """Keeps the refusal as the answer for late copies; gives the kept answer if there is one already."""
        with self._gate.exclusive(deadline):
            kept = self._requests.find(request, None, is_bulk=True)
            if kept is None:
                self._requests.keep(request, None, 0, refusal, is_bulk=True)
                return refusal
        if isinstance(kept.outcome, RegionServerError):
            return kept.outcome
        return UnknownOutcomeError(
            f"bulk batch {request.sequence} was applied before, and would be refused as the table is now: {refusal}"
        )

    def _put(
        self, batch: pa.Table, request: RequestId | None, options: WriteOptions, done: Callable[[BulkOutcome], None]
    ) -> bool:
        """False: what the batch was arranged by has changed since, and nothing was done."""
        record: BulkRecord | None = None
        with self._pacing.permit(deadline=options.deadline) as permit:
            table = self._stores.served.table
            durability = table.durability_of(options.durability)
            is_logged = durability is not Durability.SKIP
            stamp = self._numbering.stamp(options.deadline)
            cells = arrange(batch, table, self._config, self._numbering.timestamp_max, stamp)
            for row in (cells.first_row, cells.last_row):
                check_in_region(row, self._start, self._stop, self._region_id)
            self._memory.check(cells.byte_count)
            is_large = cells.byte_count >= self._config.bulk_file_bytes_min
            self._log.check_space(2 * cells.byte_count + 4096 if is_logged and not is_large else 4096)
            if is_logged:
                record = self._written(cells, request, permit) if is_large else _inline(cells, request)
        try:
            applied = self._pass_gate(table, cells, request, record, durability, options.deadline, as_segments=is_large)
        except BaseException:
            self._remove_unless_logged(record)
            raise
        if applied is None or applied.is_repeated:
            self._remove_unless_logged(record)
        if applied is None:
            return False
        outcome: BulkOutcome = BulkResult(cells.cell_count, cells.row_count, applied.stamp, applied.is_repeated)
        if applied.refusal is not None:
            outcome = applied.refusal
        self._mvcc.when_published(applied.write_number, partial(_tell, done, outcome))
        return True

    def _pass_gate(
        self,
        table: Table,
        cells: BulkCells,
        request: RequestId | None,
        record: BulkRecord | None,
        durability: Durability,
        deadline: float,
        *,
        as_segments: bool,
    ) -> _Applied | None:
        """Step 3; None when what the cells were arranged by has changed."""
        while True:
            with self._gate.exclusive(deadline):
                if self._stores.served.table is not table:
                    return None
                if request is not None and (before := self._applied_before(request, cells.first_row)) is not None:
                    return before
                if cells.is_stamped:
                    self._numbering.pass_over_cells()  # Their rows are not read.
                stamp = self._numbering.next_stamp()
                if stamp is not None:
                    if not cells.is_in_order_at(stamp):
                        return None
                    return self._apply(cells, stamp, request, record, durability, as_segments=as_segments)
            self._numbering.wait_for_stamp(deadline)

    def _applied_before(self, request: RequestId, first_row: bytes) -> _Applied | None:
        """The answer to an earlier request with this id, or why it is unknown; None when there was none."""
        try:
            kept = self._requests.find(request, first_row, is_bulk=True)
        except RegionServerError as error:
            return _Applied(0, 0, is_repeated=True, refusal=error.without_frames())
        if kept is None:
            return None
        if isinstance(kept.outcome, RegionServerError):
            return _Applied(kept.write_number, 0, is_repeated=True, refusal=kept.outcome)
        return _Applied(kept.write_number, kept.outcome.timestamp, is_repeated=True)

    def _written(self, cells: BulkCells, request: RequestId | None, permit: Permit) -> BulkRecord:
        """The cells in a bulk file, which is durable before the batch is logged.

        Also when the batch asks for less than `fsync`: the next writer's sync makes the record durable, and a record
        whose file is lost would be damage, not a lost batch.
        """
        if self._files.free_bytes(self._folder) < cells.byte_count + self._config.disk_free_bytes_min:
            raise self._disk_full(cells)  # What is left is for flushes.
        try:
            written = write_bulk_file(self._files, self._folder, self._numbers.next(), cells.tables, permit.released)
        except DiskFullError as error:
            raise self._disk_full(cells) from error
        except OSError as error:
            self._on_fatal(error)
            raise
        return BulkRecord(
            stamp=0,
            cell_count=cells.cell_count,
            row_count=cells.row_count,
            first_row=cells.first_row,
            request=request,
            file_number=written.number,
            file_bytes=written.byte_count,
            file_checksum=written.checksum,
        )

    def _disk_full(self, cells: BulkCells) -> DiskFullError:
        return DiskFullError(
            f"no space for a bulk file of {cells.byte_count} bytes in {self._folder}; nothing was changed. Free some: "
            "writes go on by themselves",
            retry_after_ms=self._config.retry_after_ms,
        )

    def _apply(
        self,
        cells: BulkCells,
        stamp: int,
        request: RequestId | None,
        record: BulkRecord | None,
        durability: Durability,
        *,
        as_segments: bool,
    ) -> _Applied:
        """BEGIN, APPEND and APPLY, with the gate held alone. Without a record nothing is logged."""
        payload = b"" if record is None else replace(record, stamp=stamp).encode()

        def apply(write_number: int) -> TakeBack:
            return self._applier.apply_early(cells.tables, write_number, stamp, as_segments=as_segments)

        write_number = self._commit.commit_applied(KIND_BULK, payload, durability, apply)
        if record is not None and record.file_number:
            self._bulk_files.add(record.file_number, write_number)
        if request is not None:
            self._requests.keep(request, cells.first_row, write_number, RowResult(timestamp=stamp), is_bulk=True)
        return _Applied(write_number, stamp)

    def _remove_unless_logged(self, record: BulkRecord | None) -> None:
        """A record that is in the log names its file, also when applying it failed."""
        if record is not None and record.file_number and record.file_number not in self._bulk_files:
            self._files.remove_if_there(bulk_file_path(self._folder, record.file_number))


def _inline(cells: BulkCells, request: RequestId | None) -> BulkRecord:
    data = b"".join(part if isinstance(part, bytes) else part.to_pybytes() for part in encode_tables(cells.tables))
    return BulkRecord(
        stamp=0,
        cell_count=cells.cell_count,
        row_count=cells.row_count,
        first_row=cells.first_row,
        request=request,
        cells=data,
    )


def _tell(done: Callable[[BulkOutcome], None], result: BulkOutcome, failure: UnknownOutcomeError | None) -> None:
    done(result if failure is None else failure)
