"""The write path: how one row is changed atomically.

A row mutation is atomic over all its families. Its steps, in this order:

1. CHECK             table, families, sizes, range; memory and disk below their limits. Nothing has changed yet. A
                     mutation that grows large by what COMPARE reads is checked again before 5.
2. LOCK              the gate shared, then the row locks in ascending order of row. A request for many rows takes steps
                     2 to 7 for a few rows at a time (gate_batches.py).
3. COMPARE           request ids, conditions, increments: read the row's newest state, unpublished writes included
                     (reading_changes.py). A put without a condition reads nothing.
4. STAMP             timestamps for cells without one, never below what COMPARE read. A call gets one stamp after it has
                     locked its rows. If it must wait for the stamp (stamps.py), it releases the locks and repeats 2.
5. BEGIN + APPEND    under the log's order lock: take the write number, append the log record.
6. APPLY             into the memstores, still under the order lock: the thread that swaps the log's buffer to sync it
                     finds the cells of every record in it applied, so it may publish a synced number at once.
                     A bulk batch, or a row's mutation of very many puts, holds the gate exclusively and applies before
                     it appends: no other write can take the next number, and no reader sees the cells until 9.
7. UNLOCK            row locks and gate. The log is not synced yet: one sync carries many writers, even of one row.
8. SYNC              the log thread makes the record as durable as requested (group commit). A single caller waits for
                     a sync briefly (brief_wait.py). If nobody waits for a sync, a call that may not wait writes the
                     records itself: it has claimed the log before 1 (wal/pending.py).
9. PUBLISH           the thread that did 8 completes the number; the read point advances over completed numbers without
                     a gap. The answer is sent when the read point has reached this write.

Invariants
- Unpublished writes are never revealed. An outcome that comes from reading alone (an unmet condition, an overflow, a
  repeated request id) waits until the newest write that it read is published. If that never happens, it is unknown.
- The region saves each definite outcome for its request id, refusals too, so that a late copy of the request gets the
  same answer.
- If APPEND fails, nothing was applied, and the number completes empty. After APPLY only the holder of the log's writing
  role completes numbers. Steps 5 to 9 can't be cancelled by a deadline or a lost client.
- A failed sync is final: no later write is acknowledged, and every waiting caller gets "unknown outcome".
- The write path holds no lock while it waits for a disk, except in COMPARE, which may read a block of a store file.

Example. Two increments of one row, from 5 by 1 each, at read point 9:

    A  LOCK  COMPARE 5  BEGIN 10  APPEND  APPLY 6  UNLOCK . . . . . . . . . . SYNC  PUBLISH 10 -> "6"
    B          (waits for the row lock)            LOCK  COMPARE 6  BEGIN 11  APPLY 7  UNLOCK . SYNC  PUBLISH 11 -> "7"

B reads A's unpublished 6, and that is right: B's own number is later, so B is never published without A.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.commit.commit import Commit
from rowlock_regionserver.commit.numbering import Numbering
from rowlock_regionserver.errors import RegionServerError, UnknownOutcomeError
from rowlock_regionserver.memstore.row_segment import CELL_BYTES
from rowlock_regionserver.operations import RowMutation, RowOutcome, RowResult, WriteOptions
from rowlock_regionserver.region.check import check_in_region, check_mutation
from rowlock_regionserver.region.idempotency.answer_size import cell_budget
from rowlock_regionserver.region.idempotency.repeated import is_definite_without_change, repeated
from rowlock_regionserver.region.mutate.brief_wait import BriefWait
from rowlock_regionserver.region.mutate.conditional import (
    families_read,
    reads_whole_rows,
)
from rowlock_regionserver.region.mutate.gate_batches import distinct_ascending, next_gate_batch
from rowlock_regionserver.region.mutate.reading_changes import PendingOutcome, ReadingChanges
from rowlock_regionserver.region.mutate.row_changer import are_puts, only_puts
from rowlock_regionserver.region.mutate.row_commit import RowCommit
from rowlock_regionserver.region.region_parts import RegionParts
from rowlock_regionserver.region.stores import INLINE_CELLS_MAX, row_cell_count, view_in_memory
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.log import Log

Done = Callable[[list[RowOutcome]], None]
DoneEach = Callable[[list[int], list[RowOutcome]], None]

# Upper bound of a mutation's log bytes beyond its cells' own bytes.
_RECORD_OVERHEAD_BYTES = 256


class WritePath:
    """Changes the rows of one region. Thread-safe."""

    def __init__(self, parts: RegionParts, numbering: Numbering, commit: Commit, log: Log) -> None:
        self._region_id = parts.region_id
        self._start, self._stop = parts.start, parts.stop
        self._stores = parts.stores
        self._mvcc = parts.mvcc
        self._gate = parts.gate
        self._idempotency = parts.idempotency
        self._memory = parts.shared.memory
        self._commit = RowCommit(parts, commit, log)
        self._reading = ReadingChanges(parts, numbering, self._commit)
        self._row_locks = parts.row_locks
        self._numbering = numbering
        self._log = log
        self._region_log = parts.log
        self._config = parts.shared.config
        self._clock = parts.shared.clock
        self._pacing = parts.shared.pacing

    def mutate(self, mutations: Sequence[RowMutation], options: WriteOptions, done: Done, *, may_wait: bool) -> bool:
        """Makes each row mutation, in order; calls `done` once with their outcomes, when all are published.

        `done` is called from any thread, perhaps before this returns. Returns False, and never calls `done`, if the
        call would have to wait for a lock or a disk and `may_wait` is False; then nothing was done. Raises
        RegionServerError for a failure of the whole batch; then nothing was changed.
        """
        if may_wait:
            return self._mutate(mutations, options, done, may_wait=True)
        wait = BriefWait(done) if options.is_alone and self._log.is_quick and self._syncs(options) else None
        with self._log.claim_writing():
            is_begun = self._mutate(mutations, options, done if wait is None else wait.set_outcome, may_wait=False)
        if wait is not None and is_begun:
            began = self._clock.monotonic()
            wait.end()
            self._pacing.note_sync_wait(self._clock.monotonic() - began)
        return is_begun

    def _syncs(self, options: WriteOptions) -> bool:
        """Whether the changes wait for a sync. If not, this thread mostly writes them itself."""
        return self._stores.served.table.durability_of(options.durability) is Durability.FSYNC

    def mutate_each(self, mutations: Sequence[RowMutation], options: WriteOptions, done: DoneEach) -> bool:
        """Makes row mutations of several requests, in order, each as `mutate` makes it; never waits.

        Calls `done` with indices into `mutations` and their outcomes, at most twice: for those that depend on no
        unpublished write, then for the others when all of them are published. Returns False, or raises, as `mutate`.
        """
        with self._log.claim_writing():
            pending = self._make(mutations, options, may_wait=False, is_one_answer=False)
            if pending is None:
                return False
            read_point = self._mvcc.read_point
            published = [i for i in range(len(mutations)) if pending[i][1] <= read_point]
            if published:
                done(published, [pending[i][0] for i in published])
            if len(published) < len(mutations):
                later = [i for i in range(len(mutations)) if pending[i][1] > read_point]
                self.notify_when_published(partial(done, later), [pending[i] for i in later])
            return True

    def make(self, mutations: Sequence[RowMutation], options: WriteOptions) -> dict[int, PendingOutcome]:
        """Makes each row mutation, in order, up to step 7. Returns outcomes by index. Blocks; raises as `mutate`."""
        pending = self._make(mutations, options, may_wait=True, is_one_answer=True)
        assert pending is not None, "a call that may wait returned without waiting"
        return pending

    def _mutate(self, mutations: Sequence[RowMutation], options: WriteOptions, done: Done, *, may_wait: bool) -> bool:
        """Takes steps 1 to 7, and registers `done` for 9."""
        pending = self._make(mutations, options, may_wait=may_wait, is_one_answer=True)
        if pending is None:
            return False
        self.notify_when_published(done, [pending[i] for i in range(len(mutations))])
        return True

    def notify_when_published(self, done: Done, pending: Sequence[PendingOutcome]) -> None:
        """Calls `done` once with these outcomes, when the writes that they depend on are published."""
        newest = max([number for _, number, _ in pending], default=0)
        self._mvcc.when_published(newest, partial(self._notify, done, pending))

    def _notify(self, done: Done, pending: Sequence[PendingOutcome], failure: UnknownOutcomeError | None) -> None:
        """9 PUBLISH: sends the answers; "unknown outcome" to those that made or read a write never published."""
        if failure is None:
            done([outcome for outcome, _, _ in pending])
        else:
            published = self._mvcc.read_point
            done([failure if number > published else outcome for outcome, number, _ in pending])

    def _make(
        self, mutations: Sequence[RowMutation], options: WriteOptions, *, may_wait: bool, is_one_answer: bool
    ) -> dict[int, PendingOutcome] | None:
        """Takes steps 1 to 7. Returns the outcomes by index; None if it would have to wait and may not.

        `is_one_answer`: the cells of all answers must fit in one message. If some mutations were made and a later one
        fails as a whole, by a deadline say, each of the remaining ones gets that error as its outcome.
        """
        pending: dict[int, PendingOutcome] = {}
        refused: dict[int, RegionServerError] = {}
        budget = self._config.request_bytes_max
        if is_one_answer and len(mutations) > 1:
            budget = cell_budget(mutations, budget)
        remaining: Sequence[int] = range(len(mutations))
        table: Table | None = None
        durability = Durability.FSYNC
        is_begun = False
        try:
            while remaining:
                served = self._stores.served.table
                if table is not served:  # Not checked yet, or altered since CHECK: check against the current families.
                    table = served
                    durability = table.durability_of(options.durability)
                    refused.clear()
                    remaining = self._check(mutations, remaining, table, pending, refused)
                    continue
                batch, is_exclusive = next_gate_batch(mutations, remaining) if may_wait else (remaining, False)
                rows = distinct_ascending([mutations[i].row for i in batch])
                stamp = self._lock_and_stamp(rows, options.deadline, may_wait=may_wait, is_exclusive=is_exclusive)
                if stamp is None:
                    return None
                try:
                    if self._stores.served.table is not table:
                        continue
                    if not may_wait and not self._is_quick(mutations, batch, stamp):
                        return None
                    is_begun = True
                    for i in batch:
                        pending[i] = self._change_row(
                            table, mutations[i], refused.get(i), stamp, durability, budget, is_exclusive=is_exclusive
                        )
                        if is_one_answer:
                            budget = min(budget - pending[i][2], self._config.request_bytes_max)
                finally:
                    self._unlock(rows, is_exclusive=is_exclusive)
                remaining = remaining[len(batch) :]
        except RegionServerError as error:
            if not is_begun:
                raise
            # Those of its batch that were made keep their outcomes.
            pending.update((i, (error.without_frames(), 0, 0)) for i in remaining if i not in pending)
        return pending

    def _check(
        self,
        mutations: Sequence[RowMutation],
        indices: Sequence[int],
        table: Table,
        pending: dict[int, PendingOutcome],
        refused: dict[int, RegionServerError],
    ) -> list[int]:
        """1 CHECK of the mutations at these indices. Returns those that continue; errors of the others go to `pending`.

        A mutation with an error in `refused` continues too: an earlier copy of the request may have another answer.
        """
        timestamp_max = self._numbering.timestamp_max
        checked: list[int] = []
        byte_count = cell_count = 0
        for i in indices:
            mutation = mutations[i]
            try:
                byte_count += check_mutation(mutation, table, self._config, timestamp_max) + _RECORD_OVERHEAD_BYTES
                check_in_region(mutation.row, self._start, self._stop, self._region_id)
            except RegionServerError as error:
                if mutation.request is None or error.can_retry:
                    pending[i] = error.without_frames(), 0, 0
                else:
                    refused[i] = error.without_frames()
                    checked.append(i)
            else:
                checked.append(i)
                cell_count += len(mutation.changes)
        if byte_count:
            self._memory.check(byte_count + cell_count * CELL_BYTES)
            self._region_log.check_space(byte_count)
        return checked

    def _lock_and_stamp(
        self, rows: Sequence[bytes], deadline: float, *, may_wait: bool, is_exclusive: bool
    ) -> int | None:
        """2 LOCK, and the stamp for 4. Returns None, with nothing locked, if it would have to wait and may not."""
        while self._lock(rows, deadline, may_wait=may_wait, is_exclusive=is_exclusive):
            stamp = self._numbering.next_stamp()
            if stamp is not None:
                return stamp
            self._unlock(rows, is_exclusive=is_exclusive)
            if not may_wait:
                return None
            self._numbering.wait_for_stamp(deadline)
        return None

    def _lock(self, rows: Sequence[bytes], deadline: float, *, may_wait: bool, is_exclusive: bool) -> bool:
        """2 LOCK. Returns False if it would have to wait and may not. With the gate held exclusively, locks no row."""
        if is_exclusive:
            self._gate.enter_exclusive(deadline)
            return True
        if may_wait:
            self._gate.enter(deadline)
            try:
                self._row_locks.acquire(rows, deadline)
            except BaseException:
                self._gate.leave()
                raise
            return True
        if not self._gate.try_enter():
            return False
        if not self._row_locks.try_acquire(rows):
            self._gate.leave()
            return False
        return True

    def _unlock(self, rows: Sequence[bytes], *, is_exclusive: bool) -> None:
        """7 UNLOCK."""
        if is_exclusive:
            self._gate.leave_exclusive()
            return
        self._row_locks.release(rows)
        self._gate.leave()

    def _is_quick(self, mutations: Sequence[RowMutation], checked: Sequence[int], stamp: int) -> bool:
        """Whether COMPARE of these mutations reads no block from a disk, and not many cells."""
        _, view, lookups = self._stores.served
        reads_all = self._numbering.reads_rows(stamp)
        if self._stores.has_files and not all(
            view_in_memory(lookups, mutations[i].row, None if reads_all else families_read(mutations[i])) is not None
            for i in checked
        ):
            return False
        whole_rows = [mutations[i].row for i in checked if reads_all or reads_whole_rows(mutations[i])]
        return not whole_rows or sum(row_cell_count(view, row) for row in whole_rows) <= INLINE_CELLS_MAX

    def _change_row(
        self,
        table: Table,
        mutation: RowMutation,
        refusal: RegionServerError | None,
        stamp: int,
        durability: Durability,
        budget: int,
        *,
        is_exclusive: bool,
    ) -> PendingOutcome:
        """Takes steps 3 to 6 for one row, whose lock is held. An error concerns this row only, and changed nothing.

        `refusal`: the error that CHECK found. `budget`: how many bytes the cells in the answer may take.
        `is_exclusive`: the gate is held exclusively, for a long mutation.
        """
        request = mutation.request
        if request is not None:
            try:
                saved = self._idempotency.find(request, mutation.row)
            except RegionServerError as error:
                return error.without_frames(), 0, 0
            if saved is not None:
                return repeated(request, saved, budget)
        if (
            refusal is None
            and not self._numbering.reads_rows(stamp)
            and mutation.condition is None
            and are_puts(mutation.changes)
        ):
            result = RowResult(timestamp=stamp)
            commit = self._commit.commit_exclusive if is_exclusive else self._commit.commit
            try:
                cells = only_puts(mutation.changes, table.by_name, stamp)
                return result, commit(table, mutation.row, cells, request, result, durability), 0
            except RegionServerError as error:
                return error.without_frames(), 0, 0
        if refusal is None:
            pending = self._reading.change(table, mutation, stamp, durability, budget)
        else:
            pending = refusal, 0, 0
        outcome, write_number, _ = pending
        if request is not None and is_definite_without_change(outcome):
            # Saved in memory: if the answer is lost and a copy of the request is still waiting on a broken stream, that
            # copy must not be applied after the client got this answer to another copy.
            self._idempotency.save(request, mutation.row, write_number, outcome)
        return pending
