"""Splits a region, or merges two neighbours: the operation, from its request to the catalog's new regions.

How regions are replaced is in region_changes.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from rowlock_proto.shown_names import row_text

from rowlock_regionserver.catalog.catalog import CatalogState
from rowlock_regionserver.catalog.regions import RegionEntry
from rowlock_regionserver.config import KIB
from rowlock_regionserver.errors import InvalidRequestError
from rowlock_regionserver.host.region_changes import RegionChanges
from rowlock_regionserver.locks.lock_matrix import Operation
from rowlock_regionserver.locks.table_locks import Caller
from rowlock_regionserver.operations import ScanPlan
from rowlock_regionserver.region.flush import FlushResult
from rowlock_regionserver.region.region import Region

# How finely the middle is searched for.
_PARTS = 1000
# What is written during a flush, or while an operation waits for its locks, is flushed again before writes have to wait
# for that: until so little is left, but not more often than so, because each flush makes a store file.
_FEW_BYTES = 64 * KIB
_FLUSHES_MAX = 4


class FlushingHost(Protocol):
    """The region server as `flush_again` sees it."""

    def flush_region(self, region: Region) -> FlushResult: ...


class SplittingHost(FlushingHost, Protocol):
    """The region server as splits and merges see it."""

    def region(self, region_id: int) -> Region: ...
    def operation(
        self, operation: Operation, name: str, caller: Caller, region_ids: Sequence[int]
    ) -> contextlib.AbstractContextManager[None]: ...


def split_region(
    host: SplittingHost, changes: RegionChanges, name: str, region_id: int, row: bytes | None, caller: Caller
) -> tuple[RegionEntry, RegionEntry]:
    """Replaces a region by two: the rows before `row`, and those from it on; None: where its data is halved. Blocks.

    Raises InvalidRequestError for a row that does not divide the region, NotServingRegionError, LockUnavailableError
    and the errors of RegionChanges.replace.
    """
    at = middle_row(host.region(region_id)) if row is None else row

    def split(state: CatalogState, ids: Sequence[int]) -> CatalogState:
        return state.with_split_region(name, region_id, at, (ids[0], ids[1]))

    what = f"region {region_id} of table {name!r} was split at {row_text(at)}"
    left, right = _replaced(host, changes, Operation.SPLIT, name, caller, [region_id], 2, split, what)
    return left, right


def merge_regions(
    host: SplittingHost, changes: RegionChanges, name: str, left_id: int, right_id: int, caller: Caller
) -> RegionEntry:
    """Replaces two neighbours by one region. Blocks.

    Raises InvalidRequestError if they are not neighbours, RegionTooBusyError if they have cells from before an alter of
    their limits, NotServingRegionError, LockUnavailableError and the errors of RegionChanges.replace.
    """

    def merge(state: CatalogState, ids: Sequence[int]) -> CatalogState:
        return state.with_merged_regions(name, left_id, right_id, ids[0])

    what = f"regions {left_id} and {right_id} of table {name!r} were merged"
    (merged,) = _replaced(host, changes, Operation.MERGE, name, caller, [left_id, right_id], 1, merge, what)
    return merged


def middle_row(region: Region) -> bytes:
    """Returns the first row of the second half of a region's data, estimated from its indexes.

    Raises InvalidRequestError if they show no row inside.
    """
    parts = region.parts(ScanPlan(), 1)
    if len(parts) > _PARTS:
        parts = region.parts(ScanPlan(), sum(part.byte_count for part in parts) // _PARTS)
    total, before = sum(part.byte_count for part in parts), 0
    found: list[tuple[int, bytes]] = []
    for part in parts:
        start = part.ranges[0][0]
        if start > region.start:
            found.append((abs(total - 2 * before), start))
        before += part.byte_count
    if not found:
        raise InvalidRequestError(
            f"region {region.region_id} of table {region.table.name!r} has too little data to tell where its middle "
            "is; give the row at which to split it",
            table=region.table.name,
        )
    return min(found)[1]


def flush_again(host: FlushingHost, region: Region) -> None:
    """Flushes a region that was flushed a moment ago until little is left for a flush while writes wait. Blocks."""
    for _ in range(_FLUSHES_MAX):
        if region.memstore_bytes <= _FEW_BYTES:
            break
        host.flush_region(region)


def _replaced(
    host: SplittingHost,
    changes: RegionChanges,
    operation: Operation,
    name: str,
    caller: Caller,
    old_ids: Sequence[int],
    new_count: int,
    with_new: Callable[[CatalogState, Sequence[int]], CatalogState],
    what: str,
) -> list[RegionEntry]:
    """Replaces regions by new ones, with the locks of the operation. Returns the new ones, in row order.

    `with_new` returns a state with the new regions, of these ids, in the place of the old ones.
    """
    with_new(*changes.catalog.state.with_reserved_regions(new_count))  # Refuses a wrong request before any work.
    for region_id in old_ids:
        host.flush_region(host.region(region_id))
    with host.operation(operation, name, caller, old_ids):
        new_ids = changes.reserved(new_count)
        state = with_new(changes.catalog.state, new_ids)
        entry = state.entry(name)
        new = [region for region in entry.regions if region.region_id in new_ids]
        old = [host.region(region_id) for region_id in old_ids]
        changes.replace(entry.table, old, new, state, partial(flush_again, host), what)
    return new
