"""A region: its parts, and its life from serving to closed."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from rowlock_regionserver.cells import NEWEST, ReadPoint
from rowlock_regionserver.commit.commit import Commit
from rowlock_regionserver.commit.mvcc import MvccStatistics
from rowlock_regionserver.commit.numbering import Numbering
from rowlock_regionserver.commit.row_locks import RowLocks, RowLockStatistics
from rowlock_regionserver.commit.stamps import stamps_after_restart
from rowlock_regionserver.errors import (
    DiskFullError,
    NotServingRegionError,
    RegionServerError,
    TooManyOpenFilesError,
    UnknownOutcomeError,
)
from rowlock_regionserver.operations import AnswerCell, RequestId, RowMutation, ScanPlan, Selection, WriteOptions
from rowlock_regionserver.region.bulk.bulk_load import BulkLoad, BulkNumbers, BulkOutcome
from rowlock_regionserver.region.contents import RegionContents
from rowlock_regionserver.region.flush import FlushResult
from rowlock_regionserver.region.idempotency.requests import RequestIdStatistics
from rowlock_regionserver.region.idempotency.saved_answers import AnswerSource, TakenOver, Unreadable
from rowlock_regionserver.region.live_files import Edit
from rowlock_regionserver.region.mutate.write_path import Done, DoneEach, WritePath
from rowlock_regionserver.region.read_path import ReadPath
from rowlock_regionserver.scan.scanner import Scan
from rowlock_regionserver.scan.split_points import Part
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.log import Log


class State(enum.Enum):
    """SERVING goes to CLOSED, once."""

    SERVING = enum.auto()
    CLOSED = enum.auto()


@dataclass(frozen=True, slots=True)
class RegionStatistics:
    """What a region holds at this moment."""

    memstore_bytes: int
    store_file_count: int
    store_file_bytes: int
    store_file_cells: int
    read_point: int
    mvcc: MvccStatistics
    row_locks: RowLockStatistics
    request_ids: RequestIdStatistics


class Region:
    """Serves the rows [start, stop) of one table. Thread-safe."""

    def __init__(
        self,
        contents: RegionContents,
        log: Log,
        bulk_numbers: BulkNumbers,
        numbers_until: int,
        stamps_until: int,
    ) -> None:
        """Begins to serve what the contents hold after replay; numbers and stamps go on past what was reserved."""
        clock, config = contents.shared.clock, contents.shared.config
        replayed = contents.mvcc.last
        contents.mvcc.restore(max(replayed, numbers_until))
        contents.flusher.pass_over_unused(replayed + 1, contents.mvcc.last)
        stamps = stamps_after_restart(
            clock,
            config.stamp_leap_ms,
            stamps_until,
            is_own=contents.live_files.manifest.stamps_are_own,
            newest_cell=contents.stores.newest_timestamp,
        )
        contents.flusher.stamps_are_own = not stamps.cells_until
        numbering = self._numbering = Numbering(contents.region_id, contents.mvcc, stamps, log, config, clock)
        self._contents = contents
        self._row_locks = RowLocks(clock)
        commit = Commit(contents.region_id, contents.mvcc, numbering, log)
        self._write_path = WritePath(contents, self._row_locks, numbering, commit, log)
        self._bulk_load = BulkLoad(contents, bulk_numbers, self._write_path, numbering, commit, log)
        self._read_path = ReadPath(contents)
        self._long_work = contents.shared.long_work
        contents.write_to(log)
        with log.order:
            log.note_manifest(contents.region_id, contents.live_files.generation)
        self._state = State.SERVING

    def _check(self) -> None:
        """Asserts what must hold at any moment. O(cells in memory)."""
        self._contents.mvcc._check()
        for store in self._contents.stores.all():
            store.memstore._check()

    @property
    def region_id(self) -> int:
        return self._contents.region_id

    @property
    def start(self) -> bytes:
        return self._contents.start

    @property
    def stop(self) -> bytes:
        return self._contents.stop

    @property
    def table(self) -> Table:
        """The table as this region serves it now."""
        return self._write_path.table

    @property
    def newest_stamp(self) -> int:
        """No stamp of a cell is later, and no timestamp of a range that a client has."""
        return self._numbering.newest_stamp

    def stamp_later_than(self, timestamp: int, *, is_reserved: bool = False) -> None:
        """Makes all further stamps later than this timestamp; if it is reserved, also after a restart."""
        self._numbering.pass_over(timestamp, is_reserved=is_reserved)

    def give_back_stamps(self) -> None:
        """Takes back the reservation of stamps that were not given, so that the next start need not skip them."""
        with contextlib.suppress(RegionServerError):  # The next start skips them, which does no harm.
            self._numbering.give_back()

    @property
    def memstore_bytes(self) -> int:
        return self._contents.stores.memstore_bytes

    @property
    def segment_count(self) -> int:
        """Immutable segments of the family that has most."""
        return self._contents.stores.segment_count

    def mutate(self, mutations: Sequence[RowMutation], options: WriteOptions, done: Done, *, may_wait: bool) -> bool:
        """Changes rows, each atomically; see WritePath.mutate."""
        self._check_serving()
        self._long_work.meet_request()
        return self._write_path.mutate(mutations, options, done, may_wait=may_wait)

    def mutate_each(self, mutations: Sequence[RowMutation], options: WriteOptions, done: DoneEach) -> bool:
        """Changes rows of several requests; see WritePath.mutate_each."""
        self._check_serving()
        self._long_work.meet_request()
        return self._write_path.mutate_each(mutations, options, done)

    def bulk_put(
        self, batch: pa.Table, request: RequestId | None, options: WriteOptions, done: Callable[[BulkOutcome], None]
    ) -> None:
        """Applies a bulk batch whole; see BulkLoad.put. Blocking."""
        self._check_serving()
        self._bulk_load.put(batch, request, options, done)

    def get(
        self,
        rows: Sequence[bytes],
        selection: Selection,
        *,
        may_wait: bool,
        reached: Callable[[int], None] = lambda byte_count: None,
    ) -> list[Sequence[AnswerCell]] | None:
        """Reads rows at one read point; see ReadPath.get."""
        self._check_serving()
        self._long_work.meet_request()
        return self._read_path.get(rows, selection, may_wait=may_wait, reached=reached)

    def scan(
        self,
        plan: ScanPlan,
        read_point: ReadPoint | None = None,
        table_then: Table | None = None,
        *,
        is_turn_over: Callable[[], bool] = lambda: False,
    ) -> contextlib.AbstractContextManager[tuple[int, Scan]]:
        """Scans at one read point; see ReadPath.scan. Blocking."""
        self._check_serving()
        return self._read_path.scan(plan, read_point, table_then, is_turn_over=is_turn_over)

    def parts(self, plan: ScanPlan, part_bytes: int) -> list[Part]:
        """Where a scan may be cut; see ReadPath.parts."""
        self._check_serving()
        return self._read_path.parts(plan, part_bytes)

    @contextlib.contextmanager
    def without_writes(self, deadline: float) -> Iterator[None]:
        """Holds the gate alone: no write is under way, and none begins. Blocks.

        Raises DeadlineError and NotServingRegionError.
        """
        self._check_serving()
        with self._contents.gate.exclusive(deadline):
            yield

    def open_read_point(self) -> ReadPoint:
        """Registers the current read point; see Mvcc. `close_read_point` must follow."""
        return self._contents.mvcc.open_read_point()

    def reopen_read_point(self, read_point: ReadPoint) -> None:
        """Registers once more a read point that is registered; `close_read_point` must follow."""
        self._contents.mvcc.reopen_read_point(read_point)

    def close_read_point(self, read_point: ReadPoint) -> None:
        """Ends what `open_read_point` or `reopen_read_point` began."""
        self._contents.mvcc.close_read_point(read_point)

    def flush(self) -> FlushResult:
        """Writes the memstore to store files; returns when they are live. Blocking."""
        self._check_serving()
        return self._contents.flusher.flush()

    def alter(self, table: Table) -> None:
        """Serves the altered table, which the catalog has committed; the cells of dropped families are gone."""
        contents = self._contents
        with contents.flusher.no_flush():
            with contents.gate.exclusive():
                dropped = contents.stores.alter(table)
                contents.table = self._write_path.table = table
            contents.memory.add(-sum(store.memstore.bytes_held for store in dropped))
            # Without space for that the files stay named until the next flush: the catalog says they are gone.
            with contextlib.suppress(DiskFullError, TooManyOpenFilesError):
                contents.live_files.apply_edit(Edit(dropped=dropped))
        del dropped
        contents.shared.open_files.tidy()

    @contextlib.contextmanager
    def without_writes_any_more(self) -> Iterator[None]:
        """Refuses all writes from now on; if the block fails, the region accepts writes again."""
        with self._contents.gate.closing():
            yield

    def close(self) -> None:
        """Serves nobody any more; waits for the writes and the flush that are under way. Only once.

        Later calls are told to look elsewhere, and so is who was let in before and did not pass the gate yet.
        """
        self._close(lambda: False)

    def close_for_removal(self) -> None:
        """The same for a region whose table the catalog has dropped or truncated, but never waits for disk space.

        Changes that wait for it are told UnknownOutcomeError: what they waited for may be the space that this frees.
        """
        try:
            self._close(self._contents.log_waits_for_space)
        except DiskFullError:
            self._contents.mvcc.fail(
                UnknownOutcomeError(
                    f"table {self.table.name!r} was dropped or truncated while the change waited for disk space; "
                    "whatever it wrote went with the table",
                    table=self.table.name,
                )
            )

    def _close(self, log_waits_for_space: Callable[[], bool]) -> None:
        self._state = State.CLOSED
        mvcc = self._contents.mvcc
        self._contents.flusher.close()
        self._contents.gate.close()
        with contextlib.suppress(UnknownOutcomeError):
            mvcc.wait_until_published(mvcc.last, log_waits_for_space)

    def discard(self) -> set[Path]:
        """Gives back the memory and removes the files of a closed region that was dropped. Gives its store files.

        One that a scan reads is still there, and goes when the scan has ended.
        """
        self._contents.abandon()
        self._contents.remove_bulk_files(NEWEST)
        return self._contents.remove_store_files()

    def give_up_waiting(self, failure: UnknownOutcomeError) -> None:
        """The log takes nothing more: whoever waits for it is told so. What was published can be read and flushed."""
        self._contents.mvcc.fail(failure)

    def fail(self, failure: UnknownOutcomeError) -> None:
        """The log failed: whoever waits is told so, and nothing more is served."""
        self._state = State.CLOSED
        self._contents.mvcc.fail(failure)

    def statistics(self) -> RegionStatistics:
        """Counts that operators and tests look at."""
        infos = [info for infos in self._contents.live_files.manifest.store_files.values() for info in infos]
        return RegionStatistics(
            memstore_bytes=self.memstore_bytes,
            store_file_count=len(infos),
            store_file_bytes=sum(info.file_bytes for info in infos),
            store_file_cells=sum(info.cell_count for info in infos),
            read_point=self._contents.mvcc.read_point,
            mvcc=self._contents.mvcc.statistics(),
            row_locks=self._row_locks.statistics(),
            request_ids=self._contents.requests.statistics(),
        )

    def _check_serving(self) -> None:
        if self._state is not State.SERVING:
            raise NotServingRegionError(
                f"region {self.region_id} of table {self.table.name!r} is closed here; look the region up again",
                table=self.table.name,
            )


def answers_to_take_over(region: Region | None) -> AnswerSource:
    """The kept answers of a region, for the one that replaces it; None: of a damaged one, which can't be read."""
    return TakenOver(region._contents.requests) if region is not None else Unreadable()
