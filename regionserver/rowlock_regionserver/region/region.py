"""A region: its life cycle, and its operations for callers.

    OPENING     its manifest and store files are open, and replay fills it from the log; it refuses calls
    SERVING     after `serve`: the log can be written, and callers read and write
    READING     after `serve_reads`: callers read, and nothing changes it
    CLOSED      after `close`, `fail` or `abandon`: it refuses calls

What readers need is in readable_region.py. The read path, the write path, the flusher and so on share the frozen
RegionParts (region_parts.py) and do not know each other. `serve` makes those that write, because they need a log that
can be written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from rowlock_regionserver.cells import NEWEST
from rowlock_regionserver.commit.numbering import Numbering
from rowlock_regionserver.compaction.picker import Plan
from rowlock_regionserver.compaction.progress import CompactionResult, Progress
from rowlock_regionserver.errors import (
    DiskFullError,
    NotServingRegionError,
    RegionServerError,
    UnknownOutcomeError,
)
from rowlock_regionserver.operations import ProcedureCall, RequestId, RowMutation, WriteOptions
from rowlock_regionserver.procedures.runner import Runner
from rowlock_regionserver.region.altering import Altering
from rowlock_regionserver.region.bulk.bulk_load import BulkLoad, BulkNumbers, BulkOutcome
from rowlock_regionserver.region.bulk.put_batch import PutBatch
from rowlock_regionserver.region.bulk.row_batch import BulkBatch
from rowlock_regionserver.region.change_reads import ReadChanges, described, described_when_published, read_changes
from rowlock_regionserver.region.change_spans import Described, Offset
from rowlock_regionserver.region.change_windows import Position
from rowlock_regionserver.region.compacting import RegionCompactor, StoreFacts
from rowlock_regionserver.region.flush import Flusher, FlushResult
from rowlock_regionserver.region.idempotency.manifest_answers import AnswerSource, InheritedAnswers
from rowlock_regionserver.region.linked_files import LiveStoreFiles
from rowlock_regionserver.region.mutate.write_path import Done, DoneEach
from rowlock_regionserver.region.readable_region import ReadableRegion, State
from rowlock_regionserver.region.region_cut import RegionCut
from rowlock_regionserver.region.region_parts import FoundFolder, RegionParts
from rowlock_regionserver.region.region_replay import Replay
from rowlock_regionserver.region.succession import Succession
from rowlock_regionserver.region.writers import Writers, stamps_of, writers_of
from rowlock_regionserver.wal.log import Log


class Region(ReadableRegion):
    """Holds the rows [start, stop) of one table. Thread-safe while SERVING and after."""

    def __init__(self, parts: RegionParts) -> None:
        """`parts`: see open_parts. The region is OPENING, and only one thread may use it."""
        super().__init__(parts)
        self._flusher = Flusher(parts, self._flushed)
        self._compactor = RegionCompactor(parts)
        self._altering = Altering(parts, self._flusher, self._compactor)
        self.replay = Replay(parts)  # until the region serves
        # Made by `serve`.
        self._numbering: Numbering
        self._writers: Writers
        self.succession: Succession

    @property
    def found(self) -> FoundFolder:
        """The state of its folder when it was opened."""
        return self._parts.found

    @property
    def bulk_files(self) -> Iterable[int]:
        """Those that its log records name."""
        return self._parts.bulk_files

    def end_ancestor(self, last: int) -> None:
        """Notes the last write number of the region whose rows this one takes over."""
        assert self._state is State.OPENING, self._state
        self._parts.changes.end_ancestor(last)

    def flush_while_opening(self) -> None:
        """Flushes what replay has applied so far to store files. Blocks."""
        assert self._state is State.OPENING, self._state
        self.replay.apply_deferred()
        self._flusher.flush()

    def serve(self, log: Log, bulk_numbers: BulkNumbers, numbers_until: int = 0, stamps_until: int = 0) -> None:
        """Changes OPENING to SERVING after replay. Numbers and stamps begin after those that the log has reserved."""
        assert self._state is State.OPENING, self._state
        parts = self._parts
        region_id, mvcc, live_files, shared = parts.region_id, parts.mvcc, parts.live_files, parts.shared
        self.replay.apply_deferred()
        del self.replay  # It refers to all memstores, and would hold those of families that are dropped later.
        replayed = mvcc.last
        mvcc.restore(max(replayed, numbers_until, self.table.newest_alter))
        self._altering.apply_wanted_limits()
        self._altering.begin_changes()
        stamps = stamps_of(parts, stamps_until)
        self._flusher.begin_serving(replayed + 1, mvcc.last, stamps_are_own=not stamps.cells_until)
        numbering = self._numbering = Numbering(region_id, mvcc, stamps, log, shared.config, shared.clock)
        self._writers = writers_of(parts, bulk_numbers, numbering, log)
        self.succession = Succession(parts, self._flusher, self._writers.commit, self._check_writable)
        parts.log.begin(log, live_files.generation, live_files.manifest.flushed_write_number)
        self._state = State.SERVING

    def serve_reads(self) -> None:
        """Changes OPENING to READING: the region is of a named snapshot, and nothing changes it."""
        assert self._state is State.OPENING, self._state
        self.replay.apply_deferred()
        del self.replay
        self._state = State.READING

    def abandon(self) -> None:
        """Changes OPENING to CLOSED without serving. Frees its memory; its bulk files stay, for salvage."""
        assert self._state is State.OPENING, self._state
        self._state = State.CLOSED
        self.replay.forget_packed()
        self.replay.count_memory()
        self._free_memory()

    def _check(self) -> None:
        """Asserts what must hold at any moment. O(cells in memory)."""
        self._parts.mvcc._check()
        for store in self._parts.stores.all():
            store.memstore._check()

    @property
    def newest_stamp(self) -> int:
        """No cell has a later stamp, and no client has a reserved timestamp range beyond it."""
        return self._numbering.newest_stamp

    def stamp_later_than(self, timestamp: int, *, is_reserved: bool = False) -> None:
        """Makes all further stamps later than this timestamp; if `is_reserved`, also after a restart."""
        self._numbering.pass_over(timestamp, is_reserved=is_reserved)

    def release_unused_stamps(self) -> None:
        """Ends the reservation of unused stamps, so that the next start need not skip them."""
        with contextlib.suppress(RegionServerError):
            self._numbering.release_unused()

    @property
    def newest_write_number(self) -> int:
        return self._parts.mvcc.last

    @property
    def memstore_bytes(self) -> int:
        return self._parts.stores.memstore_bytes

    @property
    def segment_count(self) -> int:
        """See Stores.segment_count."""
        return self._parts.stores.segment_count

    def mutate(self, mutations: Sequence[RowMutation], options: WriteOptions, done: Done, *, may_wait: bool) -> bool:
        """Changes rows, each atomically; see WritePath.mutate.

        If they waited at the gate for a split or a merge, the new region that has all of the rows changes them; if none
        has, NotServingRegionError is raised.
        """
        self._check_writable()
        self._pacing.note_request()
        try:
            return self._writers.write_path.mutate(mutations, options, done, may_wait=may_wait)
        except NotServingRegionError:
            successor = self.succession.successor_with([mutation.row for mutation in mutations])
            if successor is None:
                raise
        return successor.mutate(mutations, options, done, may_wait=may_wait)

    def mutate_each(self, mutations: Sequence[RowMutation], options: WriteOptions, done: DoneEach) -> bool:
        """Changes rows of several requests; see WritePath.mutate_each."""
        self._check_writable()
        self._pacing.note_request()
        return self._writers.write_path.mutate_each(mutations, options, done)

    def put_rows(self, batch: PutBatch, options: WriteOptions, done: Done) -> None:
        """Changes rows, each atomically; see ColumnPuts.put. Blocking."""
        self._check_writable()
        self._pacing.note_request()
        self._writers.column_puts.put(batch, options, done)

    def call(self, call: ProcedureCall, runner: Runner, options: WriteOptions, done: Done) -> None:
        """Calls a row procedure; see ProcedureCalls.call. Blocking."""
        self._check_writable()
        self._pacing.note_request()
        self._writers.procedure_calls.call(call, runner, options, done)

    def bulk_put(
        self, batch: BulkBatch, request: RequestId | None, options: WriteOptions, done: Callable[[BulkOutcome], None]
    ) -> None:
        """Applies a bulk batch atomically; see BulkLoad.put. Blocking."""
        self._check_writable()
        self._writers.bulk_load.put(batch, request, options, done)

    @property
    def bulk_load(self) -> BulkLoad:
        """Stages and commits bulk writes."""
        self._check_writable()
        return self._writers.bulk_load

    @property
    def flushed_write_number(self) -> int:
        return self._parts.live_files.manifest.flushed_write_number

    def flush(self) -> FlushResult:
        """Writes the memstore to store files; returns when they are live. Blocking."""
        self._check_writable()
        return self._flusher.flush()

    def compaction_facts(self) -> list[StoreFacts]:
        """Returns what there is to compact in each store, by family name."""
        self._check_writable()
        return self._compactor.facts()

    def compact(self, family_number: int, plan: Plan, progress: Progress) -> CompactionResult:
        """Replaces store files of a family by fewer ones; see RegionCompactor.compact. Blocking."""
        self._check_writable()
        return self._compactor.compact(family_number, plan, progress)

    @property
    def altering(self) -> Altering:
        """Switches it to an altered table, with other families and limits."""
        return self._altering

    def live_store_files(self) -> LiveStoreFiles:
        """Returns the store files that readers see now. While they are held, they stay on the disk."""
        return {store.family.number: store.files for store in self._parts.stores.all()}

    def without_flushes(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context: waits for a running flush, and lets none begin inside."""
        return self._flusher.no_flush()

    @contextlib.contextmanager
    def all_flushed(self, deadline: float) -> Iterator[None]:
        """Returns a context in which every write is in live store files, and none begins. Inside `without_flushes`.

        Writes wait. Blocks; flush before, so that it is short. Raises NotServingRegionError, DeadlineError, and the
        errors of `flush`.
        """
        self._check_writable()
        with self._flusher.all_flushed(deadline):
            yield

    @contextlib.contextmanager
    def sealed(self, deadline: float) -> Iterator[int]:
        """Returns a context in which no write begins. Inside `without_flushes` only; see Flusher.sealed.

        Yields the newest write number: `cut` returns the region as of it, after the context.
        """
        self._check_writable()
        with self._flusher.sealed(deadline) as write_number:
            yield write_number

    def flush_sealed(self) -> None:
        """Flushes what was sealed and is in no file. Inside `without_flushes` only. Raises the errors of `flush`."""
        self._flusher.flush_sealed()

    def cut(self, write_number: int) -> RegionCut:
        """Returns the region as it was when `sealed` yielded the number. Inside the same `without_flushes` only.

        Flushes what was sealed then, while writes go on. Raises the errors of `flush`.
        """
        self._flusher.flush_sealed()
        return RegionCut.of(self._parts, write_number)

    def end_replaced(self) -> None:
        """Refuses all calls from now on, those that wait too: other regions have its rows. Inside `without_flushes`.

        The caller holds its gate exclusively, by its succession. Scans that have begun continue.
        """
        self._state = State.CLOSED
        self._flusher.close_held()
        self._parts.gate.close_held()

    def describe_changes(self) -> Described:
        """Returns what the change feed says of it. Raises InvalidRequestError if its table has none."""
        self._check_writable()
        return described(self._parts)

    def describe_published_changes(self) -> Described:
        """Like `describe_changes`, but first waits until everything from before the feed is published. Blocks."""
        self._check_writable()
        return described_when_published(self._parts)

    def read_changes(
        self,
        offset: Offset,
        until: int | None,
        position: Position | None,
        bytes_max: int,
        between: Callable[[], None],
    ) -> ReadChanges:
        """Returns the next changes after an offset; see change_reads.read_changes. Blocking."""
        self._check_writable()
        return read_changes(self._parts, offset, until, position, bytes_max, between)

    def note_time(self) -> None:
        """Lets its change feed forget what is old enough. To be called often; cheap."""
        self._parts.changes.note_time()

    def closing_to_writes(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context that refuses all writes from now on; if its block raises, writes are accepted again."""
        return self._parts.gate.closing()

    def close(self) -> None:
        """Refuses calls from now on, and waits for the writes and the flush under way. May be called only once.

        A call that came earlier, but has not passed the gate yet, is refused too.
        """
        self._close(lambda: False)

    def close_for_removal(self) -> None:
        """Closes a region whose table the catalog has dropped or truncated; never waits for disk space.

        Changes that wait for space get UnknownOutcomeError: they may wait for the space that this frees.
        """
        try:
            self._close(self._parts.log.waits_for_space)
        except DiskFullError:
            self._parts.mvcc.fail(
                UnknownOutcomeError(
                    f"table {self.table.name!r} was dropped or truncated while the change waited for disk space; "
                    "anything it wrote was removed with the table",
                    table=self.table.name,
                )
            )

    def _close(self, log_waits_for_space: Callable[[], bool]) -> None:
        self._state = State.CLOSED
        mvcc = self._parts.mvcc
        self._flusher.close()
        self._compactor.close("the region was closed")
        self._parts.gate.close()
        with contextlib.suppress(UnknownOutcomeError):
            mvcc.wait_until_published(mvcc.last, log_waits_for_space)

    def release(self) -> None:
        """Frees the memory of a closed region whose files stay. Scans that have begun continue."""
        self._free_memory()
        self._parts.stores.retire()
        self._parts.shared.open_files.close_released()

    def discard(self) -> set[Path]:
        """Frees the memory and removes the files of a closed region that was dropped. Returns its store files' paths.

        A file that a scan reads is removed when the scan has ended, and the folder with the last file.
        """
        parts = self._parts
        self._free_memory()
        parts.bulk_files.remove_through(NEWEST)
        paths = parts.stores.remove_files_when_unused()
        parts.stores.retire()
        parts.shared.open_files.close_released()
        return paths

    def _free_memory(self) -> None:
        self._parts.idempotency.discard()
        self._parts.shared.memory.add(-self._parts.stores.memstore_bytes)

    def saved_answers(self) -> AnswerSource:
        """Returns the saved answers, for the region that replaces this one."""
        return InheritedAnswers(self._parts.idempotency)

    def _flushed(self, write_number: int) -> None:
        """Handles a flush: every write up to this number is in live store files."""
        self._parts.bulk_files.remove_through(write_number)
        self._parts.log.flushed(write_number)

    def fail_waiting(self, failure: UnknownOutcomeError) -> None:
        """Fails all waiting callers, because the log takes no more records. Reads and flushes still work."""
        self._parts.mvcc.fail(failure)

    def fail(self, failure: UnknownOutcomeError) -> None:
        """Fails all waiting callers, and refuses later calls, because the log failed."""
        self._state = State.CLOSED
        self.fail_waiting(failure)
