"""A server with a table of four regions, for tests of bulk writes."""

from __future__ import annotations

import threading
from pathlib import Path

from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import Clock, ManualClock
from rowlock_regionserver.compaction.picker import pick_requested
from rowlock_regionserver.compaction.progress import Progress
from rowlock_regionserver.compaction.settings import CompactionSettings
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import DiskFullError
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.bulk_commit import CommitRequest, CommitResult, commit_bulk_write, regions_locked
from rowlock_regionserver.host.bulk_write import BulkWrite
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.locks.table_locks import Caller
from rowlock_regionserver.operations import Put, RequestId, RowMutation, ScanPlan, Selection, WriteOptions
from rowlock_regionserver.region.bulk.row_batch import BulkBatch
from rowlock_regionserver.sessions.session import SessionRef

from tests.unit.region.conftest import abandon, bulk_batch
from tests.waiting import WAIT_S, wait_until

CONFIG = Config(log_segment_bytes=1 << 16, disk_free_bytes_min=0, lock_wait_ms=0)
FAMILIES = [Family(0, b"f"), Family(0, b"g")]
# Properties of a table.
ONLY_ON_REQUEST = {"compaction.automatic": "false"}
ID = b"snapshot is 16 b"
ROWS = (b"a", b"h", b"p", b"x")  # one in each region

Cells = list[tuple[bytes, bytes, bytes]]


class Store:
    """A server with a table `t` of four regions."""

    def __init__(
        self, folder: Path, clock: Clock | None = None, files: Files | None = None, spills_at: int = 0
    ) -> None:
        """`spills_at`: what a bulk write may have in bulk files; 0: the usual."""
        self.folder = folder
        self.spills_at = spills_at
        folder.mkdir(exist_ok=True)
        self.clock = clock or ManualClock()
        self.files = files or Files()
        self.open()

    def open(self) -> None:
        self.server = RegionServer.open(self.folder, CONFIG, self.clock, self.files, lambda _: None)
        if self.spills_at:
            self.server.bulk_writes.spilling.bytes_max = self.spills_at

    def crash(self) -> None:
        abandon(self.server)
        self.open()

    def put(self, row: bytes, value: bytes) -> None:
        (region,) = self.server.regions_of("t", row, row + b"\0")
        done = threading.Event()
        options = WriteOptions(self.clock.monotonic() + WAIT_S, Durability.FSYNC)
        mutation = RowMutation(row, (Put(b"f", b"q", value),))
        assert region.mutate([mutation], options, lambda _: done.set(), may_wait=True)
        assert done.wait(WAIT_S)

    def put_after_a_full_disk(self, row: bytes, value: bytes) -> None:
        """Puts when the log, which may have met the full disk, has found out that there is space again."""

        def is_put() -> bool:
            try:
                self.put(row, value)
            except DiskFullError:
                return False
            return True

        wait_until(is_put)

    def session(self, name: str = "job") -> SessionRef:
        ref = self.server.clients.sessions.open(name, "ana").ref
        self.server.bulk_writes.open(ref, self.server.table("t"))
        return ref

    def write_of(self, ref: SessionRef) -> BulkWrite:
        """Returns the session's bulk write."""
        with self.server.clients.sessions.using(ref) as session:
            return self.server.bulk_writes.find(session, self.server.table("t"))

    def stage(
        self,
        ref: SessionRef,
        *cells: tuple[bytes, bytes],
        sequence: int = 0,
        parts_of: tuple[int, ...] = (),
        batch: BulkBatch | None = None,
    ) -> list[int]:
        """Stages (row, value) in family f, each row in its region. Returns the numbers of the batches, one a row."""
        numbers = []
        for row, value in cells or ((b"", b""),) if batch is None else ((b"a", b""),):
            (region,) = self.server.regions_of("t", row, row + b"\0")
            data = bulk_batch((row, b"f", b"q", None, value)) if batch is None else batch
            request = RequestId(bytes(16), sequence, sequence, parts_of=parts_of) if sequence else None
            numbers.append(self.server.bulk_writes.stage(ref, region, data, request).staged_batch)
        return numbers

    def commit(self, ref: SessionRef, **options: object) -> CommitResult:
        request = CommitRequest(ref, "t", **options)  # type: ignore[arg-type]
        return commit_bulk_write(self.server, request, Caller("ana", ref), regions_locked(self.server, request))

    def content(self, snapshot_id: bytes = b"") -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for region in self.server.regions_of("t"):
            reader = self.server.region_at(region.region_id, snapshot_id) if snapshot_id else region
            with reader.scan(ScanPlan()) as (_, answers):
                for answer in answers:
                    found |= {cell["row"]: cell["value"] for cell in answer.table.to_pylist()}
        return found

    def cells(self) -> list[dict[str, object]]:
        """Returns all cells that a scan of all versions finds, with their timestamps."""
        found: list[dict[str, object]] = []
        for region in self.server.regions_of("t"):
            with region.scan(ScanPlan(selection=Selection(versions=100))) as (_, answers):
                for answer in answers:
                    found += answer.table.to_pylist()
        return found

    def compact(self) -> None:
        """Compacts all files of each store to a base."""
        for region in self.server.regions_of("t"):
            for store in region.compaction_facts():
                plan = pick_requested(store.files, CompactionSettings(), major=True)
                if plan is not None:
                    self.server._compact_region(region.region_id, store.family.number, plan, Progress())

    @property
    def bulk_files(self) -> list[str]:
        return sorted(each.name for each in (self.folder / "bulk").iterdir())

    @property
    def staging(self) -> list[str]:
        self.server.bulk_writes.remove_ended()
        return sorted(each.name for each in (self.folder / "staging").iterdir())


def everywhere(value: bytes) -> list[tuple[bytes, bytes]]:
    return [(row, value) for row in ROWS]
