"""The statistics of a region server."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass

from rowlock_regionserver.catalog.catalog import CatalogState
from rowlock_regionserver.host.snapshots import Snapshots, SnapshotStatistics
from rowlock_regionserver.region.shared_parts import SharedParts
from rowlock_regionserver.storefile.open_files import OpenFilesStatistics
from rowlock_regionserver.wal.log import Log, LogStatistics


@dataclass(frozen=True, slots=True)
class RegionServerStatistics:
    """The region server at a moment."""

    table_count: int
    region_count: int
    damaged_region_count: int
    memstore_bytes: int
    request_id_bytes: int  # of saved answers
    log: LogStatistics
    snapshots: SnapshotStatistics
    open_files: OpenFilesStatistics

    @staticmethod
    def of(
        state: CatalogState,
        regions: Sized,
        damaged: Sized,
        shared: SharedParts,
        log: Log,
        snapshots: Snapshots,
    ) -> RegionServerStatistics:
        """Returns the statistics of these parts."""
        return RegionServerStatistics(
            table_count=len(state.tables),
            region_count=len(regions),
            damaged_region_count=len(damaged),
            memstore_bytes=shared.memory.bytes_held,
            request_id_bytes=shared.request_ids.bytes_held,
            log=log.statistics(),
            snapshots=snapshots.statistics(),
            open_files=shared.open_files.statistics(),
        )
