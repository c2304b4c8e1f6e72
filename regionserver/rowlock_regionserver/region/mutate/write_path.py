"""The write path: how one row is changed, whole or not at all.

A row mutation is atomic over all its families. Its steps, in this order:

1. CHECK             table, families, sizes, range; memory and disk below their limits. Nothing is changed yet. What
                     turns out large only with what COMPARE read is judged once more before 5.
2. LOCK              the gate shared, then the row locks in ascending order of row. A request of many rows takes steps
                     2 to 7 for a few of them at a time.
3. COMPARE           request ids, conditions, increments: read the row's newest state, also what is not published.
4. STAMP             timestamps for cells without one; never below what COMPARE read. A call gets one stamp, once its
                     rows are locked. If it must wait for the stamp (stamps.py), it releases the locks and repeats 2.
5. BEGIN + APPEND    under the log's order lock: take the write number, append the log record.
6. APPLY             into the memstores, still under the order lock: whoever swaps the log's buffer to sync it finds
                     the cells of every record in it applied, so a synced number may be published at once.
                     A bulk batch, or a row's mutation of very many puts, holds the gate alone and goes 6, 5: nobody
                     else has the next number, and nobody sees the cells before it is published.
7. UNLOCK            row locks and gate. The log is not synced yet: one sync carries many writers, even of one row.
8. SYNC              the log's thread makes the record as durable as was asked (group commit). A caller that is alone
                     waits for it for a moment (brief_wait.py).
9. PUBLISH           that thread completes the number; the read point moves over completed numbers without a hole. The
                     answer goes out when the read point has reached this write.

Invariants
- Nothing unpublished is revealed. An outcome that comes from reading alone (a condition that is not met, an overflow, a
  repeated request id) waits until the newest write that it read is published. If that never happens, it is unknown.
- The region keeps each definite outcome for its request id, refusals too, so that a late copy of the request gets the
  same answer.
- If APPEND fails, nothing was applied, and the number completes empty. After APPLY only the log's thread completes
  numbers. Steps 5 to 9 can't be cancelled by a deadline or a lost client.
- A failed sync is final: nothing after it is acknowledged, whoever waits is told "unknown outcome".
- Nothing here holds a lock while it waits for a disk, but for COMPARE, which may read a block of a store file.

Example. Two increments of one row, from 5 by 1 each, at read point 9:

    A  LOCK  COMPARE 5  BEGIN 10  APPEND  APPLY 6  UNLOCK . . . . . . . . . . SYNC  PUBLISH 10 -> "6"
    B          (waits for the row lock)            LOCK  COMPARE 6  BEGIN 11  APPLY 7  UNLOCK . SYNC  PUBLISH 11 -> "7"

B reads A's unpublished 6, and that is right: B's own number is later, so B is never published without A.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.commit.commit import Commit
from rowlock_regionserver.commit.numbering import Numbering
from rowlock_regionserver.errors import RegionServerError, UnknownOutcomeError
from rowlock_regionserver.memstore.segment import CELL_BYTES
from rowlock_regionserver.operations import (
    Change,
    RowMutation,
    RowOutcome,
    RowResult,
    WriteOptions,
)
from rowlock_regionserver.region.idempotency.answer_size import AnswerSize, room_for_cells
from rowlock_regionserver.region.idempotency.repeated import is_definite_without_change, repeated
from rowlock_regionserver.region.mutate.brief_wait import BriefWait
from rowlock_regionserver.region.mutate.changes import RowChanger, are_puts, only_puts
from rowlock_regionserver.region.mutate.check import check_in_region, check_mutation
from rowlock_regionserver.region.mutate.conditional import (
    NewestRow,
    changed_timestamp_max,
    compare,
    families_read,
    reads_whole_rows,
)
from rowlock_regionserver.region.mutate.gate_batches import distinct_ascending, next_gate_batch
from rowlock_regionserver.region.mutate.row_commit import RowCommit
from rowlock_regionserver.region.mutate.row_state import RowState
from rowlock_regionserver.region.region_parts import RegionParts
from rowlock_regionserver.region.stores import INLINE_CELLS_MAX, is_row_in_memory, row_cell_count
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.log import Log

Done = Callable[[list[RowOutcome]], None]
DoneEach = Callable[[list[int], list[RowOutcome]], None]
# An outcome, the write number that must be published before it is told, and what its cells take in the answer.
Told = tuple[RowOutcome, int, int]

# Log bytes of a mutation beyond its cells' own bytes, generously.
_RECORD_OVERHEAD_BYTES = 256


class WritePath:
    """Changes the rows of one region. Thread-safe."""

    def __init__(
        self,
        parts: RegionParts,
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
        self._commit = RowCommit(parts, commit, log)
        self._row_locks = parts.row_locks
        self._numbering = numbering
        self._log = log
        self._config = parts.shared.config
        self._clock = parts.shared.clock

    def mutate(self, mutations: Sequence[RowMutation], options: WriteOptions, done: Done, *, may_wait: bool) -> bool:
        """Makes each row mutation, in order; `done` gets their outcomes, once, when all are published.

        `done` is called from any thread, perhaps before this returns. False: nothing was done and `done` will not be
        called, because it would have had to wait for a lock or a disk and `may_wait` was False. Raises
        RegionServerError for what concerns the whole batch; then nothing was changed.
        """
        if may_wait or not options.is_alone or not self._log.is_quick:
            return self._mutate(mutations, options, done, may_wait=may_wait)
        wait = BriefWait(done)
        self._log.hold()
        try:
            is_begun = self._mutate(mutations, options, wait.told, may_wait=False)
        finally:
            self._log.release()
        if is_begun:
            wait.end()
        return is_begun

    def mutate_each(self, mutations: Sequence[RowMutation], options: WriteOptions, done: DoneEach) -> bool:
        """Makes row mutations of several requests, in order, each as `mutate` makes it; never waits.

        `done` gets the places of some in `mutations`, and their outcomes: first of those that nothing has to be
        published for, then of the others, when all are. False, or an error: nothing was done, as with `mutate`.
        """
        told = self._make(mutations, options, may_wait=False, is_one_answer=False)
        if told is None:
            return False
        read_point = self._mvcc.read_point
        at_once = [i for i in range(len(mutations)) if told[i][1] <= read_point]
        if at_once:
            done(at_once, [told[i][0] for i in at_once])
        if len(at_once) < len(mutations):
            later = [i for i in range(len(mutations)) if told[i][1] > read_point]
            self._notify_when_published(partial(done, later), [told[i] for i in later])
        return True

    def _mutate(self, mutations: Sequence[RowMutation], options: WriteOptions, done: Done, *, may_wait: bool) -> bool:
        """Steps 1 to 7, and who is told at 9."""
        told = self._make(mutations, options, may_wait=may_wait, is_one_answer=True)
        if told is None:
            return False
        self._notify_when_published(done, [told[i] for i in range(len(mutations))])
        return True

    def _notify_when_published(self, done: Done, told: Sequence[Told]) -> None:
        newest = max([number for _, number, _ in told], default=0)
        self._mvcc.when_published(newest, partial(self._tell, done, told))

    def _tell(self, done: Done, told: Sequence[Told], failure: UnknownOutcomeError | None) -> None:
        """9 PUBLISH: the answers go out; "unknown outcome" for those that made or read what never will be published."""
        if failure is None:
            done([outcome for outcome, _, _ in told])
        else:
            published = self._mvcc.read_point
            done([failure if number > published else outcome for outcome, number, _ in told])

    def _make(
        self, mutations: Sequence[RowMutation], options: WriteOptions, *, may_wait: bool, is_one_answer: bool
    ) -> dict[int, Told] | None:
        """Steps 1 to 7. What is to be told of each mutation, by its place; None when it would have to wait.

        `is_one_answer`: the cells that all of them answer must have room in one message. When some were made and the
        next ones can't be, for a deadline say, that is the outcome of each of these.
        """
        told: dict[int, Told] = {}
        refused: dict[int, RegionServerError] = {}
        room = self._config.request_bytes_max
        if is_one_answer and len(mutations) > 1:
            room = room_for_cells(mutations, room)
        left: Sequence[int] = range(len(mutations))
        table: Table | None = None
        durability = Durability.FSYNC
        is_begun = False
        try:
            while left:
                served = self._stores.served.table
                if table is not served:  # Or altered since CHECK: judge by the families that there are now.
                    table = served
                    durability = table.durability_of(options.durability)
                    refused.clear()
                    left = self._check(mutations, left, table, told, refused)
                    continue
                stay, is_alone = next_gate_batch(mutations, left) if may_wait else (left, False)
                rows = distinct_ascending([mutations[i].row for i in stay])
                stamp = self._lock_and_stamp(rows, options.deadline, may_wait=may_wait, is_alone=is_alone)
                if stamp is None:
                    return None
                try:
                    if self._stores.served.table is not table:
                        continue
                    if not may_wait and not self._is_quick(mutations, stay, stamp):
                        return None
                    is_begun = True
                    for i in stay:
                        told[i] = self._change_row(
                            table, mutations[i], refused.get(i), stamp, durability, room, is_alone=is_alone
                        )
                        if is_one_answer:
                            room = min(room - told[i][2], self._config.request_bytes_max)
                finally:
                    self._unlock(rows, is_alone=is_alone)
                left = left[len(stay) :]
        except RegionServerError as error:
            if not is_begun:
                raise
            told.update((i, (error.without_frames(), 0, 0)) for i in left)
        return told

    def _check(
        self,
        mutations: Sequence[RowMutation],
        places: Sequence[int],
        table: Table,
        told: dict[int, Told],
        refused: dict[int, RegionServerError],
    ) -> list[int]:
        """1 CHECK of the mutations at these places. Those that continue; the others' errors are put into `told`.

        Mutations with an error in `refused` continue too: an earlier copy of the request may have another answer.
        """
        timestamp_max = self._numbering.timestamp_max
        checked: list[int] = []
        byte_count = cell_count = 0
        for i in places:
            mutation = mutations[i]
            try:
                byte_count += check_mutation(mutation, table, self._config, timestamp_max) + _RECORD_OVERHEAD_BYTES
                check_in_region(mutation.row, self._start, self._stop, self._region_id)
            except RegionServerError as error:
                if mutation.request is None or error.can_retry:
                    told[i] = error.without_frames(), 0, 0
                else:
                    refused[i] = error.without_frames()
                    checked.append(i)
            else:
                checked.append(i)
                cell_count += len(mutation.changes)
        if byte_count:
            self._memory.check(byte_count + cell_count * CELL_BYTES)
            self._log.check_space(byte_count)
        return checked

    def _lock_and_stamp(self, rows: Sequence[bytes], deadline: float, *, may_wait: bool, is_alone: bool) -> int | None:
        """2 LOCK, and the stamp for 4. None when it would have to wait and may not; then nothing is locked."""
        while self._lock(rows, deadline, may_wait=may_wait, is_alone=is_alone):
            stamp = self._numbering.next_stamp()
            if stamp is not None:
                return stamp
            self._unlock(rows, is_alone=is_alone)
            if not may_wait:
                return None
            self._numbering.wait_for_stamp(deadline)
        return None

    def _lock(self, rows: Sequence[bytes], deadline: float, *, may_wait: bool, is_alone: bool) -> bool:
        """2 LOCK. False when it would have to wait and may not. A caller alone inside the gate needs no row lock."""
        if is_alone:
            self._gate.enter_alone(deadline)
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

    def _unlock(self, rows: Sequence[bytes], *, is_alone: bool) -> None:
        """7 UNLOCK."""
        if is_alone:
            self._gate.leave_alone()
            return
        self._row_locks.release(rows)
        self._gate.leave()

    def _is_quick(self, mutations: Sequence[RowMutation], checked: Sequence[int], stamp: int) -> bool:
        """COMPARE of these will read no block from a disk, and not many cells."""
        view = self._stores.view
        reads_all = self._numbering.reads_rows(stamp)
        if self._stores.has_files and not all(
            is_row_in_memory(view, mutations[i].row, None if reads_all else families_read(mutations[i]))
            for i in checked
        ):
            return False
        whole = [mutations[i].row for i in checked if reads_all or reads_whole_rows(mutations[i])]
        return not whole or sum(row_cell_count(view, row) for row in whole) <= INLINE_CELLS_MAX

    def _change_row(
        self,
        table: Table,
        mutation: RowMutation,
        refusal: RegionServerError | None,
        stamp: int,
        durability: Durability,
        room: int,
        *,
        is_alone: bool,
    ) -> Told:
        """Steps 3 to 6 for one row, whose lock is held. An error concerns this row only, and changed nothing.

        `refusal`: what CHECK found. `room`: what the cells that are answered may take. `is_alone`: inside the gate,
        with a long mutation.
        """
        request = mutation.request
        if request is not None:
            try:
                kept = self._requests.find(request, mutation.row)
            except RegionServerError as error:
                return error.without_frames(), 0, 0
            if kept is not None:
                return repeated(request, kept, room)
        if (
            refusal is None
            and not self._numbering.reads_rows(stamp)
            and mutation.condition is None
            and are_puts(mutation.changes)
        ):
            result = RowResult(timestamp=stamp)
            commit = self._commit.commit_alone if is_alone else self._commit.commit
            try:
                cells = only_puts(mutation.changes, table.by_name, stamp)
                return result, commit(table, mutation.row, cells, request, result, durability), 0
            except RegionServerError as error:
                return error.without_frames(), 0, 0
        if refusal is None:
            told = self._read_and_change(table, mutation, stamp, durability, room)
        else:
            told = refusal, 0, 0
        outcome, write_number, _ = told
        if request is not None and is_definite_without_change(outcome):
            # Kept in memory: if the answer is lost and a copy of the request is still waiting on a broken stream, that
            # copy must not be applied after the client got this answer to another copy.
            self._requests.keep(request, mutation.row, write_number, outcome)
        return told

    def _read_and_change(
        self, table: Table, mutation: RowMutation, stamp: int, durability: Durability, room: int
    ) -> Told:
        """The same for a mutation that reads the row."""
        state = RowState(self._stores.view, mutation.row, self._mvcc.read_point)
        if self._numbering.reads_rows(stamp):
            cells_of_row = itertools.chain.from_iterable(map(state.family_cells, table.families))
            stamp = self._numbering.stamp_later_than(mutation.row, cells_of_row, stamp)
        try:
            return self._compare_and_change(table, mutation, state, stamp, durability, room)
        except RegionServerError as error:
            # What was read may be unpublished, and the error tells of it.
            return error.without_frames(), state.newest_write_number, 0

    def _compare_and_change(
        self, table: Table, mutation: RowMutation, state: RowState, stamp: int, durability: Durability, room: int
    ) -> tuple[RowResult, int, int]:
        """3 COMPARE and 4 STAMP for mutations that read the row."""
        now_ms = self._clock.now_ms()
        changes: Sequence[Change] = mutation.changes
        is_met = True
        seen: tuple[tuple[bytes, bytes, int, bytes], ...] = ()
        read_timestamp_max = 0
        answer = AnswerSize(mutation.row, room, self._config.request_bytes_max)
        if mutation.condition is not None:
            newest = NewestRow(state, table.by_name, now_ms)
            comparison = compare(mutation.condition, mutation.row, newest, answer)
            is_met, seen = comparison.is_met, comparison.seen
            changes = mutation.changes if is_met else mutation.otherwise
            read_timestamp_max = max(comparison.timestamp_max, changed_timestamp_max(changes, newest))
        if not changes:
            return RowResult(is_met, seen), state.newest_write_number, answer.byte_count
        stamp = max(stamp, read_timestamp_max)
        changer = RowChanger(mutation.row, table.by_name, state, now_ms, stamp, self._config.cell_bytes_max, answer)
        for change in changes:
            changer.apply(change)
        cells = changer.cells()
        if not cells:  # Deletes of versions that are not there.
            return RowResult(is_met, seen), state.newest_write_number, answer.byte_count
        result = changer.result(seen, condition_met=is_met)
        write_number = self._commit.commit(
            table, mutation.row, cells, mutation.request, result, durability, answer.byte_count
        )
        return result, write_number, answer.byte_count
