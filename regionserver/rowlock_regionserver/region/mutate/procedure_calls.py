"""Calls of row procedures: a change of one row that is computed by an operator's code, under the row's lock.

The steps have the names and the order of write_path.py:

0.                   a process for the procedure, before anything is locked (procedures/runner.py)
1 CHECK              the row and the argument; memory and disk below their limits
2 LOCK               the gate shared, then the row's lock; and a stamp
3 COMPARE            the request id, then the procedure: it reads the row's newest state, unpublished writes included,
                     and returns an answer and changes
1 CHECK              again: the changes, as those of any client
4 STAMP to 9 PUBLISH as for a change that reads the row; the log gets the changes and the answer, not the call

Invariants
- No other change of the row comes between the procedure's reads and its changes. The gate is held too, so bulk batches,
  flush switches and table changes wait for at most `procedure_ms_max`.
- The changes are made all together, or none is: they are nothing but values until the procedure has returned.
- The answer is saved with the changes under the request id, so a repetition gets it, and the procedure runs once. If it
  changed nothing, its answer is saved in memory, and after a restart the procedure runs again.
- After its time limit a call changes nothing any more: its process is dead before the row is unlocked.
- Whatever the procedure returns waits for the newest write that it read, so nothing unpublished is revealed.
"""

from __future__ import annotations

import itertools

from rowlock_proto.shown_names import row_text

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.commit.commit import Commit
from rowlock_regionserver.commit.numbering import Numbering
from rowlock_regionserver.errors import LimitExceededError, RegionServerError
from rowlock_regionserver.operations import (
    Delete,
    ProcedureCall,
    ProcedureReply,
    Put,
    RowMutation,
    RowResult,
    WriteOptions,
)
from rowlock_regionserver.procedures.failure import failed
from rowlock_regionserver.procedures.runner import Run, Runner
from rowlock_regionserver.region.check import check_in_region, check_mutation, check_row
from rowlock_regionserver.region.idempotency.answer_size import AnswerSize
from rowlock_regionserver.region.idempotency.repeated import is_definite_without_change, repeated
from rowlock_regionserver.region.mutate.conditional import changed_timestamp_max
from rowlock_regionserver.region.mutate.procedure_reads import CELL_BYTES, ProcedureReads
from rowlock_regionserver.region.mutate.reading_changes import PendingOutcome
from rowlock_regionserver.region.mutate.row_changer import RowChanger
from rowlock_regionserver.region.mutate.row_commit import RowCommit
from rowlock_regionserver.region.mutate.row_state import RowState
from rowlock_regionserver.region.mutate.write_path import Done, WritePath
from rowlock_regionserver.region.region_parts import RegionParts
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.log import Log

# Upper bound of the log bytes of a call beyond its answer and its cells.
_RECORD_BYTES = 512


class ProcedureCalls:
    """Calls procedures for rows of one region. Thread-safe; it waits, so it runs in worker threads."""

    def __init__(
        self, parts: RegionParts, numbering: Numbering, commit: Commit, log: Log, write_path: WritePath
    ) -> None:
        self._region_id = parts.region_id
        self._start, self._stop = parts.start, parts.stop
        self._stores = parts.stores
        self._mvcc = parts.mvcc
        self._gate = parts.gate
        self._row_locks = parts.row_locks
        self._idempotency = parts.idempotency
        self._memory = parts.shared.memory
        self._region_log = parts.log
        self._config = parts.shared.config
        self._clock = parts.shared.clock
        self._numbering = numbering
        self._commit = RowCommit(parts, commit, log)
        self._write_path = write_path

    def call(self, call: ProcedureCall, runner: Runner, options: WriteOptions, done: Done) -> None:
        """Calls the procedure; calls `done` once with its outcome, when that is published. Blocks up to step 7.

        Raises RegionServerError if the procedure was not called; then nothing was changed.
        """
        self._check(call)
        with runner.ready(call.name, options.deadline) as run:
            pending = self._make(call, run, options)
        self._write_path.notify_when_published(done, [pending])

    def _check(self, call: ProcedureCall) -> None:
        """1 CHECK of what is known before the call."""
        check_row(call.row, self._config)
        check_in_region(call.row, self._start, self._stop, self._region_id)
        bytes_max = self._config.procedure_read_bytes_max
        if len(call.argument) > bytes_max:
            raise LimitExceededError(
                f"the argument of procedure {call.name!r} has {len(call.argument)} bytes, more than "
                f"procedure_read_bytes_max = {bytes_max}",
                limit="procedure_read_bytes_max",
                limit_value=bytes_max,
                found=len(call.argument),
                row=call.row,
            )
        self._memory.check(_RECORD_BYTES)
        self._region_log.check_space(_RECORD_BYTES)

    def _make(self, call: ProcedureCall, run: Run, options: WriteOptions) -> PendingOutcome:
        """Takes steps 2 to 7."""
        rows = [call.row]
        while True:
            self._gate.enter(options.deadline)
            try:
                self._row_locks.acquire(rows, options.deadline)
                try:
                    stamp = self._numbering.next_stamp()
                    if stamp is not None:
                        return self._call_once(call, run, stamp, options)
                finally:
                    self._row_locks.release(rows)
            finally:
                self._gate.leave()
            self._numbering.wait_for_stamp(options.deadline)

    def _call_once(self, call: ProcedureCall, run: Run, stamp: int, options: WriteOptions) -> PendingOutcome:
        """Takes steps 3 to 6. The caller holds the gate and the row's lock. Returns errors as outcomes."""
        request = call.request
        if request is not None:
            try:
                saved = self._idempotency.find(request, call.row)
            except RegionServerError as error:
                return error.without_frames(), 0, 0
            if saved is not None:
                return repeated(request, saved, self._config.request_bytes_max)
        table = self._stores.served.table
        state = RowState(self._stores.served.lookups, call.row, self._mvcc.read_point)
        try:
            pending = self._run_and_change(call, run, table, state, stamp, table.durability_of(options.durability))
        except RegionServerError as error:
            # The error may reveal an unpublished write, so it waits for that write.
            pending = error.without_frames(), state.newest_write_number, 0
        outcome, write_number, _ = pending
        if request is not None and is_definite_without_change(outcome):
            self._idempotency.save(request, call.row, write_number, outcome)
        return pending

    def _run_and_change(
        self, call: ProcedureCall, run: Run, table: Table, state: RowState, stamp: int, durability: Durability
    ) -> PendingOutcome:
        if self._numbering.reads_rows(stamp):
            cells_of_row = itertools.chain.from_iterable(map(state.family_cells, table.families))
            stamp = self._numbering.stamp_later_than(call.row, cells_of_row, stamp)
        now_ms = self._clock.now_ms()
        reads = ProcedureReads(call, table, state, now_ms, self._config.procedure_read_bytes_max)
        reply = run(call, table.name, reads.read)
        byte_count = self._check_reply(call, reply, table)
        if not reply.changes:
            return RowResult(answer=reply.answer), state.newest_write_number, len(reply.answer)
        later = max(reads.timestamp_max, changed_timestamp_max(reply.changes, reads.newest))
        answer = AnswerSize(call.row, self._config.request_bytes_max, self._config.request_bytes_max)
        changer = RowChanger(
            call.row, table.by_name, state, now_ms, max(stamp, later), self._config.cell_bytes_max, answer
        )
        for change in reply.changes:
            changer.apply(change)
        cells = changer.cells()
        result = changer.result((), condition_met=True)._replace(answer=reply.answer)
        self._memory.check(byte_count)
        self._region_log.check_space(byte_count + _RECORD_BYTES)
        write_number = self._commit.commit(table, call.row, cells, call.request, result, durability, byte_count)
        return result, write_number, len(reply.answer)

    def _check_reply(self, call: ProcedureCall, reply: ProcedureReply, table: Table) -> int:
        """1 CHECK of what the procedure returned. Returns its bytes. Raises ProcedureFailedError."""
        if reply.row != call.row:
            raise failed(call, f"it changed row {row_text(reply.row)}, and may change only its own")
        byte_count = len(reply.answer)
        for change in reply.changes:
            assert isinstance(change, Put | Delete), change
            byte_count += CELL_BYTES + len(change.family) + len(change.qualifier)
            byte_count += len(change.value) if isinstance(change, Put) else 0
        bytes_max = self._config.procedure_write_bytes_max
        if byte_count > bytes_max:
            raise failed(
                call,
                f"its answer and changes have {byte_count} bytes, {CELL_BYTES} more for each cell, more than "
                f"procedure_write_bytes_max = {bytes_max}",
            )
        if reply.changes:
            try:
                check_mutation(RowMutation(call.row, reply.changes), table, self._config, self._numbering.timestamp_max)
            except RegionServerError as error:
                raise failed(call, error.message) from None
        return byte_count
