"""A region's statistics, for operators and tests."""

from __future__ import annotations

from dataclasses import dataclass

from rowlock_regionserver.commit.mvcc import MvccStatistics
from rowlock_regionserver.commit.row_locks import RowLockStatistics
from rowlock_regionserver.region.idempotency.idempotency_statistics import IdempotencyStatistics
from rowlock_regionserver.region.region_parts import RegionParts


@dataclass(frozen=True, slots=True)
class RegionStatistics:
    """A region's sizes, read point, and the statistics of its concurrent parts."""

    memstore_bytes: int
    store_file_count: int
    store_file_bytes: int
    store_file_cells: int
    has_clipped_files: bool  # some have rows of other regions
    read_point: int
    mvcc: MvccStatistics
    row_locks: RowLockStatistics
    request_ids: IdempotencyStatistics


def region_statistics(parts: RegionParts) -> RegionStatistics:
    """Returns the region's statistics now."""
    infos = [info for infos in parts.live_files.manifest.store_files.values() for info in infos]
    return RegionStatistics(
        memstore_bytes=parts.stores.memstore_bytes,
        store_file_count=len(infos),
        store_file_bytes=sum(info.file_bytes for info in infos),
        store_file_cells=sum(info.cell_count for info in infos),
        has_clipped_files=any(info.is_clipped for info in infos),
        read_point=parts.mvcc.read_point,
        mvcc=parts.mvcc.statistics(),
        row_locks=parts.row_locks.statistics(),
        request_ids=parts.idempotency.statistics(),
    )
