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
    store_file_bytes: int  # of a file with rows of other regions, those of this one, estimated; its cells too
    store_file_cells: int
    has_clipped_files: bool  # some have rows of other regions
    read_point: int
    mvcc: MvccStatistics
    row_locks: RowLockStatistics
    request_ids: IdempotencyStatistics


def region_statistics(parts: RegionParts) -> RegionStatistics:
    """Returns the region's statistics now."""
    files = [file for store in parts.stores.all() for file in store.files]
    return RegionStatistics(
        memstore_bytes=parts.stores.memstore_bytes,
        store_file_count=len(files),
        store_file_bytes=sum(file.byte_count for file in files),
        store_file_cells=sum(file.estimated(file.info.cell_count) for file in files),
        has_clipped_files=any(file.info.is_clipped for file in files),
        read_point=parts.mvcc.read_point,
        mvcc=parts.mvcc.statistics(),
        row_locks=parts.row_locks.statistics(),
        request_ids=parts.idempotency.statistics(),
    )
