"""Snapshots: a read point of every region of a table, registered until the snapshot is ended or its lease expires.

Invariants
1. All read points of a snapshot are taken while every region's gate is held exclusively. A write that was acknowledged
   before is published, so the snapshot sees it. No write begins before the last read point is taken, so a write that
   followed the acknowledgement of another is never seen without it.
2. Its read points stay registered from then on, so pruning and flush keep the cells that it sees (commit/mvcc.py).
3. A snapshot is registered while the gates are still held. Truncate and drop close the gates, then end it. A split or
   a merge moves it before the old region goes (snapshot_parts.py). So no snapshot outlives its regions.
4. A scan registers the read point again, while the snapshot still holds it. So active scans continue after the end of
   the snapshot, and no scan begins after it.
5. A snapshot that has ended is never served, and its id is never reused: ended ids are remembered. An id from before a
   restart is recognised by the incarnation under which it was chosen.

A snapshot ends on request, when it was not used for its lease, with its table's regions, and with the server. The lease
begins when the snapshot is made or renewed, and when a scan ends; it does not run during a scan.

The lock here comes after the gates and before mvcc's, which is taken under it.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rowlock_regionserver.cells import ReadPoint
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    DeadlineError,
    InvalidRequestError,
    LimitExceededError,
    NotServingRegionError,
    RegionTooBusyError,
    StoppingError,
)
from rowlock_regionserver.host.ended_snapshots import EndedSnapshots, check_snapshot_id, ended_error
from rowlock_regionserver.host.snapshot_parts import SnapshotPart, hold_writes, moved
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.scan.ranges import RowsAt
from rowlock_regionserver.table import Table


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot, as its holder gets it."""

    snapshot_id: bytes
    table: str
    table_id: int
    made_ms: int  # the moment for time to live
    lease_ms: int
    read_points: tuple[tuple[int, int], ...]  # region id and write number, in row order


@dataclass(frozen=True, slots=True)
class SnapshotStatistics:
    """The open snapshots, and counts of others."""

    open_count: int
    scan_count: int  # reading now
    made_count: int
    expired_count: int
    remembered_count: int  # ids of snapshots that ended


@dataclass(frozen=True, slots=True)
class OpenSnapshot:
    """An open snapshot at a moment, with its regions and their read points."""

    snapshot: Snapshot
    parts: tuple[SnapshotPart, ...]
    expires_in_ms: int  # unless a scan reads
    scan_count: int


@dataclass(slots=True)
class _Open:
    """An open snapshot. It expires at `ends_at` on the monotonic clock unless a scan reads."""

    snapshot: Snapshot
    table: Table  # as it was then
    parts: list[SnapshotPart]  # in row order
    ends_at: float
    owner: str = ""
    used_ms: int = 0  # when its lease began
    on_end: Callable[[], object] | None = None  # it belongs to a session, and has no lease
    scan_count: int = 0


@dataclass(frozen=True, slots=True)
class HeldSnapshot:
    """An open snapshot, for people."""

    snapshot: Snapshot
    owner: str
    used_ms: int
    is_of_session: bool


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

    def make(
        self,
        snapshot_id: bytes,
        regions_of: Callable[[], Sequence[Region]],
        lease_ms: int = 0,
        *,
        owner: str = "",
        on_end: Callable[[], object] | None = None,
    ) -> Snapshot:
        """Makes a snapshot of the table whose regions `regions_of` returns, in row order; renews an existing one.

        `on_end` is called when it ends, under the lock of snapshots. With it the snapshot has no lease.
        Blocks until active writes are applied. Raises SnapshotEndedError when this id has ended, RegionTooBusyError,
        DeadlineError, LimitExceededError, InvalidRequestError and NotServingRegionError.
        """
        check_snapshot_id(snapshot_id)
        lease_ms = self._checked_lease(lease_ms)
        deadline = self._clock.monotonic() + self._config.row_lock_wait_ms / 1000
        table = regions_of()[0].table
        with self._changed:
            known = self._claim(snapshot_id, table.name, deadline)
        if known is not None:
            return known
        try:
            with contextlib.ExitStack() as gates:
                regions = hold_writes(gates, regions_of, deadline)
                with self._changed:
                    return self._register(snapshot_id, regions, lease_ms, owner, on_end)
        finally:
            with self._changed:
                self._making.discard(snapshot_id)
                self._changed.notify_all()

    def _checked_lease(self, lease_ms: int) -> int:
        longest = self._config.snapshot_lease_ms_max
        if lease_ms > longest:
            raise LimitExceededError(
                f"a lease of {lease_ms} ms is longer than snapshot_lease_ms_max = {longest}; request a shorter one, "
                "which each scan renews",
                limit="snapshot_lease_ms_max",
                limit_value=longest,
                found=lease_ms,
            )
        return lease_ms or self._config.snapshot_lease_ms

    def _claim(self, snapshot_id: bytes, table: str, deadline: float) -> Snapshot | None:
        """Renews and returns the snapshot of this id. None: there was none, and the caller must make it."""
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
                    f"snapshot {snapshot_id.hex()} is of table {known.snapshot.table!r}, not {table!r}; use another id",
                    table=table,
                )
            self._renew(known)
            return known.snapshot
        count = len(self._open) + len(self._making)
        if count >= self._config.snapshots_open_max:
            raise RegionTooBusyError(
                f"{count} snapshots are open, which is snapshots_open_max; end those you don't need, and retry",
                table=table,
                retry_after_ms=self._config.retry_after_ms,
            )
        self._making.add(snapshot_id)
        return None

    def _register(
        self,
        snapshot_id: bytes,
        regions: Sequence[Region],
        lease_ms: int,
        owner: str,
        on_end: Callable[[], object] | None,
    ) -> Snapshot:
        """Opens the read points. The caller holds the gates and self._changed."""
        if self._is_stopped:
            raise StoppingError("the server is stopping, and its snapshots have ended")
        self._check_not_ended(snapshot_id)  # It may have been ended in the meantime.
        table = regions[0].table
        parts = [SnapshotPart.of(region) for region in regions]
        # Not before any of them was registered: until then, cells that have just expired may be dropped.
        made_ms = max(part.read_point.now_ms for part in parts)
        snapshot = Snapshot(
            snapshot_id,
            table.name,
            table.table_id,
            made_ms,
            lease_ms,
            tuple([(part.region.region_id, part.read_point.write_number) for part in parts]),
        )
        opened = self._open[snapshot_id] = _Open(snapshot, table, parts, 0.0, owner, on_end=on_end)
        self._made_count += 1
        self._renew(opened)
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="snapshots", daemon=True)
            thread.start()  # Raises at the limit of threads; then the next snapshot tries again.
            self._thread = thread
        return snapshot

    def renew(self, snapshot_id: bytes) -> Snapshot:
        """Restarts its lease. Raises SnapshotEndedError."""
        with self._changed:
            opened = self._find(snapshot_id)
            self._renew(opened)
            return opened.snapshot

    def end(self, snapshot_id: bytes, reason: str = "its holder ended it") -> None:
        """Ends the snapshot; active scans continue. If there is none, its id can't be used from now on."""
        check_snapshot_id(snapshot_id)
        with self._changed:
            opened = self._open.get(snapshot_id)
            if opened is not None:
                self._release(opened, reason)
            else:
                self._ended.add(snapshot_id, "", reason, self._clock.now_ms())

    def end_those_of(self, table_id: int, reason: str) -> None:
        """Ends all snapshots of a table, one of whose regions is closed."""
        with self._changed:
            for opened in list(self._open.values()):
                if opened.snapshot.table_id == table_id:
                    self._release(opened, reason)

    def move(self, old: Sequence[Region], new: Sequence[Region]) -> None:
        """Moves all snapshots to the regions that have taken over the rows of others. The old ones are closed."""
        with self._changed:
            for opened in self._open.values():
                opened.parts = moved(opened.parts, old, new)

    def parts(self, snapshot_id: bytes) -> tuple[SnapshotPart, ...]:
        """Returns where its rows are now, in row order. Raises SnapshotEndedError."""
        with self._changed:
            return tuple(self._find(snapshot_id).parts)

    def stop(self) -> None:
        """Ends all snapshots, and refuses new ones. Idempotent."""
        with self._changed:
            self._is_stopped = True
            for opened in list(self._open.values()):
                self._release(opened, "the server is stopping")
            self._changed.notify_all()
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()

    @contextlib.contextmanager
    def reading(self, snapshot_id: bytes, region_id: int) -> Iterator[tuple[Region, Sequence[RowsAt], Table]]:
        """Yields the region, its rows at their read points, and the table at the snapshot.

        The read points are registered while the context is entered. Raises as `check`.
        """
        with self._changed:
            opened = self._find(snapshot_id, region_id)
            parts = [part for part in opened.parts if part.region.region_id == region_id]
            for part in parts:
                part.region.reopen_read_point(part.read_point)
            opened.scan_count += 1
        try:
            made_ms = opened.snapshot.made_ms
            rows_at = [RowsAt(part.rows, ReadPoint(part.read_point.write_number, made_ms)) for part in parts]
            yield parts[0].region, rows_at, opened.table
        finally:
            for part in parts:
                part.release()
            with self._changed:
                opened.scan_count -= 1
                self._renew(opened)

    def check(self, snapshot_id: bytes, region_id: int | None = None) -> Snapshot:
        """Returns the snapshot. Raises SnapshotEndedError, and NotServingRegionError if it lacks the region."""
        with self._changed:
            return self._find(snapshot_id, region_id).snapshot

    def held(self) -> list[HeldSnapshot]:
        """Returns the open snapshots, in the order of their making."""
        with self._changed:
            return [
                HeldSnapshot(opened.snapshot, opened.owner, opened.used_ms, opened.on_end is not None)
                for opened in self._open.values()
            ]

    def opened(self) -> list[OpenSnapshot]:
        """Returns the open snapshots, oldest first."""
        with self._changed:
            now = self._clock.monotonic()
            return [
                OpenSnapshot(
                    opened.snapshot,
                    tuple(opened.parts),
                    max(0, round((opened.ends_at - now) * 1000)),
                    opened.scan_count,
                )
                for opened in sorted(self._open.values(), key=lambda opened: opened.snapshot.made_ms)
            ]

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
        """The thread: ends snapshots whose lease has expired."""
        with self._changed:
            while not self._is_stopped:
                for opened in list(self._open.values()):
                    if self._is_over(opened):
                        self._expire(opened)
                # A scan wakes the thread when it ends.
                ends = [opened.ends_at for opened in self._open.values() if not opened.scan_count]
                self._thread_wakes_at = min(ends, default=math.inf)
                wait_s = self._thread_wakes_at - self._clock.monotonic()
                self._changed.wait(None if math.isinf(wait_s) else max(0.0, wait_s))

    # The caller of the methods below holds self._changed.

    def _find(self, snapshot_id: bytes, region_id: int | None = None) -> _Open:
        check_snapshot_id(snapshot_id)
        self._check_not_ended(snapshot_id)
        opened = self._open.get(snapshot_id)
        if opened is None:
            raise ended_error(snapshot_id, "", "this server has no snapshot of that id, or was restarted since")
        if region_id is not None and all(part.region.region_id != region_id for part in opened.parts):
            raise NotServingRegionError(
                f"region {region_id} is not among the regions of snapshot {snapshot_id.hex()}: it was split or merged, "
                "or is another table's; look it up again",
                table=opened.snapshot.table,
            )
        return opened

    def _check_not_ended(self, snapshot_id: bytes) -> None:
        """Raises SnapshotEndedError. First ends the snapshot if its lease has expired and the thread is late."""
        opened = self._open.get(snapshot_id)
        if opened is not None and self._is_over(opened):
            self._expire(opened)
        self._ended.check(snapshot_id)

    def _is_over(self, opened: _Open) -> bool:
        return not opened.scan_count and opened.ends_at <= self._clock.monotonic()

    def _renew(self, opened: _Open) -> None:
        opened.used_ms = self._clock.now_ms()
        if opened.on_end is not None:
            opened.ends_at = math.inf
            return
        opened.ends_at = self._clock.monotonic() + opened.snapshot.lease_ms / 1000
        if opened.ends_at < self._thread_wakes_at:
            self._changed.notify_all()

    def _expire(self, opened: _Open) -> None:
        self._expired_count += 1
        self._release(opened, f"it was not used for its lease of {opened.snapshot.lease_ms / 1000:g} s")

    def _release(self, opened: _Open, reason: str) -> None:
        snapshot = opened.snapshot
        del self._open[snapshot.snapshot_id]
        self._ended.add(snapshot.snapshot_id, snapshot.table, reason, self._clock.now_ms())
        if opened.on_end is not None:
            opened.on_end()
        for part in opened.parts:
            part.release()
