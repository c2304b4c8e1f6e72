"""Opening: reads a data folder, replays its log, and puts its regions into service.

1. Read the catalog, then each region's manifest and open its store files.
2. Replay the log's records into the memstores; past the memory limit, flush the largest region.
3. Compare catalog and manifests with the log: a generation that is older than the one in the log is damage.
4. Remove unnamed files that are proven to be leftovers, and set the others aside.
5. Open the log for writing, and pass it the flushed write numbers and the dropped regions.
6. Put the regions into service.

A damaged region is closed and reported; the others are served. Its files are not removed, so that salvage finds all of
them. Step 3 must precede a flush in step 2, which can't be undone: then the log is read one more time, for step 3.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from rowlock_regionserver.catalog import catalog
from rowlock_regionserver.catalog.catalog import CatalogState
from rowlock_regionserver.catalog.regions import RegionEntry
from rowlock_regionserver.errors import CorruptionError, OutOfMemoryError, RegionServerError, UnknownOutcomeError
from rowlock_regionserver.host.leftovers import (
    Unnamed,
    lost_catalog,
    lost_manifest,
    region_folders,
    unnamed_files_of_region,
    unnamed_region_folders,
)
from rowlock_regionserver.host.region_folder import region_folder, remove_region_folder
from rowlock_regionserver.host.set_aside import SetAside, list_set_aside, set_aside
from rowlock_regionserver.host.staging import StagedContents, StagedWrite, Staging
from rowlock_regionserver.process_limits import lack_of_memory_refused
from rowlock_regionserver.region.bulk.bulk_file import bulk_file_number
from rowlock_regionserver.region.bulk.bulk_load import BulkNumbers
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.region.region_parts import MadeFolder, open_parts
from rowlock_regionserver.region.region_replay import Replay
from rowlock_regionserver.region.shared_parts import SharedParts
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.log import Log
from rowlock_regionserver.wal.log_replay import Apply
from rowlock_regionserver.wal.marker import RegionState
from rowlock_regionserver.wal.recovered import Recovered
from rowlock_regionserver.wal.recovery import ReadLog, read_log, recover


@dataclass(frozen=True, slots=True)
class Opened:
    """The state with which a region server begins."""

    generation: int  # of the catalog
    state: CatalogState
    log: Log
    bulk_numbers: BulkNumbers
    regions: dict[int, Region]
    damaged: dict[int, RegionServerError]  # by region id, why it is closed
    staged: list[tuple[StagedWrite, StagedContents]]  # the open bulk writes
    set_aside: tuple[SetAside, ...]


def open_region(
    folder: Path,
    table: Table,
    region: RegionEntry,
    shared: SharedParts,
    commits: Collection[int] = (),
    made: MadeFolder | None = None,
) -> Region:
    """Opens a region from its folder, for replay. `commits`: those of bulk writes in the catalog.

    `made`: see open_parts. Raises CorruptionError, TooManyOpenFilesError, OutOfMemoryError and OSError.
    """
    path = region_folder(folder, region.region_id)
    with lack_of_memory_refused(path):
        return Region(open_parts(region.region_id, (region.start, region.stop), table, path, shared, commits, made))


class Opening:
    """Opens one data folder. The caller holds its lock. For one use by one thread."""

    def __init__(self, folder: Path, shared: SharedParts) -> None:
        self._folder = folder
        self._shared = shared
        self._files = shared.files
        self._memory = shared.memory
        self._generation = 0
        self._state = CatalogState()
        self._damaged: dict[int, RegionServerError] = {}
        self._is_newest_checked = False
        self._replays: dict[int, Replay] = {}

    def open(self) -> Opened:
        """Blocks for the recovery. Raises CorruptionError, DataFolderError, DiskFullError and OSError."""
        for name in ("catalog", "log", "bulk", "regions", "staging"):
            with contextlib.suppress(FileExistsError):
                self._files.make_folder(self._folder / name)
        self._files.fsync_folder(self._folder)
        self._read_catalog()
        regions = self._open_regions()
        recovered = self._replay(regions)
        self._check_newest(regions, recovered)
        self._clear_unnamed(regions, recovered)
        return self._begin_serving(regions, recovered)

    def _read_catalog(self) -> None:
        found = catalog.read_catalog(self._files, self._folder / "catalog")
        if found is not None:
            self._generation, self._state = found
        elif any(region_folders(self._folder, self._files)):
            raise CorruptionError(
                self._folder / "catalog", 0, "a catalog that names the regions there are", "no catalog"
            )

    def _open_regions(self) -> dict[int, Region]:
        regions: dict[int, Region] = {}
        for entry in self._state.tables:
            for region in entry.regions:
                try:
                    regions[region.region_id] = open_region(
                        self._folder, entry.table, region, self._shared, self._state.commits.numbers
                    )
                except (CorruptionError, OSError) as error:
                    path = region_folder(self._folder, region.region_id)
                    self._damaged[region.region_id] = damage_of(error, path)
        return regions

    def _replay(self, regions: dict[int, Region]) -> Recovered:
        """Fills the memstores from the log. Closes regions of which the log lost records."""
        replays = self._replays = {region_id: region.replay for region_id, region in regions.items()}
        for each in replays.values():
            each.commits = self._state.commits.numbers

        def apply(region_id: int, write_number: int, kind: int, payload: bytes) -> None:
            replay = replays.get(region_id)
            if replay is None:
                return  # Dropped, or damaged already, or of a split without its commit.
            try:
                replay.apply(write_number, kind, payload)
            except (CorruptionError, OSError) as error:
                self._close(regions, region_id, damage_of(error, self._shared.bulk_folder))
            if self._memory.is_under_pressure:
                self._relieve(regions)

        recovered = self._read_log(recover, apply, regions)
        if self._generation == 0 and recovered.record_count and recovered.regions:
            raise CorruptionError(
                self._folder / "catalog", 0, "a catalog that names the regions in the log", "no catalog"
            )
        for region_id in list(regions):
            damage = recovered.damage_of(region_id)
            if damage is not None:
                self._close(regions, region_id, damage.error())
        return recovered

    def _close(self, regions: dict[int, Region], region_id: int, damage: RegionServerError) -> None:
        """Closes a damaged region: it gets no more records of the log, and is not served."""
        self._damaged[region_id] = damage
        self._replays.pop(region_id, None)
        regions.pop(region_id).abandon()

    def _relieve(self, regions: dict[int, Region]) -> None:
        """Flushes the largest region, as replay has passed the memory limit; does step 3 before the first flush."""
        if not self._is_newest_checked:
            self._check_newest(regions, self._read_log(read_log, lambda *_: None, regions))
        if regions:
            max(regions.values(), key=lambda region: region.memstore_bytes).flush_while_opening()

    def _read_log(self, read: ReadLog, apply: Apply, regions: dict[int, Region]) -> Recovered:
        """Reads the log by `recover` or `read_log`, with the positions and write numbers of catalog and manifests."""
        positions = [region.found.log_position for region in regions.values()]
        return read(
            self._folder / "log",
            self._files,
            apply,
            flushed={region_id: region.found.flushed_write_number for region_id, region in regions.items()},
            expected_log_id=self._state.log_id or None,
            durable=max([self._state.log_position, *positions]),
        )

    def _check_newest(self, regions: dict[int, Region], recovered: Recovered) -> None:
        """3. Raises CorruptionError when the catalog is not the newest; closes regions whose manifest is not."""
        self._is_newest_checked = True
        lost = lost_catalog(self._folder, self._files, self._generation, self._state, recovered)
        if lost is not None:
            raise lost
        for region_id, region in list(regions.items()):
            path = region_folder(self._folder, region_id)
            lost = lost_manifest(path, region.found.generation, recovered.regions.get(region_id))
            if lost is not None:
                self._close(regions, region_id, lost)

    def _clear_unnamed(self, regions: dict[int, Region], recovered: Recovered) -> None:
        """4. Files that can't be moved or removed stay, which is harmless."""
        for unnamed in list(unnamed_region_folders(self._folder, self._files, self._state, recovered)):
            if unnamed.is_leftover:
                remove_region_folder(self._files, unnamed.path)
            else:
                self._move_aside(unnamed, int(unnamed.path.name))
        for region_id, region in regions.items():
            for unnamed in unnamed_files_of_region(region.found.unnamed, region_id, recovered):
                if unnamed.is_leftover:
                    with contextlib.suppress(OSError):
                        self._files.remove_if_there(unnamed.path)
                else:
                    self._move_aside(unnamed, region_id)

    def _move_aside(self, unnamed: Unnamed, region_id: int) -> None:
        with contextlib.suppress(OSError, OutOfMemoryError):
            set_aside(self._folder, self._files, self._shared.clock, unnamed, region_id)

    def _begin_serving(self, regions: dict[int, Region], recovered: Recovered) -> Opened:
        shared = self._shared
        log = Log.open(self._folder / "log", self._files, shared.config, shared.clock, recovered, shared.on_fatal)
        if self._generation == 0:
            self._generation, self._state = 1, replace(self._state, log_id=log.log_id)
            catalog.write_catalog(self._files, self._folder / "catalog", self._generation, self._state)
        if recovered.catalog_generation < self._generation:
            with log.order:
                log.note_catalog(self._generation)
            # Without the note, the next start can't distinguish what an interrupted create has left from the trace of a
            # lost catalog. If the log fails, `on_fatal` ends the server.
            with contextlib.suppress(UnknownOutcomeError):
                log.sync()
        # The replay has shown which bulk files the log names.
        staged = Staging(self._folder / "staging", self._files).read(self._state)
        bulk_numbers = BulkNumbers(1 + self._remove_unnamed_bulk_files(regions, staged))
        for region_id, region in regions.items():
            logged = recovered.regions.get(region_id, RegionState())
            region.serve(log, bulk_numbers, logged.numbers_until, logged.stamps_until)
        for region_id in self._damaged:
            log.give_up(region_id)
        # These regions were dropped, damaged or not: before the log knew of it, or so long ago that its last marker
        # does not name them although segments still have their changes. Or they are of a split without its commit.
        logged_ids = {region_id for segment in recovered.segments for region_id in segment.regions}
        for region_id in logged_ids.union(recovered.regions, recovered.damaged):
            if region_id not in regions and region_id not in self._damaged:
                log.forget(region_id)
        aside = tuple(list_set_aside(self._folder, self._files))
        return Opened(self._generation, self._state, log, bulk_numbers, regions, self._damaged, staged, aside)

    def _remove_unnamed_bulk_files(
        self, regions: dict[int, Region], staged: list[tuple[StagedWrite, StagedContents]]
    ) -> int:
        """Removes bulk files that no live record and no staged batch names. Returns the greatest number of all.

        That of a lost file counts, too: what names it would read or remove another file of this number. If a region is
        damaged, all files stay, because salvage may need them.
        """
        named = {number for region in regions.values() for number in region.bulk_files}
        staged_files = [each for _, contents in staged for _, each in contents.unspilled()]
        named.update([each.record.file_number for each in staged_files])
        # A batch names its bulk file again if its spill is lost.
        of_batches = [each.record.file_number for _, contents in staged for each in contents.every_batch()]
        greatest = max([*named, *of_batches], default=0)
        for name in self._files.list_folder(self._shared.bulk_folder):
            number = bulk_file_number(name)
            if number is None:
                continue
            greatest = max(greatest, number)
            if number not in named and not self._damaged:
                self._files.remove_if_there(self._shared.bulk_folder / name)
        return greatest


def damage_of(error: CorruptionError | OSError, path: Path) -> CorruptionError:
    """Returns the damage for which a region is closed, at `path` by default. Raises errors that are not of the file."""
    return error if isinstance(error, CorruptionError) else CorruptionError.of(error, path)
