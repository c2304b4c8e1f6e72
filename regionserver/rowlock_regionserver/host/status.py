"""What a region server holds at a moment, for people: its tables, snapshots, log and disk."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rowlock_regionserver.catalog.named_snapshots import NamedSnapshot
from rowlock_regionserver.catalog.table_entry import TableEntry
from rowlock_regionserver.errors import RegionServerError
from rowlock_regionserver.host.compacting import CompactionThreads
from rowlock_regionserver.host.named_snapshot_sizes import HeldBySnapshots
from rowlock_regionserver.host.server_statistics import RegionServerStatistics
from rowlock_regionserver.host.snapshots import OpenSnapshot, Snapshots
from rowlock_regionserver.region.region import Region


@dataclass(frozen=True, slots=True)
class TableStatus:
    """A table's sizes; those of damaged regions are not in them."""

    name: str
    region_count: int
    damaged_region_count: int
    memstore_bytes: int
    store_file_count: int
    store_file_bytes: int
    store_file_cells: int


class StatusHost(Protocol):
    """The region server as its status sees it. Thread-safe."""

    @property
    def snapshots(self) -> Snapshots: ...
    @property
    def compactions(self) -> CompactionThreads: ...
    @property
    def named_snapshots(self) -> Sequence[NamedSnapshot]: ...
    def held_by_snapshots(self, snapshots: Sequence[NamedSnapshot]) -> HeldBySnapshots: ...
    @property
    def table_entries(self) -> Sequence[TableEntry]: ...
    def region(self, region_id: int) -> Region: ...
    def statistics(self) -> RegionServerStatistics: ...
    def uptime_ms(self) -> int: ...


def table_statuses(entries: Iterable[TableEntry], region_of: Callable[[int], Region]) -> list[TableStatus]:
    """Returns the sizes of each table, sorted by name."""
    return [_table_status(entry, region_of) for entry in sorted(entries, key=lambda entry: entry.table.name)]


def _table_status(entry: TableEntry, region_of: Callable[[int], Region]) -> TableStatus:
    found = []
    for region in entry.regions:
        # It is closed because of damage, or its table was dropped a moment ago.
        with contextlib.suppress(RegionServerError):
            found.append(region_of(region.region_id).statistics())
    return TableStatus(
        name=entry.table.name,
        region_count=len(entry.regions),
        damaged_region_count=len(entry.regions) - len(found),
        memstore_bytes=sum(region.memstore_bytes for region in found),
        store_file_count=sum(region.store_file_count for region in found),
        store_file_bytes=sum(region.store_file_bytes for region in found),
        store_file_cells=sum(region.store_file_cells for region in found),
    )


def writes_since(opened: OpenSnapshot) -> int:
    """Returns how many writes its regions have published since it was made; it keeps what they replaced.

    After a split or a merge that is a guess, because the new regions have one sequence of numbers each.
    """
    return sum(part.region.statistics().read_point - part.read_point.write_number for part in opened.parts)


def folder_bytes(folder: Path) -> int:
    """Returns the bytes of the files in a folder, without those that are removed meanwhile."""
    total = 0
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                total += entry.stat().st_size
    return total
