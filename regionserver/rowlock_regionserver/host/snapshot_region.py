"""A region as a snapshot sees it, for scans that name the snapshot."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rowlock_regionserver.host.snapshots import Snapshots
from rowlock_regionserver.operations import ScanPlan
from rowlock_regionserver.scan.scanner import Scan
from rowlock_regionserver.sources import Reading


@dataclass(frozen=True, slots=True)
class SnapshotRegion:
    """One region of one snapshot. Thread-safe."""

    snapshots: Snapshots
    snapshot_id: bytes
    region_id: int
    table_name: str

    @classmethod
    def of(
        cls, snapshots: Snapshots, snapshot_id: bytes, region_id: int, served: Callable[[int], object]
    ) -> SnapshotRegion:
        """Returns the region as a snapshot sees it. Raises SnapshotEndedError.

        Raises the error of `served`, which looks the region up, when the region was removed but the snapshot exists: it
        was made later, and the caller does not know yet that the table was dropped or truncated.
        """
        snapshots.check(snapshot_id)
        served(region_id)
        return cls(snapshots, snapshot_id, region_id, snapshots.check(snapshot_id, region_id).table)

    @contextlib.contextmanager
    def scan(
        self,
        plan: ScanPlan,
        *,
        is_slice_over: Callable[[], bool] = lambda: False,
        reading: Callable[[], Reading] = lambda: Reading.BULK,
    ) -> Iterator[tuple[int, Scan]]:
        """Scans at the snapshot's read points; see ReadPath.scan. Blocks. The snapshot does not expire during the scan.

        Raises SnapshotEndedError at its start if the snapshot has ended.
        """
        with (
            self.snapshots.reading(self.snapshot_id, self.region_id) as (region, rows_at, table),
            region.scan(plan, rows_at, table, is_slice_over=is_slice_over, reading=reading) as opened,
        ):
            yield opened
