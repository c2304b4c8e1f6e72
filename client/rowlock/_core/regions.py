"""A cache of region locations. An entry may be stale; the servers' answers correct it.

A server that does not have a region answers NOT_SERVING_REGION. The client then forgets the region and looks it up
again. So an entry may be wrong at any time. The only guarantee is that cached regions of one table never overlap.

Region ids are unique only within a data folder. The server of another folder may take over an address later, and its
region 1 belongs to another table. So a call that names a region also names the data folder. A server of another folder
refuses the call without any effect, and the client then forgets all regions.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rowlock.schema import Region


@dataclass(frozen=True, slots=True)
class _TableRegions:
    """The cached regions of one table, by start."""

    starts: tuple[bytes, ...] = ()
    regions: tuple[Region, ...] = ()


_NONE = _TableRegions()


def _start(region: Region) -> bytes:
    return region.start


def _overlaps_any(region: Region, others: Sequence[Region], starts: Sequence[bytes]) -> bool:
    """Whether one of the others overlaps the region. They are in order, with these starts, and do not overlap."""
    # Only the last one that starts before the region's stop can reach it.
    place = bisect_left(starts, region.stop) if region.stop else len(others)
    return place > 0 and others[place - 1].overlaps(region.start, region.stop)


class RegionCache:
    """Cached regions by table. Thread-safe. Lookups take no lock, because each table's entry is immutable."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Writes are guarded by self._lock:
        self._tables: dict[str, _TableRegions] = {}

    def find(self, table: str, row: bytes) -> Region | None:
        """Returns the region that holds the row; None if it is not cached. O(log n)."""
        known = self._tables.get(table, _NONE)
        index = bisect_right(known.starts, row) - 1
        if index < 0:
            return None
        region = known.regions[index]
        return region if not region.stop or row < region.stop else None

    def mapping_text(self, table: str) -> str | None:
        """Returns the mapping that the table kept when one of its regions was looked up; None if none is cached."""
        known = self._tables.get(table, _NONE).regions
        return known[0].mapping_text if known else None

    def cover(self, table: str, start: bytes, stop: bytes) -> tuple[Region, ...] | None:
        """Returns the regions that overlap [start, stop), in row order; None if the cache has a gap. O(regions)."""
        found: list[Region] = []
        position = start
        while True:
            region = self.find(table, position)
            if region is None:
                return None
            found.append(region)
            if not region.stop or (stop and region.stop >= stop):
                return tuple(found)
            position = region.stop

    def store(self, table: str, regions: Iterable[Region]) -> None:
        """Adds regions from the catalog and removes cached ones that overlap them."""
        added = sorted(regions, key=_start)
        starts = [region.start for region in added]
        with self._lock:
            known = self._tables.get(table, _NONE).regions
            remaining = [old for old in known if not _overlaps_any(old, added, starts)]
            merged = sorted([*remaining, *added], key=_start)
            self._tables[table] = _TableRegions(tuple(region.start for region in merged), tuple(merged))

    def forget(self, region: Region) -> None:
        """Removes one region, if it is still cached."""
        with self._lock:
            known = self._tables.get(region.table, _NONE).regions
            remaining = [old for old in known if old.region_id != region.region_id]
            self._tables[region.table] = _TableRegions(tuple(old.start for old in remaining), tuple(remaining))

    def forget_all(self) -> None:
        """Removes everything, because another data folder's server has taken over an address."""
        with self._lock:
            self._tables = {}

    def forget_table(self, table: str) -> None:
        """Removes all regions of a table.

        It was dropped, truncated or altered, or its mapping is to be looked up again.
        """
        with self._lock:
            self._tables.pop(table, None)

    def _check(self) -> None:
        for known in self._tables.values():
            assert known.starts == tuple(region.start for region in known.regions), "the starts are not the regions'"
            for left, right in zip(known.regions, known.regions[1:], strict=False):
                assert left.start < right.start, f"{left} and {right} are out of order"
                assert not left.overlaps(right.start, right.stop), f"{left} and {right} overlap"
