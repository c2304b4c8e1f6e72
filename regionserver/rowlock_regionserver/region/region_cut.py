"""What a named snapshot takes from a region: its files, with every write up to one moment and none after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rowlock_regionserver.region.region_parts import RegionParts
from rowlock_regionserver.storefile.reader import StoreFile
from rowlock_regionserver.table import Table


@dataclass(frozen=True, slots=True)
class RegionCut:
    """The store files of a region at one moment. While this object exists, they stay on the disk.

    table: with the limits that the region has applied. write_number: the newest one up to the moment. stamps_are_own:
    see Manifest. store_files: by family number, newest first.
    """

    table: Table
    write_number: int
    stamps_are_own: bool
    store_files: Mapping[int, tuple[StoreFile, ...]]

    @staticmethod
    def of(parts: RegionParts, write_number: int) -> RegionCut:
        """Returns the files as they are: they have every write up to the number, and none after it."""
        return RegionCut(
            parts.stores.served.table,
            write_number,
            parts.live_files.manifest.stamps_are_own,
            {store.family.number: store.files for store in parts.stores.all()},
        )
