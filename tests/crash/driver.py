"""Drives a region server without a network: does a life's steps on it, and reads all its contents."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from rowlock_regionserver.catalog.commits import Identity
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.compaction.picker import pick_requested
from rowlock_regionserver.compaction.progress import Progress
from rowlock_regionserver.compaction.settings import CompactionSettings
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import NotServingRegionError, RegionServerError
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.bulk_commit import CommitRequest, commit_bulk_write, regions_locked
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.locks.table_locks import Caller
from rowlock_regionserver.operations import Check, Condition, RequestId, RowMutation, ScanPlan, Selection, WriteOptions
from rowlock_regionserver.region import region_replay
from rowlock_regionserver.region.bulk.bulk_load import BulkResult
from rowlock_regionserver.region.bulk.put_batch import PutBatch
from rowlock_regionserver.region.bulk.row_batch import RowBatch
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.sessions.session import SessionRef

from tests.crash.life import DONE, SENT
from tests.crash.steps import (
    AlterTable,
    BulkCommit,
    BulkWrite,
    Cells,
    Compact,
    CreateSnapshot,
    CreateTable,
    DropSnapshot,
    DropTable,
    Flush,
    Merge,
    Restart,
    RestoreSnapshot,
    Rows,
    RowWrite,
    Split,
    StageBulk,
    Step,
    Store,
    TableState,
    TruncateTable,
    column,
    snapshot_key,
)

WAIT_SECONDS = 120.0
CLIENT = b"0123456789abcdef"
# Of the rows of puts in columns: so many ids for each step.
_CLIENT_OF_PUTS = b"fedcba9876543210"
_IDS_PER_STEP = 1000
# Of bulk writes: who commits them, and how much a large one may have in bulk files, less than one batch.
_OWNER = "ana"
_SPILLED_BYTES = 100
# The first array of Python objects imports pandas, if installed, which takes a second: once here for all children.
pa.array([b""], pa.binary())
# The client still waits for the answers of this many requests, so the server saves them.
REQUESTS_KEPT = 4


def small_config(**limits: int) -> Config:
    """Returns sizes so small that a few dozen writes roll and clean the log, flush, and use up reserved blocks."""
    small = {
        "log_segment_bytes": 8192,
        "log_segment_count_max": 3,
        "log_idle_marker_ms": 20,
        "log_quick_sync_us": 3_600_000_000,
        "write_numbers_per_leap": 16,
        "stamp_leap_ms": 20,
        "bulk_file_bytes_min": 1024,
        "scan_window_bytes": 4096,
        "block_cache_bytes": 64 * 1024,
        "block_cache_bytes_max": 0,
        "disk_free_bytes_min": 0,
        "manifest_answers_bytes_max": 700,
        "compaction_threads": 0,  # the steps of a life compact
    }
    return Config(procedures="", **(small | limits))


def tight_config() -> Config:
    """So little memory that a recovery has to flush in the middle of its replay. Changes this process's replay too."""
    region_replay.STRIDE_BYTES = 1000  # By default it checks its memory once in a megabyte.
    return small_config(memstore_bytes_max=12_000)


class ServerDiedError(Exception):
    """The server ended by itself: a sync or write failed."""


class Driver:
    """A region server on a folder, and one caller of it. Not thread-safe."""

    def __init__(self, folder: Path, files: Files, config: Config) -> None:
        self.folder = folder
        self._files = files
        self._config = config
        self.fatal: list[BaseException] = []
        self.server = self._open()
        self.is_open = True  # False: it has stopped, and could not be opened again.
        self.restart_count = 0  # orderly stops that were followed by another start

    def _open(self) -> RegionServer:
        return RegionServer.open(self.folder, self._config, Clock(), self._files, self.fatal.append)

    def live(self, steps: Sequence[Step], progress: bytearray | memoryview) -> None:
        """Does the steps in order, and records the state of each in `progress`. Raises what a step raises."""
        for number, step in enumerate(steps):
            self.live_one(number, step, progress)

    def live_one(self, number: int, step: Step, progress: bytearray | memoryview) -> None:
        """Does one step of a life."""
        progress[number] = SENT
        self.do(number, step)
        progress[number] = DONE

    def do(self, number: int, step: Step) -> bool:
        """Does one step under the request id `number`; returns whether a write was a repeated request. Blocks."""
        server = self.server
        match step:
            case RowWrite() | BulkWrite():
                return self._write(number, step)
            case BulkCommit():
                return self._commit(step)
            case StageBulk(commit):
                self._stage(commit)
            case CreateTable(table, families, splits):
                server.create_table(table, [_family(name) for name in families], Durability.ASYNC, splits=splits)
            case AlterTable(table, added, dropped):
                set_families = [] if added is None else [_family(added)]
                server.alter_table(table, set_families, [] if dropped is None else [dropped])
            case TruncateTable(table):
                server.truncate_table(table)
            case DropTable(table):
                server.drop_table(table)
            case CreateSnapshot(name, table):
                server.create_named_snapshot(name, table)
            case RestoreSnapshot(name, table):
                server.restore_named_snapshot(name, table)
            case DropSnapshot(name):
                server.drop_named_snapshot(name)
            case Flush(table):
                server.flush(table)
            case Compact(table, is_major):
                self._compact(table, is_major=is_major)
            case Split(table, row):
                region = self.region(table, row)
                if region.start != row:
                    server.split_region(table, region.region_id, row)
            case Merge(table, row):
                self._merge(table, row)
            case Restart():
                self.is_open = False
                server.stop()
                if self.fatal:
                    raise ServerDiedError(f"the server ended while it stopped: {self.fatal[0]!r}")
                self.restart_count += 1
                self.server = self._open()
                self.is_open = True
        return False

    def _compact(self, table: str, *, is_major: bool) -> None:
        for region in self.server.regions_of(table):
            for store in region.compaction_facts():
                plan = pick_requested(store.files, CompactionSettings(), major=is_major)
                if plan is not None:
                    self.server._compact_region(region.region_id, store.family.number, plan, Progress())

    def _merge(self, table: str, row: bytes) -> None:
        regions = self.server.regions_of(table)
        place = regions.index(self.region(table, row))
        if place:
            self.server.merge_regions(table, regions[place - 1].region_id, regions[place].region_id)

    def _stage(self, step: BulkCommit) -> SessionRef:
        """Stages a part for each region of each batch, unless the session has staged it."""
        server = self.server
        server.bulk_writes.spilling.bytes_max = _SPILLED_BYTES if step.is_large else self._config.memstore_bytes_max
        ref = server.clients.sessions.open(step.session, _OWNER).ref
        server.bulk_writes.open(ref, server.table(step.table))
        sequence = 0
        for batch in step.batches:
            first = sequence
            for region in server.regions_of(step.table):
                part = tuple(c for c in batch if region.start <= c[0] and (not region.stop or c[0] < region.stop))
                if part:
                    # The same number for the same part, also if the region was split at another row.
                    sequence = first + 1 + batch.index(part[0])
                    server.bulk_writes.stage(ref, region, _arrow(part), RequestId(CLIENT, sequence, 0))
            sequence = first + len(batch)
        return ref

    def _commit(self, step: BulkCommit) -> bool:
        ref = self._stage(step)
        identity = Identity(step.session, 1)
        request = CommitRequest(ref, step.table, replaces=step.replaces, identity=identity)
        result = commit_bulk_write(self.server, request, Caller(_OWNER, ref), regions_locked(self.server, request))
        self.server.bulk_writes.remove_ended()
        self.server.clients.sessions.end(ref, "its job is done")
        return result.is_repeated

    def _write(self, number: int, step: RowWrite | BulkWrite) -> bool:
        request = RequestId(CLIENT, number, max(0, number - REQUESTS_KEPT))
        # Every other change like a single caller's on the event loop, which waits briefly for the log.
        options = WriteOptions(time.monotonic() + WAIT_SECONDS, step.durability, is_alone=number % 2 == 0)
        outcomes: list[object] = []
        told = threading.Event()

        def done(outcome: object) -> None:
            outcomes.extend(outcome if isinstance(outcome, list) else [outcome])
            told.set()

        region = self.region(step.table, _first_row(step))
        if isinstance(step, BulkWrite) and step.as_puts:
            region.put_rows(_puts(number, step), options, done)
        elif isinstance(step, BulkWrite):
            region.bulk_put(_rows(step) if step.as_rows else _arrow(step.cells), request, options, done)
        else:
            mutations = [_mutation(step, request)]
            if not region.mutate(mutations, options, done, may_wait=False):
                region.mutate(mutations, options, done, may_wait=True)
        if not told.wait(WAIT_SECONDS):
            raise ServerDiedError(f"step {number} was not answered; the server said {self.fatal}")
        repeated: set[bool] = set()
        for outcome in outcomes:
            if isinstance(outcome, RegionServerError):
                raise outcome
            assert isinstance(outcome, BulkResult) or hasattr(outcome, "repeated_request")
            repeated.add(bool(outcome.repeated_request))
        (is_repeated,) = repeated  # Rows in columns were all made, or none was.
        return is_repeated

    def read_all(self) -> Store:
        """Returns all contents, by scans; gets must give the same, and nothing for absent rows."""
        assert not self.server.damaged_regions(), f"damaged regions: {self.server.damaged_regions()}"
        names = [table.name for table in self.server.tables()]
        names += [snapshot_key(snapshot.name) for snapshot in self.server.named_snapshots]
        return {name: self._read(name) for name in names}

    def _read(self, name: str) -> TableState:
        """Returns the contents of a table, or of a named snapshot."""
        regions = self.server.readable_regions_of(name)
        try:
            rows = {row: cells for region in regions for row, cells in scanned(region).items()}
        except NotServingRegionError as error:
            if self.fatal:
                raise ServerDiedError(f"the server ended while it was read: {self.fatal[0]!r}") from self.fatal[0]
            raise ServerDiedError(f"a region was closed while it was read: {error}") from error
        asked = [*rows, b"a", b"row-", b"zzz"]
        gets: Rows = {}
        for region in regions:
            gets |= got(region, [row for row in asked if region is self.region(name, row)])
        assert gets == rows, f"gets and scans of {name} differ"
        families = self.server.readable_entry(name).table.families
        return TableState({family.name for family in families}, rows)

    def region(self, table: str, row: bytes) -> Region:
        """Returns the region of a table, or of a named snapshot, that holds the row."""
        (region,) = self.server.readable_regions_of(table, row, row + b"\0")
        return region


def scanned(region: Region, *, reverse: bool = False) -> Rows:
    """Returns the region's rows, by one scan."""
    rows: Rows = {}
    with region.scan(ScanPlan(reverse=reverse)) as (_, answers):
        for answer in answers:
            for cell in answer.table.to_pylist():
                rows.setdefault(cell["row"], {})[column(cell["family"], cell["qualifier"])] = cell["value"]
    return rows


def got(region: Region, rows: Sequence[bytes]) -> Rows:
    """Returns these rows, by one get; rows without cells are left out."""
    answer = region.get(rows, Selection(), may_wait=True)
    assert answer is not None
    return {
        row: {column(family, qualifier): value for family, qualifier, _, value in cells}
        for row, cells in zip(rows, answer, strict=True)
        if cells
    }


def _family(name: bytes) -> Family:
    """Returns the families of a table, some with three versions; blocks are small."""
    return Family(0, name, versions=3 if name == b"stats" else 1, block_bytes=4096)


def _mutation(step: RowWrite, request: RequestId) -> RowMutation:
    if step.expected is None:
        return RowMutation(step.row, step.changes, request=request)
    family, qualifier, value = step.expected
    condition = Condition((Check(family, qualifier, operand=value),))
    return RowMutation(step.row, step.changes, condition, request=request)


def _first_row(step: RowWrite | BulkWrite) -> bytes:
    return step.row if isinstance(step, RowWrite) else step.cells[0][0]


def _rows(step: BulkWrite) -> RowBatch:
    """Returns the batch as rows, one for each key."""
    rows = list(dict.fromkeys(row for row, _, _, _ in step.cells))
    names = tuple(dict.fromkeys((family, qualifier) for _, family, qualifier, _ in step.cells))
    values = {(row, (family, qualifier)): value for row, family, qualifier, value in step.cells}
    columns = [pa.array([values.get((row, name)) for row in rows], pa.binary()) for name in names]
    return RowBatch(pa.array(rows, pa.binary()), pa.nulls(len(rows), pa.int64()), names, tuple(columns))


def _puts(number: int, step: BulkWrite) -> PutBatch:
    """Returns the batch as puts in columns; each row has a request id of its own."""
    rows = _rows(step)
    first, floor = number * _IDS_PER_STEP + 1, max(0, number - REQUESTS_KEPT) * _IDS_PER_STEP
    return PutBatch(rows, _CLIENT_OF_PUTS, range(first, first + len(rows)), floor)


def _arrow(cells: Cells) -> pa.Table:
    row, family, qualifier, value = zip(*cells, strict=True)
    return pa.table(
        {
            "row": pa.array(row, pa.binary()),
            "family": pa.array(family, pa.binary()),
            "qualifier": pa.array(qualifier, pa.binary()),
            "timestamp": pa.array([None] * len(row), pa.int64()),
            "value": pa.array(value, pa.binary()),
        }
    )
