"""Which region holds a row, as far as this client knows: a cache that may be stale and is corrected by the servers.

A server that does not have a region answers NOT_SERVING_REGION; then the region is forgotten and looked up again. So
an entry may be wrong at any time, and no more is promised than that regions of one table never overlap in here.

The ids of regions count within a data folder, and at an address may stand the server of another folder tomorrow, whose
region 1 is another table. So a call that names a region also names its folder, and a server of another one does
nothing and says so; then nothing that was known is true any more.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from rowlock.schema import Region


@dataclass(frozen=True, slots=True)
class _TableRegions:
    """Known regions of one table, by start."""

    starts: tuple[bytes, ...] = ()
    regions: tuple[Region, ...] = ()


_NONE = _TableRegions()


class RegionCache:
    """Known regions by table. Thread-safe; looking up takes no lock, since each table's entry is replaced whole."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Writes are guarded by self._lock:
        self._tables: dict[str, _TableRegions] = {}

    def find(self, table: str, row: bytes) -> Region | None:
        """The region that holds the row, None when it is not known. O(log n)."""
        known = self._tables.get(table, _NONE)
        index = bisect_right(known.starts, row) - 1
        if index < 0:
            return None
        region = known.regions[index]
        return region if not region.stop or row < region.stop else None

    def cover(self, table: str, start: bytes, stop: bytes) -> tuple[Region, ...] | None:
        """All regions that touch [start, stop), in row order; None if there is a gap. O(regions)."""
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
        """Adds what a catalog answered, in place of all that overlaps it."""
        added = list(regions)
        with self._lock:
            known = self._tables.get(table, _NONE).regions
            kept = [old for old in known if not any(_overlap(old, new) for new in added)]
            joined = sorted([*kept, *added], key=lambda region: region.start)
            self._tables[table] = _TableRegions(tuple(region.start for region in joined), tuple(joined))

    def forget(self, region: Region) -> None:
        """Drops one region, if it is still what is known."""
        with self._lock:
            known = self._tables.get(region.table, _NONE).regions
            kept = [old for old in known if old.region_id != region.region_id]
            self._tables[region.table] = _TableRegions(tuple(old.start for old in kept), tuple(kept))

    def forget_all(self) -> None:
        """Drops everything: the server at an address has another data folder than it had."""
        with self._lock:
            self._tables = {}

    def forget_table(self, table: str) -> None:
        """Drops all regions of a table: it was dropped, truncated or altered."""
        with self._lock:
            self._tables.pop(table, None)

    def _check(self) -> None:
        for known in self._tables.values():
            assert known.starts == tuple(region.start for region in known.regions), "the starts are not the regions'"
            for left, right in zip(known.regions, known.regions[1:], strict=False):
                assert left.start < right.start, f"{left} and {right} are out of order"
                assert not _overlap(left, right), f"{left} and {right} overlap"


def _overlap(left: Region, right: Region) -> bool:
    return (not right.stop or left.start < right.stop) and (not left.stop or right.start < left.stop)
