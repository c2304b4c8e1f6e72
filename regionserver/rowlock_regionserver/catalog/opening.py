"""Opening: what a data folder holds is read, replayed, and begins to be served.

1. The catalog, then each region's manifest and store files. What nobody names is removed.
2. The log's records go into the memstores; past the memory limit, the largest region is flushed.
3. The log is open for writing. It is told how far each region is flushed, and which ones are gone.
4. Regions serve.

A region with damage is closed and named; the others serve. Nothing of it is removed, so that salvage finds all.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from rowlock_regionserver.catalog import catalog
from rowlock_regionserver.catalog.catalog import CatalogState, RegionEntry
from rowlock_regionserver.errors import CorruptionError, RegionServerError
from rowlock_regionserver.files import Files
from rowlock_regionserver.region.bulk_file import bulk_file_number
from rowlock_regionserver.region.bulk_load import BulkNumbers
from rowlock_regionserver.region.contents import RegionContents
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.region.shared_parts import SharedParts
from rowlock_regionserver.region.table import Table
from rowlock_regionserver.wal.log import Log
from rowlock_regionserver.wal.marker import RegionState
from rowlock_regionserver.wal.recovery import Recovered, recover


@dataclass(frozen=True, slots=True)
class Opened:
    """What a region server begins with."""

    generation: int  # of the catalog
    state: CatalogState
    log: Log
    bulk_numbers: BulkNumbers
    regions: dict[int, Region]
    damaged: dict[int, RegionServerError]  # by region id, why it is closed


def region_folder(folder: Path, region_id: int) -> Path:
    """Where the data folder keeps a region."""
    return folder / "regions" / str(region_id)


def remove_region_folder(files: Files, folder: Path, but: Collection[Path] = ()) -> None:
    """Removes what nobody names any more, if it is there. A crash in between leaves it to the next start.

    `but`: files that are removed by who reads them last, and the folder with the last of them.
    """
    with contextlib.suppress(FileNotFoundError):
        for name in files.list_folder(folder):
            if folder / name not in but:
                files.remove_if_there(folder / name)
        try:
            files.remove_folder(folder)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or not but:
                raise


def region_contents(folder: Path, table: Table, region: RegionEntry, shared: SharedParts) -> RegionContents:
    """A region's contents as its folder has them. Raises CorruptionError."""
    return RegionContents(
        region.region_id, (region.start, region.stop), table, region_folder(folder, region.region_id), shared
    )


class Opening:
    """Opens one data folder, whose lock the caller has. Used once, by one thread."""

    def __init__(self, folder: Path, shared: SharedParts) -> None:
        self._folder = folder
        self._shared = shared
        self._files = shared.files
        self._memory = shared.memory
        self._generation = 0
        self._state = CatalogState()
        self._damaged: dict[int, RegionServerError] = {}

    def open(self) -> Opened:
        """Blocks as long as recovery takes. Raises CorruptionError, DataFolderError, DiskFullError and OSError."""
        for name in ("catalog", "log", "bulk", "regions"):
            with contextlib.suppress(FileExistsError):
                self._files.make_folder(self._folder / name)
        self._files.fsync_folder(self._folder)
        self._read_catalog()
        contents = self._open_contents()
        recovered = self._replay(contents)
        return self._begin_serving(contents, recovered)

    def _read_catalog(self) -> None:
        found = catalog.read_catalog(self._files, self._folder / "catalog")
        if found is not None:
            self._generation, self._state = found
        named = {str(region.region_id) for entry in self._state.tables for region in entry.regions}
        for name in self._files.list_folder(self._folder / "regions"):
            if name.isdigit() and name not in named:
                if found is None:
                    raise CorruptionError(
                        self._folder / "catalog", 0, "a catalog that names the regions there are", "no catalog"
                    )
                remove_region_folder(self._files, region_folder(self._folder, int(name)))

    def _open_contents(self) -> dict[int, RegionContents]:
        contents: dict[int, RegionContents] = {}
        for entry in self._state.tables:
            for region in entry.regions:
                try:
                    contents[region.region_id] = region_contents(self._folder, entry.table, region, self._shared)
                except CorruptionError as error:
                    self._damaged[region.region_id] = error
        return contents

    def _replay(self, contents: dict[int, RegionContents]) -> Recovered:
        """Fills the memstores from the log. Regions that the log lost something of are closed and named."""

        replays = {region_id: region.replay for region_id, region in contents.items()}

        def apply(region_id: int, write_number: int, kind: int, payload: bytes) -> None:
            replay = replays.get(region_id)
            if replay is None:
                return  # Dropped, or damaged already.
            try:
                replay.apply(write_number, kind, payload)
            except CorruptionError as error:
                self._damaged[region_id] = error
                del replays[region_id]
                contents.pop(region_id).abandon()
            if self._memory.is_under_pressure:
                max(contents.values(), key=lambda region: region.stores.memstore_bytes).flush_while_recovering()

        flushed = {region_id: region.mvcc.last for region_id, region in contents.items()}
        recovered = recover(
            self._folder / "log",
            self._files,
            apply,
            flushed=flushed,
            expected_log_id=self._state.log_id or None,
        )
        if self._generation == 0 and recovered.record_count and recovered.regions:
            raise CorruptionError(
                self._folder / "catalog", 0, "a catalog that names the regions in the log", "no catalog"
            )
        for region_id in list(contents):
            damage = recovered.damage_of(region_id)
            if damage is not None and region_id not in self._damaged:
                self._damaged[region_id] = damage.error()
                contents.pop(region_id).abandon()
        return recovered

    def _begin_serving(self, contents: dict[int, RegionContents], recovered: Recovered) -> Opened:
        shared = self._shared
        log = Log.open(self._folder / "log", self._files, shared.config, shared.clock, recovered, shared.on_fatal)
        if self._generation == 0:
            self._generation, self._state = 1, replace(self._state, log_id=log.log_id)
            catalog.write_catalog(self._files, self._folder / "catalog", self._generation, self._state)
        for each in contents.values():
            each.recovered()
        # Only now is it known which bulk files the log names.
        bulk_numbers = BulkNumbers(1 + self._remove_unnamed_bulk_files(contents))
        regions: dict[int, Region] = {}
        for region_id, each in contents.items():
            logged = recovered.regions.get(region_id, RegionState())
            regions[region_id] = Region(each, log, bulk_numbers, logged.numbers_until, logged.stamps_until)
        for region_id in self._damaged:
            log.give_up(region_id)
        # Dropped, damaged or not: before the log was told so, or so long ago that its last marker names them no more
        # although segments still hold their changes.
        logged_ids = {region_id for segment in recovered.segments for region_id in segment.regions}
        for region_id in logged_ids.union(recovered.regions, recovered.broken):
            if region_id not in regions and region_id not in self._damaged:
                log.forget(region_id)
        return Opened(self._generation, self._state, log, bulk_numbers, regions, self._damaged)

    def _remove_unnamed_bulk_files(self, contents: dict[int, RegionContents]) -> int:
        """Removes bulk files that no live record names; gives the greatest number there was.

        With a damaged region everything stays: salvage may want it.
        """
        named = {number for region in contents.values() for number in region.bulk_files}
        greatest = 0
        for name in self._files.list_folder(self._shared.bulk_folder):
            number = bulk_file_number(name)
            if number is None:
                continue
            greatest = max(greatest, number)
            if number not in named and not self._damaged:
                self._files.remove_if_there(self._shared.bulk_folder / name)
        return greatest
