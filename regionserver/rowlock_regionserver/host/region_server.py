"""The region server: every table of one data folder, from opening to stopping.

    catalog/               generations of the catalog
    log/                   the write-ahead log
    bulk/                  bulk files that the log names
    regions/<region id>/   manifest generations and store files
    set-aside/             unnamed files that are not proven to be leftovers

Opening is in opening.py. A damaged region is closed and reported; the others are served.

Table operations exclude each other by one lock and commit by the catalog's next generation: create makes its folder
before, drop removes it after. They are answered when the log's note of that generation is durable. A failure before the
commit has changed nothing; a failure after it leaves the outcome unknown, and ends the server.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rowlock_regionserver.catalog.catalog import NO_PROPERTIES
from rowlock_regionserver.catalog.live_catalog import LiveCatalog
from rowlock_regionserver.catalog.named_snapshots import NamedSnapshot
from rowlock_regionserver.catalog.regions import RegionEntry
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.compaction.picker import Plan
from rowlock_regionserver.compaction.progress import CompactionResult, Progress
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import RegionServerError
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.automatic_splits import AutomaticSplits
from rowlock_regionserver.host.bulk_writes import BulkWrites
from rowlock_regionserver.host.client_state import ClientState
from rowlock_regionserver.host.commit_parts import CommitParts
from rowlock_regionserver.host.compacting import CompactionThreads
from rowlock_regionserver.host.compaction_runs import check_set_properties, counted_memory
from rowlock_regionserver.host.disk_failures import DiskFailures, OnFatal
from rowlock_regionserver.host.ended_snapshots import ended_error
from rowlock_regionserver.host.flushing import FlushThreads, log_flush
from rowlock_regionserver.host.named_snapshot_sizes import HeldBySnapshots, held_by_snapshots
from rowlock_regionserver.host.named_snapshots import create_snapshot, drop_snapshot, restore_snapshot
from rowlock_regionserver.host.opening import Opened, Opening
from rowlock_regionserver.host.read_snapshots import ReadSnapshots
from rowlock_regionserver.host.region_changes import RegionChanges
from rowlock_regionserver.host.region_folder import region_folder
from rowlock_regionserver.host.served_regions import ServedRegions
from rowlock_regionserver.host.server_statistics import RegionServerStatistics
from rowlock_regionserver.host.session_snapshots import make_snapshot
from rowlock_regionserver.host.set_aside import SetAside
from rowlock_regionserver.host.snapshots import Snapshot, Snapshots
from rowlock_regionserver.host.splitting import merge_regions, split_region
from rowlock_regionserver.host.startup_report import startup_report
from rowlock_regionserver.host.stopping import Unflushed, flush_at_the_end
from rowlock_regionserver.host.timestamps import TimestampRange, Timestamps
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.locks.lock_matrix import Operation
from rowlock_regionserver.locks.table_locks import THE_SERVER, Caller
from rowlock_regionserver.operations import RequestId
from rowlock_regionserver.region.bulk.bulk_load import BulkResult
from rowlock_regionserver.region.bulk.row_batch import BulkBatch
from rowlock_regionserver.region.flush import FlushResult
from rowlock_regionserver.region.memory import MemoryGauge
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.region.shared_parts import SharedParts
from rowlock_regionserver.sessions.session import SessionRef
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.log import Log


class RegionServer(ServedRegions):
    """Serves the tables of one folder. Thread-safe. Made by `open`."""

    def __init__(
        self, folder: Path, config: Config, clock: Clock, files: Files, on_fatal: OnFatal, ledger: Ledger | None = None
    ) -> None:
        self._folder = folder
        self._files = files
        self._failures = DiskFailures(folder, lambda: list(self._regions.values()), on_fatal)
        self.incarnation_id = secrets.token_hex(8)
        self._started_at = clock.monotonic()
        self.ledger = ledger or Ledger(config)
        self._memory = MemoryGauge(self.ledger.memstores, config, clock, self._wake_flusher)
        self._shared = SharedParts.of(folder / "bulk", config, clock, files, self._memory, self._failures.end)
        self._shared.count_in(self.ledger)
        self.pacing = self._shared.pacing
        self.snapshots = Snapshots(config, clock)
        self._log: Log
        self._flusher: FlushThreads | None = None
        self.compactions: CompactionThreads
        # Guarded by self._catalog_lock, which a table operation holds from beginning to end; read without it.
        self._catalog_lock = threading.Lock()
        self._catalog: LiveCatalog
        self.clients: ClientState
        self._regions: dict[int, Region] = {}
        self._damaged: dict[int, RegionServerError] = {}
        self._splits: AutomaticSplits
        self.set_aside: tuple[SetAside, ...] = ()  # when it was opened
        self._timestamps = Timestamps(clock, config.stamp_leap_ms)
        self._read_snapshots = ReadSnapshots(folder, self._shared, lambda: self._catalog.state)

    # Opening and stopping.

    @classmethod
    def open(
        cls, folder: Path, config: Config, clock: Clock, files: Files, on_fatal: OnFatal, ledger: Ledger | None = None
    ) -> RegionServer:
        """Recovers the regions of the folder and serves them. The caller holds the folder's lock.

        `on_fatal` is called once, when a sync has failed: nothing is acknowledged after it, and the process must end.
        Raises CorruptionError when the catalog is damaged, DataFolderError and OSError.
        """
        server = cls(folder, config, clock, files, on_fatal, ledger)
        server._begin(Opening(folder, server._shared).open())
        return server

    def _begin(self, opened: Opened) -> None:
        self._regions, self._damaged = opened.regions, opened.damaged
        self.set_aside = opened.set_aside
        self._log = opened.log
        self._catalog = LiveCatalog(self._folder, self._files, opened.log, opened.generation, opened.state)
        config, clock = self._shared.config, self._shared.clock
        self.clients = ClientState(config, clock, opened.state.session_numbers_until, self._reserve_session_numbers)
        self.bulk_writes = BulkWrites(self._folder, self._shared, self.clients, self._failures)
        self.bulk_writes.restore(opened.staged)
        self._flusher = FlushThreads(
            lambda: list(self._regions.values()),
            self._tidy_up,
            self.flush_region,
            self._memory,
            self.ledger,
            self._log,
            config,
            clock,
            self._failures.end,
        )
        self.compactions = CompactionThreads(
            self._regions,
            self._compact_region,
            lambda region_id: region_folder(self._folder, region_id),
            self._shared,
            self._flusher.request,
        )
        self._changes = RegionChanges(
            self._folder,
            self._shared,
            self._catalog,
            self._log,
            self._regions,
            self._damaged,
            self.snapshots,
            self.compactions,
            self._timestamps,
            opened.bulk_numbers,
            self._read_snapshots,
        )
        self._splits = AutomaticSplits(
            self._regions,
            lambda region: self.split_region(region.table_name, region.region_id, None),
            config.compaction_pause_ms / 1000,
            clock,
            self._failures.end,
        )
        # Not earlier: a region may be due already, and the end of its flush wakes the others.
        self._flusher.thread.start()
        self.compactions.begin()
        self._splits.thread.start()

    def _tidy_up(self) -> None:
        """Does what is due by time or was put off; the flush scheduler calls it every second or so.

        Removes store files without readers and what ended bulk writes have staged, closes named snapshots that nobody
        reads, lets change feeds forget, and writes manifests for which there was no space.
        """
        self._shared.open_files.close_released()
        self.bulk_writes.remove_ended()
        self._read_snapshots.close_unused()
        for region in list(self._regions.values()):
            region.note_time()
            if region.altering.owes_limits:
                with self._failures.are_final():
                    region.altering.commit_owed_limits()

    def stop_waiting_for_space(self) -> None:
        """Fails changes that wait for disk space, because the server is about to stop."""
        self._log.stop_waiting_for_space()

    def stop(self) -> list[Unflushed]:
        """Ends snapshots and compactions, flushes every region, syncs and closes the log. Blocks, not for disk space.

        The caller admits no new call. Returns the regions that could not be flushed for lack of space: their writes are
        in the log, so none is lost.
        """
        self.stop_waiting_for_space()
        self.clients.sessions.stop()
        self.snapshots.stop()
        self._splits.stop()
        self.compactions.stop()
        if self._flusher is not None:
            self._flusher.stop()
        regions = list(self._regions.values())
        unflushed = flush_at_the_end(regions, self.flush_region, self._shared.config.flush_threads)
        for region in regions:
            region.release_unused_stamps()
        self._log.close()
        self.bulk_writes.remove_ended()
        self._shared.open_files.close_released()
        self._shared.open_files.close_idle()
        return unflushed

    # Tables.

    def create_table(
        self,
        name: str,
        families: Sequence[Family],
        durability: Durability = Durability.FSYNC,
        properties: Mapping[str, str] = NO_PROPERTIES,
        caller: Caller = THE_SERVER,
        splits: Sequence[bytes] = (),
    ) -> Table:
        """Creates an empty table. Assigns the numbers of the families. `splits`: see CatalogState.with_new_table."""
        with self.operation(Operation.CREATE, name, caller):
            limits = self._shared.config
            state = self._catalog.state.with_new_table(name, families, durability, properties, splits, limits)
            entry = state.entry(name)
            check_set_properties(entry.table, properties)
            with self._changes.created(entry, state, {}, f"table {name!r} was created"):
                return entry.table

    def alter_table(
        self,
        name: str,
        set_families: Sequence[Family] = (),
        drop_families: Sequence[bytes] = (),
        durability: Durability | None = None,
        set_properties: Mapping[str, str] = NO_PROPERTIES,
        drop_properties: Sequence[str] = (),
        expected_properties: Mapping[str, str] = NO_PROPERTIES,
        caller: Caller = THE_SERVER,
    ) -> Table:
        """Adds, replaces and drops families and properties, or changes the durability: one atomic change."""
        with self.operation(Operation.ALTER, name, caller):
            state = self._catalog.state.with_altered_table(
                name, set_families, drop_families, durability, set_properties, drop_properties, expected_properties
            )
            entry = state.entry(name)
            check_set_properties(entry.table, set_properties)
            with self._catalog.committed(state, f"table {name!r} was altered"):
                for region in entry.regions:
                    if region.region_id in self._regions:
                        self._regions[region.region_id].altering.alter(entry.table)
                for region in entry.regions if drop_families else ():
                    self.compactions.forget(region.region_id, entry.table.name_by_number, "its family was dropped")
            return entry.table

    def truncate_table(self, name: str, caller: Caller = THE_SERVER) -> Table:
        """Removes every cell: new regions replace the old ones."""
        with self.operation(Operation.TRUNCATE, name, caller):
            old = self._catalog.state.entry(name)
            state = self._catalog.state.with_truncated_table(name)
            entry = state.entry(name)
            with contextlib.ExitStack() as closing:
                replaced: dict[int, Region | None] = {}  # None: it is damaged
                for before, after in zip(old.regions, entry.regions, strict=True):
                    region = replaced[after.region_id] = self._regions.get(before.region_id)
                    if region is not None:
                        closing.enter_context(region.closing_to_writes())
                with self._changes.created(entry, state, replaced, f"table {name!r} was truncated"):
                    self._changes.remove(old, "its table was truncated")
            return old.table

    def drop_table(self, name: str, caller: Caller = THE_SERVER, *, force: bool = False) -> None:
        """Removes the table and all its cells. Raises TableInUseError, unless `force` ends the sessions."""
        self.clients.check_unused(name, caller, force=force)
        with self.operation(Operation.DROP, name, caller):
            entry = self._catalog.state.entry(name)
            state = self._catalog.state.without_table(name)
            with self._catalog.committed(state, f"table {name!r} was dropped"):
                self._changes.remove(entry, "its table was dropped")

    def split_region(
        self, name: str, region_id: int, row: bytes | None, caller: Caller = THE_SERVER
    ) -> tuple[RegionEntry, RegionEntry]:
        """Splits a region at a row; None: where its data is halved. Returns the new regions. See splitting.py."""
        return split_region(self, self._changes, name, region_id, row, caller)

    def merge_regions(self, name: str, left_id: int, right_id: int, caller: Caller = THE_SERVER) -> RegionEntry:
        """Merges two neighbours. Returns the new region. See splitting.py."""
        return merge_regions(self, self._changes, name, left_id, right_id, caller)

    @contextlib.contextmanager
    def operation(
        self, operation: Operation, name: str, caller: Caller, region_ids: Sequence[int] = ()
    ) -> Iterator[None]:
        """Returns a context for a table operation: it holds its locks, and excludes all other table operations."""
        with self.clients.locked(operation, name, caller, region_ids), self.catalog_change():
            yield

    @contextlib.contextmanager
    def catalog_change(self) -> Iterator[None]:
        """Returns a context for a change of the catalog, which excludes all others. It holds no lock of a table."""
        with self._catalog_lock, self._failures.are_final():
            yield

    def commit_parts(self) -> CommitParts:
        return CommitParts(self._catalog, self._log, self._shared, self._regions, self._damaged)

    def stage(self, session: SessionRef, region_id: int, batch: BulkBatch, request: RequestId | None) -> BulkResult:
        return self.bulk_writes.stage(session, self.region(region_id), batch, request)

    def _reserve_session_numbers(self, until: int) -> None:
        with self.catalog_change():
            self._catalog.reserve_session_numbers(until)

    # Snapshots.

    def make_snapshot(
        self, name: str, snapshot_id: bytes, lease_ms: int, incarnation_id: str, caller: Caller = THE_SERVER
    ) -> Snapshot:
        """Takes a read point of every region of a table; see session_snapshots.make_snapshot."""
        if incarnation_id and incarnation_id != self.incarnation_id:
            raise ended_error(snapshot_id, name, "the server was restarted since it was requested")
        return make_snapshot(self, name, snapshot_id, lease_ms, caller)

    def create_named_snapshot(self, name: str, table: str, caller: Caller = THE_SERVER) -> NamedSnapshot:
        """Takes a snapshot of a table that stays until it is dropped. See named_snapshots.py."""
        return create_snapshot(self, self._changes, name, table, caller)

    def restore_named_snapshot(self, name: str, table: str, caller: Caller = THE_SERVER) -> Table:
        """Makes a new table of a named snapshot. See named_snapshots.py."""
        return restore_snapshot(self, self._changes, name, table, caller)

    def held_by_snapshots(self, snapshots: Sequence[NamedSnapshot]) -> HeldBySnapshots:
        """Returns what named snapshots take on the disk."""
        return held_by_snapshots(self._folder, snapshots)

    def drop_named_snapshot(self, name: str) -> None:
        """Removes a named snapshot. See named_snapshots.py."""
        drop_snapshot(self, self._changes, name)

    def timestamp_range(self, table: str = "", reserve_ms: int = 0) -> TimestampRange:
        """A range of timestamps to write with, for one table or for all; see Timestamps. It may be shorter.

        Raises TableNotFoundError, and for a table NotServingRegionError and CorruptionError.
        """
        with self._timestamps.lock:
            if table:
                return self._timestamps.of_table(self.regions_of(table), reserve_ms)
            return self._timestamps.of_all(list(self._regions.values()), reserve_ms)

    def uptime_ms(self) -> int:
        return 1 + int((self._shared.clock.monotonic() - self._started_at) * 1000)

    def flush(self, name: str) -> FlushResult:
        """Writes the memstores of a table's regions to store files. Blocks."""
        results = [self.flush_region(region) for region in self.regions_of(name)]
        # So that the loss of a manifest is noticed.
        self._log.sync()
        return sum(results, FlushResult(0, 0))

    def flush_region(self, region: Region) -> FlushResult:
        """Flushes one region; a failed sync is final. Blocks. Raises the errors of `Flusher.flush`."""
        began = self._shared.clock.monotonic()
        with self._failures.are_final():
            result = region.flush()
        log_flush(region, result, self._shared.clock.monotonic() - began)
        self._shared.open_files.close_released()  # If its table was dropped in the meantime.
        self.compactions.wake(region.region_id)
        self._splits.wake(region.region_id)
        return result

    def files_were_adopted(self, region_id: int) -> None:
        """Wakes compactions and splits: a region has more store files."""
        self.compactions.wake(region_id)
        self._splits.wake(region_id)

    def _compact_region(self, region_id: int, family_number: int, plan: Plan, progress: Progress) -> CompactionResult:
        """Compacts a store; a commit of unknown outcome is final. Blocks; see Region.compact."""
        with counted_memory(self.ledger, self._shared.config), self._failures.are_final():
            result = self.region(region_id).compact(family_number, plan, progress)
        self._splits.wake(region_id)
        return result

    def statistics(self) -> RegionServerStatistics:
        return RegionServerStatistics.of(
            self._catalog.state, self._regions, self._damaged, self._shared, self._log, self.snapshots
        )

    def startup_report(self) -> str:
        """Problems of the opened folder that an operator should know; empty if there are none."""
        return startup_report(self._folder, self._catalog.state, self._damaged, self.set_aside)

    def _wake_flusher(self) -> None:
        if self._flusher is not None:
            self._flusher.wake()
