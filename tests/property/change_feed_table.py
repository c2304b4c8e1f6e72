"""A table with a change feed, a model of its changes, and a reader that dies and goes on from its stored offset."""

from __future__ import annotations

import contextlib
import json
import random
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from rowlock._core.change_progress import ChangeProgress
from rowlock_proto.v1 import region_pb2
from rowlock_regionserver.cells import Family
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.compaction.picker import pick, pick_requested
from rowlock_regionserver.compaction.progress import Progress
from rowlock_regionserver.compaction.settings import CompactionSettings
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.workers import Workers
from rowlock_regionserver.errors import InvalidRequestError, RegionTooBusyError
from rowlock_regionserver.host.bulk_commit import CommitRequest, commit_bulk_write, regions_locked
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.locks.table_locks import Caller
from rowlock_regionserver.operations import Change, Delete, DeleteKind, Put, WriteOptions
from rowlock_regionserver.rpc.services.change_calls import ChangeCalls

from tests.crash.simulated_files import UnsyncedFiles
from tests.unit.host.table_of_regions import TableOfRegions
from tests.unit.region.conftest import abandon, bulk_batch
from tests.unit.region.row_batches import row_batch
from tests.waiting import WAIT_S

HOUR_MS = 3_600_000
ROWS = [b"%02d" % number for number in range(24)]
QUALIFIERS = [b"a", b"b"]
NAMES = {DeleteKind.VERSION: "delete_version", DeleteKind.COLUMN: "delete_column", DeleteKind.FAMILY: "delete_family"}
# Stamps are greater, so a tombstone that a replacing commit has written is told apart.
EXPLICIT_MAX = 1000
CONFIG = Config(
    log_segment_bytes=1 << 18,
    disk_free_bytes_min=0,
    compaction_threads=0,
    lock_wait_ms=0,
    flush_window_bytes=300,
    compaction_window_bytes=300,
    long_work_pause_percent=0,
)
FAMILIES = [Family(0, b"f"), Family(0, b"g", versions=3, time_to_live_ms=HOUR_MS // 10)]
WORKERS = Workers(1)  # of which no thread is used
# (row, family, qualifier, timestamp of a delete, kind, value)
Key = tuple[bytes, bytes, bytes, int, str, bytes]


def key_of(change: dict[str, object]) -> Key | None:
    """Returns what identifies a change; None for tombstones of a replacing commit, which the model does not know."""
    is_put = change["kind"] == "put"
    if not is_put and int(str(change["timestamp"])) > EXPLICIT_MAX:
        return None
    row, family, qualifier, value = [change[name] for name in ("row", "family", "qualifier", "value")]
    assert isinstance(row, bytes)
    assert isinstance(family, bytes)
    assert isinstance(qualifier, bytes)
    assert isinstance(value, bytes)
    return row, family, qualifier, 0 if is_put else int(str(change["timestamp"])), str(change["kind"]), value


class FeedTable(TableOfRegions):
    """Table `t` of a server, and the changes that were acknowledged."""

    def __init__(self, folder: Path, generator: random.Random, hours: str = "1") -> None:
        self.folder, self.generator = folder, generator
        self.clock = ManualClock(now_ms=1_700_000_000_000)
        super().__init__(self.open())
        self.server.create_table("t", FAMILIES, properties={"changes_retained_hours": hours})
        self.made: Counter[Key] = Counter()
        self.value = 0

    def open(self) -> RegionServer:
        return RegionServer.open(self.folder, CONFIG, self.clock, UnsyncedFiles(), lambda error: None)

    # ---- changes

    def new_value(self) -> bytes:
        """Returns a value that no other put has."""
        self.value += 1
        return b"%d" % self.value + b"x" * self.generator.choice([0, 10, 80])

    def change_a_row(self) -> None:
        """Puts and deletes cells of some columns of a row, at timestamps in any order, in one atomic change."""
        generator, row = self.generator, self.generator.choice(ROWS)
        changes: list[Change] = []
        if generator.random() < 0.1:
            family, timestamp = generator.choice([b"f", b"g"]), generator.randrange(EXPLICIT_MAX)
            changes.append(Delete(DeleteKind.FAMILY, family, b"", timestamp))
            self.made[row, family, b"", timestamp, "delete_family", b""] += 1
        else:
            columns = [(family, qualifier) for family in (b"f", b"g") for qualifier in QUALIFIERS]
            for family, qualifier in generator.sample(columns, generator.choice([1, 1, 3])):
                timestamp = generator.randrange(EXPLICIT_MAX)
                kind = generator.choice([None, None, DeleteKind.VERSION, DeleteKind.COLUMN])
                if kind is None:
                    value = self.new_value()
                    changes.append(Put(family, qualifier, value, generator.choice([None, timestamp])))
                    self.made[row, family, qualifier, 0, "put", value] += 1
                else:
                    changes.append(Delete(kind, family, qualifier, timestamp))
                    self.made[row, family, qualifier, timestamp, NAMES[kind], b""] += 1
        self.change(row, *changes)

    def change_a_hot_row(self) -> None:
        """Overwrites one cell more often than a row in memory may have cells before it is pruned."""
        row = self.generator.choice(ROWS[:2])
        for _ in range(40):
            value = self.new_value()
            self.change(row, Put(b"f", b"hot", value))
            self.made[row, b"f", b"hot", 0, "put", value] += 1

    def put_a_batch(self) -> None:
        """Writes a bulk batch into one region: some as cells, some as rows in columns."""
        region = self.generator.choice(self.regions)
        rows = [row for row in ROWS if region.start <= row and (not region.stop or row < region.stop)]
        if not rows:
            return
        rows = sorted(self.generator.sample(rows, self.generator.randint(1, len(rows))))
        values = [self.new_value() for _ in rows]
        if self.generator.random() < 0.5:
            batch: object = bulk_batch(
                *((row, b"f", b"a", None, value) for row, value in zip(rows, values, strict=True))
            )
        else:
            batch = row_batch([(b"f", b"a")], [(row, None, (value,)) for row, value in zip(rows, values, strict=True)])
        done = threading.Event()
        region.bulk_put(batch, None, WriteOptions(self.clock.monotonic() + WAIT_S), lambda _: done.set())  # type: ignore[arg-type]
        assert done.wait(WAIT_S)
        self.made.update([(row, b"f", b"a", 0, "put", value) for row, value in zip(rows, values, strict=True)])

    def commit_a_bulk_write(self) -> None:
        """Writes some rows of all regions in one commit, and sometimes replaces the table by them."""
        self.server.bulk_writes.spilling.bytes_max = self.generator.choice([1, 1 << 30])
        ref = self.server.clients.sessions.open("job", "ana").ref
        self.server.bulk_writes.open(ref, self.server.table("t"))
        made: list[Key] = []
        for row in sorted(self.generator.sample(ROWS, self.generator.randint(1, 8))):
            value = self.new_value()
            batch = bulk_batch((row, b"f", b"b", None, value))
            self.server.bulk_writes.stage(ref, self.region_of(row), batch, None)
            made.append((row, b"f", b"b", 0, "put", value))
        replaces = self.generator.random() < 0.3
        request = CommitRequest(ref, "t", replaces=replaces)
        commit_bulk_write(self.server, request, Caller("ana", ref), regions_locked(self.server, request))
        self.server.clients.sessions.end(ref, "the job is done")
        self.made.update(made)

    # ---- what happens to regions

    def flush(self) -> None:
        self.server.flush_region(self.generator.choice(self.regions))

    def compact(self, *, major: bool | None = None) -> None:
        region = self.generator.choice(self.regions)
        is_major = self.generator.random() < 0.6 if major is None else major
        for store in region.compaction_facts():
            plan = pick(store.files, CompactionSettings(minor_files_min=2)) if not is_major else None
            plan = plan or pick_requested(store.files, CompactionSettings(), major=is_major)
            if plan is not None:
                self.server._compact_region(region.region_id, store.family.number, plan, Progress())

    def split(self) -> None:
        row = self.generator.choice(ROWS)
        if len(self.regions) < 6:
            with contextlib.suppress(InvalidRequestError):
                self.server.split_region("t", self.region_of(row).region_id, row)

    def merge(self) -> None:
        regions = self.regions
        if len(regions) > 1:
            place = self.generator.randrange(len(regions) - 1)
            with contextlib.suppress(RegionTooBusyError):
                self.server.merge_regions("t", regions[place].region_id, regions[place + 1].region_id)

    def restart(self) -> None:
        if self.generator.random() < 0.5:
            abandon(self.server)
        else:
            self.server.stop()
        self.server = self.open()
        assert not self.server.damaged_regions()

    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)
        for region in self.regions:
            region.note_time()


class Reader:
    """Reads the feed of a table. `seen` is stored with `stored`, the offset: both survive its death.

    They are stored after each batch with which no write number is left incomplete.
    """

    def __init__(self, table: FeedTable) -> None:
        self.table = table
        self.stored: str | None = None
        self.seen: Counter[Key] = Counter()
        self.numbers: dict[bytes, int] = {}  # the newest of each row
        self.cells: set[tuple[object, ...]] = set()  # with their numbers
        self.batch_count = self.part_count = self.split_part_count = 0

    def read(self, batches_max: int | None = None) -> None:
        """Reads some batches, or all, and dies then."""
        generator = self.table.generator
        bytes_max = generator.choice([1, 300, 2000, 1 << 20])
        progress = ChangeProgress("t", None if self.stored is None else json.loads(self.stored))
        count = 0
        unstored: list[pa.RecordBatch] = []
        while True:
            if batches_max is not None and count >= batches_max:
                return
            batch = progress.next_batch()
            if batch is None:
                if progress.is_done:
                    break
                request = progress.request()
                request.bytes_max = bytes_max
                answer = self.answer(request)
                self.part_count += bool(answer.position)
                progress.take(answer)
                if generator.random() < 0.05:
                    self.table.split()
                    self.split_part_count += bool(answer.position)
                continue
            unstored.append(batch)
            if not progress.is_partial:
                self._store(unstored)
                self.stored = json.dumps(progress.offset)
                unstored = []
            count += 1
        assert not unstored, "the feed has ended within a write number"
        self.stored = json.dumps(progress.offset)

    def answer(self, request: region_pb2.ReadChangesRequest) -> region_pb2.ReadChangesResponse:
        calls = ChangeCalls(self.table.server, WORKERS, Ledger(CONFIG), CONFIG)
        return region_pb2.ReadChangesResponse.FromString(calls._read(request.SerializeToString()))

    def _store(self, batches: list[pa.RecordBatch]) -> None:
        """Takes the changes of batches that are stored with one offset."""
        newest_before = dict(self.numbers)
        for batch in batches:
            self.batch_count += 1
            changes = batch.to_pylist()
            numbers = [change["write_number"] for change in changes]
            assert numbers == sorted(numbers), f"a batch is not in order: {numbers}"
            for change in changes:
                self._take(change, newest_before.get(change["row"], -1))

    def _take(self, change: dict[str, Any], newest_before: int) -> None:
        row, number = change["row"], change["write_number"]
        assert newest_before < number, f"{change} comes after number {newest_before} of its row"
        assert self.numbers.get(row, -1) <= number, f"{change} comes after number {self.numbers[row]} of its row"
        self.numbers[row] = number
        cell = tuple(change[name] for name in ("row", "family", "qualifier", "timestamp", "kind", "write_number"))
        assert cell not in self.cells, f"{cell} comes twice"
        self.cells.add(cell)
        key = key_of(change)
        if key is not None:
            self.seen[key] += 1
