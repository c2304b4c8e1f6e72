"""The parts of a region server that the commit of a bulk write needs (bulk_commit.py)."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from rowlock_regionserver.catalog.commits import Commits
from rowlock_regionserver.catalog.live_catalog import LiveCatalog
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.region.shared_parts import SharedParts
from rowlock_regionserver.wal.log import Log


@dataclass(frozen=True, slots=True)
class CommitParts:
    """They are those of the server, and not copies."""

    catalog: LiveCatalog
    log: Log
    shared: SharedParts
    regions: Mapping[int, Region]
    damaged: Container[int]

    @property
    def commits(self) -> Commits:
        """The commits so far."""
        return self.catalog.state.commits

    def is_flushed(self, region_id: int, write_number: int) -> bool:
        """Whether no start will replay the region's log up to the number."""
        if region_id in self.regions:
            return self.regions[region_id].flushed_write_number >= write_number
        return region_id not in self.damaged
