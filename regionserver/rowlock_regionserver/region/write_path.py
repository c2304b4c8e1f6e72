"""The write path: how one row is changed, whole or not at all.

A row mutation is atomic over all its families. Its steps, in this order:

1. CHECK             table, families, sizes, range; memory and disk below their limits. Nothing is changed yet. What
                     turns out large only with what COMPARE read is judged once more before 5.
2. LOCK              the gate shared, then the row locks in ascending order of row. A request of many rows takes steps
                     2 to 7 for a few of them at a time.
3. COMPARE           request ids, conditions, increments: read the row's newest state, also what is not published.
4. STAMP             timestamps for cells without one; never below what COMPARE read.
5. BEGIN + APPEND    under the log's order lock: take the write number, append the log record.
6. APPLY             into the memstores, still under the order lock: whoever swaps the log's buffer to sync it finds
                     the cells of every record in it applied, so a synced number may be published at once.
                     A bulk batch, or a row's mutation of very many puts, holds the gate alone and goes 6, 5: nobody
                     else has the next number, and nobody sees the cells before it is published.
7. UNLOCK            row locks and gate. The log is not synced yet: one sync carries many writers, even of one row.
8. SYNC              the log's thread makes the record as durable as was asked (group commit). A caller that is alone
                     does it itself (Log.take_turn), with the locks of 7 let go.
9. PUBLISH           that thread completes the number; the read point moves over completed numbers without a hole. The
                     answer goes out when the read point has reached this write.

Invariants
- Nothing unpublished is revealed. An outcome that comes from reading alone (a condition that is not met, an overflow, a
  repeated request id) waits until the newest write that it read is published.
- If APPEND fails, nothing was applied, and the number completes empty. After APPLY only who writes the log completes
  numbers. Steps 5 to 9 can't be cancelled by a deadline or a lost client.
- A failed sync is final: nothing after it is acknowledged, whoever waits is told "unknown outcome".
- Nothing here holds a lock while it waits for a disk, but for COMPARE, which may read a block of a store file.

Example. Two increments of one row, from 5 by 1 each, at read point 9:

    A  LOCK  COMPARE 5  BEGIN 10  APPEND  APPLY 6  UNLOCK . . . . . . . . . . SYNC  PUBLISH 10 -> "6"
    B          (waits for the row lock)            LOCK  COMPARE 6  BEGIN 11  APPLY 7  UNLOCK . SYNC  PUBLISH 11 -> "7"

B reads A's unpublished 6, and that is right: B's own number is later, so B is never published without A.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.config import KIB
from rowlock_regionserver.errors import RegionServerError, UnknownOutcomeError
from rowlock_regionserver.memstore.segment import CELL_BYTES
from rowlock_regionserver.operations import (
    Change,
    Put,
    RequestId,
    RowMutation,
    RowOutcome,
    RowResult,
    WriteOptions,
)
from rowlock_regionserver.region.answer_size import AnswerSize, bytes_of_cells, room_for_cells
from rowlock_regionserver.region.changes import RowChanger, are_puts, only_puts
from rowlock_regionserver.region.check import check_in_region, check_mutation, check_record
from rowlock_regionserver.region.conditional import NewestRow, compare, families_read
from rowlock_regionserver.region.contents import RegionContents
from rowlock_regionserver.region.numbering import Numbering
from rowlock_regionserver.region.requests import RepeatedAnswer
from rowlock_regionserver.region.row_locks import RowLocks
from rowlock_regionserver.region.row_state import RowState
from rowlock_regionserver.region.stays import distinct_ascending, next_stay
from rowlock_regionserver.region.stores import is_row_in_memory
from rowlock_regionserver.region.table import Table
from rowlock_regionserver.wal.log import Log
from rowlock_regionserver.wal.mutation import KIND_ROW, UnnumberedCell, encode_row, number_cells

Done = Callable[[list[RowOutcome]], None]
DoneEach = Callable[[list[int], list[RowOutcome]], None]
# An outcome, the write number that must be published before it is told, and what its cells take in the answer.
Told = tuple[RowOutcome, int, int]

# Log bytes of a mutation beyond its cells' own bytes, generously.
_RECORD_OVERHEAD_BYTES = 256
# While the cells that a change answers take less, its record is about as large as CHECK could know.
_ANSWER_BYTES_SMALL = 16 * KIB


class WritePath:
    """Changes the rows of one region. Thread-safe."""

    def __init__(
        self,
        contents: RegionContents,
        row_locks: RowLocks,
        numbering: Numbering,
        log: Log,
    ) -> None:
        self._region_id = contents.region_id
        self._start, self._stop = contents.start, contents.stop
        self.table = contents.table  # Replaced whole by an alter, with the gate held exclusively.
        self._stores = contents.stores
        self._mvcc = contents.mvcc
        self._gate = contents.gate
        self._requests = contents.requests
        self._memory = contents.memory
        self._applier = contents.applier
        self._row_locks = row_locks
        self._numbering = numbering
        self._log = log
        self._config = contents.shared.config
        self._clock = contents.shared.clock

    def mutate(self, mutations: Sequence[RowMutation], options: WriteOptions, done: Done, *, may_wait: bool) -> bool:
        """Makes each row mutation, in order; `done` gets their outcomes, once, when all are published.

        `done` is called from any thread, perhaps before this returns. False: nothing was done and `done` will not be
        called, because it would have had to wait for a lock or a disk and `may_wait` was False. Raises
        RegionServerError for what concerns the whole batch; then nothing was changed.
        """
        if may_wait or not options.is_alone or not self._log.take_turn():
            return self._mutate(mutations, options, done, may_wait=may_wait)
        try:
            return self._mutate(mutations, options, done, may_wait=False)
        finally:
            self._log.end_turn()  # 8 and 9 in this thread: `done` is called before this returns.

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
            newest = max([told[i][1] for i in later])
            self._mvcc.when_published(newest, partial(_tell, partial(done, later), [told[i][0] for i in later]))
        return True

    def _mutate(self, mutations: Sequence[RowMutation], options: WriteOptions, done: Done, *, may_wait: bool) -> bool:
        """Steps 1 to 7, and who is told at 9."""
        told = self._make(mutations, options, may_wait=may_wait, is_one_answer=True)
        if told is None:
            return False
        in_order = [told[i][0] for i in range(len(mutations))]
        newest = max([number for _, number, _ in told.values()], default=0)
        self._mvcc.when_published(newest, partial(_tell, done, in_order))
        return True

    def _make(
        self, mutations: Sequence[RowMutation], options: WriteOptions, *, may_wait: bool, is_one_answer: bool
    ) -> dict[int, Told] | None:
        """Steps 1 to 7. What is to be told of each mutation, by its place; None when it would have to wait.

        `is_one_answer`: the cells that all of them answer must have room in one message. When some were made and the
        next ones can't be, for a deadline say, that is the outcome of each of these.
        """
        told: dict[int, Told] = {}
        room = self._config.request_bytes_max
        if is_one_answer and len(mutations) > 1:
            room = room_for_cells(mutations, room)
        left: Sequence[int] = range(len(mutations))
        table: Table | None = None
        durability = Durability.FSYNC
        is_begun = False
        try:
            while left:
                if self.table is not table:  # Or altered since CHECK: judge by the families that there are now.
                    table = self.table
                    durability = table.durability_of(options.durability)
                    left = self._check(mutations, left, told)
                    continue
                stay, is_alone = next_stay(mutations, left) if may_wait else (left, False)
                rows = distinct_ascending([mutations[i].row for i in stay])
                if not self._lock(rows, options.deadline, may_wait=may_wait, is_alone=is_alone):
                    return None
                try:
                    if self.table is not table:
                        continue
                    if not may_wait and self._stores.has_files and not self._is_all_in_memory(mutations, stay):
                        return None
                    is_begun = True
                    for i in stay:
                        told[i] = self._change_row(mutations[i], durability, room, is_alone=is_alone)
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

    def _check(self, mutations: Sequence[RowMutation], places: Sequence[int], told: dict[int, Told]) -> list[int]:
        """1 CHECK of the mutations at these places. Which may go on; the others' errors are put into `told`."""
        now_ms = self._clock.now_ms()
        checked: list[int] = []
        byte_count = cell_count = 0
        for i in places:
            mutation = mutations[i]
            try:
                byte_count += check_mutation(mutation, self.table, self._config, now_ms) + _RECORD_OVERHEAD_BYTES
                check_in_region(mutation.row, self._start, self._stop, self._region_id)
            except RegionServerError as error:
                told[i] = error.without_frames(), 0, 0
            else:
                checked.append(i)
                cell_count += len(mutation.changes)
        if checked:
            self._memory.check(byte_count + cell_count * CELL_BYTES)
            self._log.check_space(byte_count)
        return checked

    def _lock(self, rows: Sequence[bytes], deadline: float, *, may_wait: bool, is_alone: bool) -> bool:
        """2 LOCK. False when it would have to wait and may not. Who is alone inside the gate needs no row lock."""
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

    def _is_all_in_memory(self, mutations: Sequence[RowMutation], checked: Sequence[int]) -> bool:
        """COMPARE of these will read no block from a disk."""
        view = self._stores.view
        return all(is_row_in_memory(view, mutations[i].row, families_read(mutations[i])) for i in checked)

    def _change_row(self, mutation: RowMutation, durability: Durability, room: int, *, is_alone: bool) -> Told:
        """Steps 3 to 6 for one row, whose lock is held. An error concerns this row only, and changed nothing.

        `room`: what the cells that are answered may take. `is_alone`: inside the gate, with a long mutation.
        """
        request = mutation.request
        try:
            if request is not None and (kept := self._requests.find(request)) is not None:
                return _repeated(request, kept, room)
            if mutation.condition is None and are_puts(mutation.changes):
                stamp = self._numbering.next_stamp()
                cells = only_puts(mutation.changes, self.table.by_name, stamp)
                commit = self._apply_begin_append if is_alone else self._begin_append_apply
                return commit(mutation.row, cells, request, RowResult(timestamp=stamp), durability)
        except RegionServerError as error:
            return error.without_frames(), 0, 0
        state = RowState(self._stores.view, mutation.row, self._mvcc.read_point)
        try:
            result, write_number, byte_count = self._compare_and_change(mutation, state, durability, room)
        except RegionServerError as error:
            # What was read may be unpublished, and the error tells of it.
            return error.without_frames(), state.newest_write_number, 0
        if request is not None and not result.timestamp:
            # A "no" is kept too, in memory: if it gets lost and the same request waits here once more, on a stream that
            # broke, that one must not be made after the client was told "no" when it asked again.
            self._requests.keep(request, mutation.row, write_number, result, self._clock.now_ms())
        return result, write_number, byte_count

    def _compare_and_change(
        self, mutation: RowMutation, state: RowState, durability: Durability, room: int
    ) -> tuple[RowResult, int, int]:
        """3 COMPARE and 4 STAMP for mutations that read the row."""
        now_ms = self._clock.now_ms()
        changes: Sequence[Change] = mutation.changes
        is_met = True
        seen: tuple[tuple[bytes, bytes, int, bytes], ...] = ()
        read_timestamp_max = 0
        answer = AnswerSize(mutation.row, room, self._config.request_bytes_max)
        if mutation.condition is not None:
            newest = NewestRow(state, self.table.by_name, now_ms)
            comparison = compare(mutation.condition, mutation.row, newest, answer)
            is_met, seen = comparison.is_met, comparison.seen
            changes = mutation.changes if is_met else mutation.otherwise
            read_timestamp_max = max(comparison.timestamp_max, _changed_timestamp_max(changes, newest))
        if not changes:
            return RowResult(is_met, seen), state.newest_write_number, answer.byte_count
        stamp = max(self._numbering.next_stamp(), read_timestamp_max)
        changer = RowChanger(
            mutation.row, self.table.by_name, state, now_ms, stamp, self._config.cell_bytes_max, answer
        )
        for change in changes:
            changer.apply(change)
        cells = changer.cells()
        if not cells:  # Deletes of versions that are not there.
            return RowResult(is_met, seen), state.newest_write_number, answer.byte_count
        result = changer.result(seen, condition_met=is_met)
        return self._begin_append_apply(mutation.row, cells, mutation.request, result, durability, answer.byte_count)

    def _begin_append_apply(
        self,
        row: bytes,
        change: Sequence[tuple[int, Sequence[UnnumberedCell]]],
        request: RequestId | None,
        result: RowResult,
        durability: Durability,
        answer_bytes: int = 0,
    ) -> tuple[RowResult, int, int]:
        """5 BEGIN + APPEND and 6 APPLY."""
        payload = encode_row(row, change, request, result, self.table.number_by_name)
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
            self._requests.keep(request, row, write_number, result, result.timestamp)
        return result, write_number, answer_bytes

    def _apply_begin_append(
        self,
        row: bytes,
        change: Sequence[tuple[int, Sequence[UnnumberedCell]]],
        request: RequestId | None,
        result: RowResult,
        durability: Durability,
    ) -> tuple[RowResult, int, int]:
        """The same for a long mutation of who is alone inside the gate: the order lock is held for the record alone."""
        payload = encode_row(row, change, request, result, self.table.number_by_name)
        next_number = self._mvcc.last + 1
        numbered = [(family, number_cells(cells, next_number)) for family, cells in change]
        take_back = self._applier.apply_row_early(row, numbered, next_number)
        write_number = self._numbering.append_applied(KIND_ROW, payload, durability, take_back)
        if request is not None:
            self._requests.keep(request, row, write_number, result, result.timestamp)
        return result, write_number, 0

    def _check_again(self, row: bytes, record_bytes: int) -> None:
        """1 CHECK once more, for a change whose size depends on what it read; nothing is changed yet."""
        check_record(record_bytes, row, self._config)
        self._memory.check(record_bytes)
        self._log.check_space(record_bytes)


def _repeated(request: RequestId, kept: RepeatedAnswer, room: int) -> Told:
    """The answer that was kept; without all its cells, or room for them, an error that tells what else is known."""
    result = kept.result
    byte_count = bytes_of_cells(result)
    if not kept.is_cut and byte_count <= room:
        return result._replace(repeated_request=True), kept.write_number, byte_count
    became = f"its change was made with the stamp {result.timestamp}" if result.timestamp else "it changed nothing"
    error = UnknownOutcomeError(
        f"request {request.sequence} was answered before, and {became}; the cells that it answered are "
        f"{'not kept any more' if kept.is_cut else 'too many for this answer'}, read the row"
    )
    return error, kept.write_number, 0


def _changed_timestamp_max(changes: Sequence[Change], newest: NewestRow) -> int:
    """The newest timestamp of the columns that the changes write: a conditional change must win over what it saw."""
    timestamp_max = 0
    for change in changes:
        if isinstance(change, Put) and change.timestamp is None:
            cell = newest.cell(change.family, change.qualifier)
            if cell is not None:
                timestamp_max = max(timestamp_max, -cell[1])
    return timestamp_max


def _tell(done: Done, outcomes: list[RowOutcome], failure: UnknownOutcomeError | None) -> None:
    """9 PUBLISH: the answers go out, or "unknown outcome" for every change that was made."""
    if failure is not None:
        told_of_changes = (RowResult, UnknownOutcomeError)
        outcomes = [failure if isinstance(outcome, told_of_changes) else outcome for outcome in outcomes]
    done(outcomes)
