"""Snapshots: a read point of every region of a table, kept registered until it is ended or nobody uses it.

Invariants
1. All read points of a snapshot are taken while every region's gate is held alone. What was acknowledged before is
   published, so it is seen. No write begins before the last read point is taken, so a write that followed the
   acknowledgement of another is never seen without it.
2. Its read points stay registered from then on, so pruning and flush keep what it sees (commit/mvcc.py).
3. A snapshot is registered while the gates are still held. Whoever removes a region closes its gate first and then
   ends the snapshots that have it, so none of these is left.
4. A scan registers the read point once more, while the snapshot still holds it. So the end of the snapshot lets
   scans that have begun go on, and none begins after it.
5. One that has ended is never served and never made again: its id is remembered. An id of before a restart is told by
   the incarnation that it was chosen under.

A snapshot ends when it is told to, when nobody used it for its lease, with its table's regions, and with the server.
The lease runs from the last time that it was made, renewed, or left by a scan; while a scan reads it does not run.

The lock here comes after the gates and before mvcc's, which is taken under it.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from rowlock_regionserver.cells import ReadPoint
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    DeadlineError,
    InvalidRequestError,
    LimitExceededError,
    RegionTooBusyError,
    StoppingError,
)
from rowlock_regionserver.host.ended_snapshots import EndedSnapshots, ended_error
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.table import Table

SNAPSHOT_ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What its holder is told of a snapshot."""

    snapshot_id: bytes
    table: str
    table_id: int
    made_ms: int  # time to live is judged by it
    lease_ms: int
    read_points: tuple[tuple[int, int], ...]  # region id and write number, in row order


@dataclass(frozen=True, slots=True)
class SnapshotStatistics:
    """Snapshots that are open now, and what became of the others."""

    open_count: int
    scan_count: int  # reading now
    made_count: int
    expired_count: int
    remembered_count: int  # ids of snapshots that ended


@dataclass(slots=True)
class _Open:
    """A snapshot that holds its read points, until `ends_at` on the monotonic clock unless a scan reads."""

    snapshot: Snapshot
    table: Table  # as it was then
    regions: dict[int, tuple[Region, ReadPoint]]
    ends_at: float
    scan_count: int = 0


class Snapshots:
    """All snapshots of a server. Thread-safe; only `make` blocks, on the gates."""

    def __init__(self, config: Config, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._changed = threading.Condition(threading.Lock())
        # Guarded by self._changed:
        self._open: dict[bytes, _Open] = {}
        self._making: set[bytes] = set()
        self._ended = EndedSnapshots(config.snapshot_ids_remembered)
        self._made_count = 0
        self._expired_count = 0
        self._is_stopped = False
        self._thread: threading.Thread | None = None  # started with the first snapshot
        self._thread_wakes_at = math.inf

    def make(self, snapshot_id: bytes, regions_of: Callable[[], Sequence[Region]], lease_ms: int = 0) -> Snapshot:
        """A snapshot of the table whose regions `regions_of` gives, in row order; one that is there is renewed.

        Blocks until the writes that are under way are applied. Raises SnapshotEndedError when this id has ended,
        RegionTooBusyError, DeadlineError, LimitExceededError, InvalidRequestError and NotServingRegionError.
        """
        check_snapshot_id(snapshot_id)
        lease_ms = self._checked_lease(lease_ms)
        deadline = self._clock.monotonic() + self._config.row_lock_wait_ms / 1000
        regions = regions_of()
        table = regions[0].table
        with self._changed:
            known = self._claim(snapshot_id, table.name, deadline)
        if known is not None:
            return known
        try:
            with contextlib.ExitStack() as gates:
                # By id: whoever else holds several gates takes them in this order too.
                for region in sorted(regions, key=lambda region: region.region_id):
                    gates.enter_context(region.without_writes(deadline))
                with self._changed:
                    return self._register(snapshot_id, regions, lease_ms)
        finally:
            with self._changed:
                self._making.discard(snapshot_id)
                self._changed.notify_all()

    def _checked_lease(self, lease_ms: int) -> int:
        longest = self._config.snapshot_lease_ms_max
        if lease_ms > longest:
            raise LimitExceededError(
                f"a lease of {lease_ms} ms is longer than snapshot_lease_ms_max = {longest}; ask for less, each scan "
                "begins it anew",
                limit="snapshot_lease_ms_max",
                limit_value=longest,
                found=lease_ms,
            )
        return lease_ms or self._config.snapshot_lease_ms

    def _claim(self, snapshot_id: bytes, table: str, deadline: float) -> Snapshot | None:
        """The snapshot of this id, renewed; None: there was none, and it is the caller's to make."""
        while snapshot_id in self._making:
            if not self._changed.wait(deadline - self._clock.monotonic()):
                raise DeadlineError(
                    f"timed out waiting for snapshot {snapshot_id.hex()}, which another call is making; retry"
                )
        self._check_not_ended(snapshot_id)
        known = self._open.get(snapshot_id)
        if known is not None:
            if known.snapshot.table != table:
                raise InvalidRequestError(
                    f"snapshot {snapshot_id.hex()} is of table {known.snapshot.table!r}, not {table!r}; draw another",
                    table=table,
                )
            self._renew(known)
            return known.snapshot
        count = len(self._open) + len(self._making)
        if count >= self._config.snapshots_open_max:
            raise RegionTooBusyError(
                f"{count} snapshots are open, which is snapshots_open_max; end those you don't need and try again",
                table=table,
                retry_after_ms=self._config.retry_after_ms,
            )
        self._making.add(snapshot_id)
        return None

    def _register(self, snapshot_id: bytes, regions: Sequence[Region], lease_ms: int) -> Snapshot:
        """Opens the read points. The caller holds the gates and self._changed."""
        if self._is_stopped:
            raise StoppingError("the server is stopping, and its snapshots have ended")
        self._check_not_ended(snapshot_id)  # Its end may have come in between.
        table = regions[0].table
        made_ms = self._clock.now_ms()
        read_points = [ReadPoint(region.open_read_point().write_number, made_ms) for region in regions]
        snapshot = Snapshot(
            snapshot_id,
            table.name,
            table.table_id,
            made_ms,
            lease_ms,
            tuple((region.region_id, at.write_number) for region, at in zip(regions, read_points, strict=True)),
        )
        by_region = {region.region_id: (region, at) for region, at in zip(regions, read_points, strict=True)}
        opened = self._open[snapshot_id] = _Open(snapshot, table, by_region, 0.0)
        self._made_count += 1
        self._renew(opened)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="snapshots", daemon=True)
            self._thread.start()
        return snapshot

    def renew(self, snapshot_id: bytes) -> Snapshot:
        """Begins its lease anew. Raises SnapshotEndedError."""
        with self._changed:
            opened = self._find(snapshot_id)
            self._renew(opened)
            return opened.snapshot

    def end(self, snapshot_id: bytes) -> None:
        """Lets it go; scans that have begun go on. One that is not there is never made from now on."""
        check_snapshot_id(snapshot_id)
        with self._changed:
            opened = self._open.get(snapshot_id)
            if opened is not None:
                self._let_go(opened, "its holder ended it")
            else:
                self._ended.add(snapshot_id, "", "its holder ended it")

    def end_those_of(self, region_ids: Collection[int], reason: str) -> None:
        """Ends all that have one of these regions, which are closed."""
        with self._changed:
            for opened in list(self._open.values()):
                if not opened.regions.keys().isdisjoint(region_ids):
                    self._let_go(opened, reason)

    def stop(self) -> None:
        """Ends all of them and makes no more. Idempotent."""
        with self._changed:
            self._is_stopped = True
            for opened in list(self._open.values()):
                self._let_go(opened, "the server is stopping")
            self._changed.notify_all()
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()

    @contextlib.contextmanager
    def reading(self, snapshot_id: bytes, region_id: int) -> Iterator[tuple[Region, ReadPoint, Table]]:
        """The region, its read point, registered while the context is entered, and the table as it was then.

        Raises SnapshotEndedError.
        """
        with self._changed:
            opened = self._find(snapshot_id, region_id)
            region, read_point = opened.regions[region_id]
            region.reopen_read_point(read_point)
            opened.scan_count += 1
        try:
            yield region, read_point, opened.table
        finally:
            region.close_read_point(read_point)
            with self._changed:
                opened.scan_count -= 1
                self._renew(opened)

    def check(self, snapshot_id: bytes, region_id: int | None = None) -> None:
        """Raises SnapshotEndedError unless it is there, and a scan of the region may begin now."""
        with self._changed:
            self._find(snapshot_id, region_id)

    def statistics(self) -> SnapshotStatistics:
        with self._changed:
            return SnapshotStatistics(
                open_count=len(self._open),
                scan_count=sum(opened.scan_count for opened in self._open.values()),
                made_count=self._made_count,
                expired_count=self._expired_count,
                remembered_count=len(self._ended),
            )

    def _run(self) -> None:
        """The thread: ends what nobody used for its lease."""
        with self._changed:
            while not self._is_stopped:
                for opened in list(self._open.values()):
                    if self._is_over(opened):
                        self._expire(opened)
                # Those that a scan reads wake the thread when it ends.
                ends = [opened.ends_at for opened in self._open.values() if not opened.scan_count]
                self._thread_wakes_at = min(ends, default=math.inf)
                wait_s = self._thread_wakes_at - self._clock.monotonic()
                self._changed.wait(None if math.isinf(wait_s) else max(0.0, wait_s))

    # The caller of all below holds self._changed.

    def _find(self, snapshot_id: bytes, region_id: int | None = None) -> _Open:
        check_snapshot_id(snapshot_id)
        self._check_not_ended(snapshot_id)
        opened = self._open.get(snapshot_id)
        if opened is None:
            raise ended_error(snapshot_id, "", "this server has none of that id, or has been started anew since")
        if region_id is not None and region_id not in opened.regions:
            raise ended_error(snapshot_id, opened.snapshot.table, f"region {region_id} is not among its regions")
        return opened

    def _check_not_ended(self, snapshot_id: bytes) -> None:
        """Whatever the thread is at, one whose lease is over is not served."""
        opened = self._open.get(snapshot_id)
        if opened is not None and self._is_over(opened):
            self._expire(opened)
        self._ended.check(snapshot_id)

    def _is_over(self, opened: _Open) -> bool:
        return not opened.scan_count and opened.ends_at <= self._clock.monotonic()

    def _renew(self, opened: _Open) -> None:
        opened.ends_at = self._clock.monotonic() + opened.snapshot.lease_ms / 1000
        if opened.ends_at < self._thread_wakes_at:
            self._changed.notify_all()

    def _expire(self, opened: _Open) -> None:
        self._expired_count += 1
        self._let_go(opened, f"nobody used it for its lease of {opened.snapshot.lease_ms / 1000:g} s")

    def _let_go(self, opened: _Open, reason: str) -> None:
        snapshot = opened.snapshot
        del self._open[snapshot.snapshot_id]
        self._ended.add(snapshot.snapshot_id, snapshot.table, reason)
        for region, read_point in opened.regions.values():
            region.close_read_point(read_point)


def check_snapshot_id(snapshot_id: bytes) -> None:
    """InvalidRequestError unless it has the length of an id."""
    if len(snapshot_id) != SNAPSHOT_ID_BYTES:
        raise InvalidRequestError(
            f"a snapshot's id has {SNAPSHOT_ID_BYTES} random bytes, this one has {len(snapshot_id)}; draw one"
        )
