"""The statistics of a region server."""

from __future__ import annotations

from dataclasses import dataclass

from rowlock_regionserver.host.snapshots import SnapshotStatistics
from rowlock_regionserver.storefile.open_files import OpenFilesStatistics
from rowlock_regionserver.wal.log import LogStatistics


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
