"""The tables and regions that a region server serves: look-ups, which change nothing."""

from __future__ import annotations

from collections.abc import Sequence

from rowlock_regionserver.catalog.live_catalog import LiveCatalog
from rowlock_regionserver.catalog.named_snapshots import NamedSnapshot
from rowlock_regionserver.catalog.regions import RegionEntry
from rowlock_regionserver.catalog.table_entry import TableEntry
from rowlock_regionserver.errors import NotServingRegionError, RegionServerError
from rowlock_regionserver.host.read_snapshots import ReadSnapshots, is_snapshot
from rowlock_regionserver.host.region_changes import RegionChanges
from rowlock_regionserver.host.snapshot_region import SnapshotRegion
from rowlock_regionserver.host.snapshots import Snapshots
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.table import Table


class ServedRegions:
    """The part of RegionServer that looks tables and regions up. Thread-safe."""

    # Set by RegionServer.
    snapshots: Snapshots
    _catalog: LiveCatalog
    _regions: dict[int, Region]
    _damaged: dict[int, RegionServerError]
    _read_snapshots: ReadSnapshots
    _changes: RegionChanges

    def tables(self) -> list[Table]:
        return [entry.table for entry in self._catalog.state.tables]

    @property
    def table_entries(self) -> Sequence[TableEntry]:
        """All tables with their regions."""
        return self._catalog.state.tables

    def table(self, name: str) -> Table:
        return self.table_entry(name).table

    def table_entry(self, name: str) -> TableEntry:
        """The table with its regions, also damaged ones. Raises TableNotFoundError."""
        return self._catalog.state.entry(name)

    def region(self, region_id: int) -> Region:
        """The region of this id, of a table or of a named snapshot that is read.

        Raises NotServingRegionError, or CorruptionError when it was closed for damage.
        """
        region = self._regions.get(region_id) or self._read_snapshots.region(region_id)
        if region is None:
            damage = self._damaged.get(region_id)
            if damage is not None:
                raise damage.without_frames()  # Each raise would add the frames of its request.
            raise NotServingRegionError(f"region {region_id} is not served here; look the region up again")
        return region

    def successor(self, region_id: int, rows: Sequence[bytes]) -> Region | None:
        """The region that has all of these rows of one that was split or merged; None if there is none."""
        for new_id in self._changes.replaced.successors(region_id):
            region = self._regions.get(new_id)
            if region is not None and all(region.has(row) for row in rows):
                return region
        return None

    def regions_of(self, name: str, start: bytes = b"", stop: bytes = b"") -> list[Region]:
        """The regions of a table that overlap [start, stop), in row order."""
        return [self.region(region.region_id) for region in self.entries_of(name, start, stop)]

    def entries_of(self, name: str, start: bytes = b"", stop: bytes = b"") -> list[RegionEntry]:
        """The entries of the regions of a table that overlap [start, stop), in row order; also of damaged ones."""
        return [region for region in self.table_entry(name).regions if region.overlaps(start, stop)]

    # Tables and named snapshots, for calls that only read. A named snapshot has the name `@NAME`.

    def readable_entry(self, name: str) -> TableEntry:
        """The table or snapshot with its regions. Raises TableNotFoundError and SnapshotNotFoundError."""
        return self._read_snapshots.entry(name) if is_snapshot(name) else self.table_entry(name)

    def readable_regions_of(self, name: str, start: bytes = b"", stop: bytes = b"") -> list[Region]:
        """The regions that overlap [start, stop), in row order. Opens those of a snapshot, which blocks on the disk."""
        if is_snapshot(name):
            return self._read_snapshots.regions_of(name, start, stop)
        return self.regions_of(name, start, stop)

    def owner_of(self, region_id: int) -> str | None:
        """Returns the table that has the region; "" if none has it any more, None if none ever had. O(regions)."""
        state = self._catalog.state
        if not 0 < region_id < state.next_region_id:
            return None
        for entry in state.tables:
            if any(region.region_id == region_id for region in entry.regions):
                return entry.table.name
        return ""

    def damaged_regions(self) -> dict[int, RegionServerError]:
        return dict(self._damaged)

    # Snapshots.

    @property
    def named_snapshots(self) -> Sequence[NamedSnapshot]:
        """All named snapshots, by name."""
        return self._catalog.state.snapshots

    def region_at(self, region_id: int, snapshot_id: bytes) -> SnapshotRegion:
        """The region as a snapshot sees it; see SnapshotRegion.of."""
        return SnapshotRegion.of(self.snapshots, snapshot_id, region_id, self.region)
