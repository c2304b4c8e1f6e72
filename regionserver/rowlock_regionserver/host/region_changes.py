"""Puts regions into service and takes them out: the part of table operations that concerns regions.

New folders are made before the catalog's commit that names them, and old ones are removed after it. All steps that may
fail precede the commit. The caller holds the lock of the catalog.

A split or a merge replaces regions by others with the same rows:

1. The ids of the new regions are taken from the catalog, durably. So a start removes folders that no commit named.
2. The old regions are flushed. The folders of the new regions are made, with hard links to the files, which are opened
   (region/linked_files.py). Most of the work is done here, and writes do not wait.
3. The old regions are flushed again until little is left. With the gate of a region held exclusively, the cells that
   came since the flush are copied; if they are more than 256 KiB, it is flushed once more instead. Files that are new
   since 2 are linked, and links to replaced ones are removed. The new regions get a manifest (region/successor.py),
   which has the copied cells too, and are opened.
   A split holds the gate only for the cells. The changes that are made after them are copied to the new regions
   (region/copied_changes.py), and the gate is held again from the last ones on. A merge holds the gates of both regions
   all the time, in the order of their ids. While a gate is held, writes wait, and reads do not.
4. The catalog commits: the only commit point.
5. The old regions refuse all calls. Snapshots move to the new regions, which keep their read points. Then the new
   regions are served. No new region takes a write before the old one refuses reads, so no read misses a write.
6. The gates are released. Row changes that waited are made by the new region that has all their rows, and so are those
   that come later (replaced_regions.py). Other calls are refused, and the client looks the region up again. Scans that
   have begun read the old regions to their end. Each file is removed when its last reader is done.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rowlock_regionserver.catalog.catalog import CatalogState
from rowlock_regionserver.catalog.live_catalog import LiveCatalog
from rowlock_regionserver.catalog.regions import RegionEntry
from rowlock_regionserver.catalog.table_entry import TableEntry
from rowlock_regionserver.errors import RegionServerError, TooManyOpenFilesError, UnknownOutcomeError
from rowlock_regionserver.host.compacting import CompactionThreads
from rowlock_regionserver.host.opening import open_region
from rowlock_regionserver.host.read_snapshots import ReadSnapshots
from rowlock_regionserver.host.region_folder import free_region_path, region_folder, remove_region_folder
from rowlock_regionserver.host.replaced_regions import ReplacedRegions
from rowlock_regionserver.host.snapshots import Snapshots
from rowlock_regionserver.host.timestamps import Timestamps
from rowlock_regionserver.region.bulk.bulk_load import BulkNumbers
from rowlock_regionserver.region.copied_changes import CopiedChanges
from rowlock_regionserver.region.linked_files import LinkedFiles
from rowlock_regionserver.region.new_region import inherited_answers, make_region_folder
from rowlock_regionserver.region.predecessor import Predecessor
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.region.shared_parts import SharedParts
from rowlock_regionserver.region.succession import NUMBERS_AHEAD_MAX
from rowlock_regionserver.region.successor import finish_successor_folder
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.log import Log

# Makes the new regions, OPENING, from what the old ones hand over, and a bound of their stamps; 0: the log has one.
Prepare = Callable[[Sequence[Predecessor], int], Sequence[Region]]


@dataclass(frozen=True, slots=True)
class Successors:
    """New regions, OPENING, with what the log has reserved for them: bounds of write numbers and stamps."""

    regions: Sequence[Region]
    numbers_until: int = 0
    stamps_until: int = 0


@dataclass(frozen=True, slots=True)
class RegionChanges:
    """The parts of a server that this takes; they are the server's own, and not copies."""

    folder: Path
    shared: SharedParts
    catalog: LiveCatalog
    log: Log
    regions: dict[int, Region]  # those that are served, by id
    damaged: dict[int, RegionServerError]
    snapshots: Snapshots
    compactions: CompactionThreads
    timestamps: Timestamps
    bulk_numbers: BulkNumbers
    read_snapshots: ReadSnapshots
    replaced: ReplacedRegions = field(default_factory=ReplacedRegions)
    made: set[int] = field(default_factory=set)  # regions for which this server has made folders

    @contextlib.contextmanager
    def created(
        self, entry: TableEntry, state: CatalogState, replaced: Mapping[int, Region | None], what: str
    ) -> Iterator[None]:
        """Makes empty regions, commits the state that names them, puts them into service, runs the block.

        `replaced`: by id, the region that the new one replaces; None: it is damaged. It takes no more writes, so its
        saved answers are complete. `what` describes the operation, for errors.
        """
        made: list[Region] = []
        with contextlib.ExitStack() as undo:
            for region in entry.regions:
                path = self.free_path(region.region_id)
                answers = inherited_answers(replaced[region.region_id]) if region.region_id in replaced else None
                make_region_folder(self.shared.files, path, region.region_id, entry.table, self.shared.config, answers)
                made.append(open_region(self.folder, entry.table, region, self.shared))
                undo.callback(made[-1].abandon)
            with self.catalog.committed(state, what):
                undo.pop_all()
                for new in made:
                    self.serve(new, replaced.get(new.region_id))
                yield

    def free_path(self, region_id: int) -> Path:
        """Frees and returns the path of a new region's folder; see free_region_path."""
        return free_region_path(self.folder, self.shared, region_id, self.made)

    def serve(self, region: Region, replaced: Region | None = None) -> None:
        """Puts an opened region into service."""
        region.serve(self.log, self.bulk_numbers)
        with self.timestamps.lock:
            self.timestamps.begin(region, replaced)
            self.regions[region.region_id] = region

    def remove(self, entry: TableEntry, reason: str) -> None:
        """Takes all regions of a table out of service that the catalog no longer names, and removes their files."""
        for entry_region in entry.regions:
            region = self.regions.get(entry_region.region_id)
            self.damaged.pop(entry_region.region_id, None)
            if region is not None:
                # It stays registered until it is closed: if the log fails, its waiting callers must be notified.
                self.compactions.forget(region.region_id, (), reason)
                region.close_for_removal()
                self.snapshots.end_those_of(entry.table.table_id, reason)
                del self.regions[entry_region.region_id]
            self._remove(entry_region.region_id, region, reason)

    def _remove(self, region_id: int, region: Region | None, reason: str) -> None:
        """Removes the files of a closed region; None: of a damaged one."""
        read_by_scans: set[Path] = set()
        if region is not None:
            self.compactions.forget(region_id, (), reason)
            read_by_scans = region.discard()
        self.log.forget(region_id)
        # The catalog does not name it any more: the next start removes files that can't be removed now.
        with contextlib.suppress(TooManyOpenFilesError):
            remove_region_folder(self.shared.files, region_folder(self.folder, region_id), read_by_scans)

    def replace(
        self,
        table: Table,
        old: Sequence[Region],
        new: Sequence[RegionEntry],
        state: CatalogState,
        flush_again: Callable[[Region], None],
        what: str,
    ) -> None:
        """Replaces served and flushed regions by new ones with the same rows: steps 2 to 6. `state` names the new ones.

        `flush_again` flushes a region until little is left. Raises RegionTooBusyError, DeadlineError,
        NotServingRegionError, DiskFullError and OSError, with nothing changed, or UnknownOutcomeError.
        """
        with contextlib.ExitStack() as undo:
            linked = [self._linked(entry, old, undo) for entry in new]
            self.shared.files.fsync_folder(self.folder / "regions")
            by_id = sorted(old, key=lambda region: region.region_id)  # the lock order of the gates
            for region in by_id:
                flush_again(region)
            for each in linked:
                each.follow([region.live_store_files() for region in old])
            with contextlib.ExitStack() as gates:
                for region in by_id:
                    gates.enter_context(region.without_flushes())
                prepare = partial(self._successors, table, new, linked, undo)
                if len(by_id) == 1:
                    made = self._split(by_id[0], prepare, gates, undo)
                else:
                    made = self._merged(by_id, prepare, gates)
                with self.committed(state, what, undo):
                    self._exchange(old, made)
                    gates.close()
        del linked, prepare  # They refer to the old store files, which are removed with the last reference.
        for region in old:
            self._retire(region, f"{what}, and other regions have its rows")

    def reserved(self, count: int) -> tuple[int, ...]:
        """Takes the ids of new regions from the catalog, durably."""
        state, ids = self.catalog.state.with_reserved_regions(count)
        with self.catalog.committed(state, f"{count} numbers of regions were reserved"):
            return tuple(ids)

    def _linked(self, entry: RegionEntry, old: Sequence[Region], undo: contextlib.ExitStack) -> LinkedFiles:
        """2. Makes the folder of a region that takes over the rows of others, in row order. `undo` removes it."""
        path = self.free_path(entry.region_id)
        undo.callback(remove_region_folder, self.shared.files, path)
        self.shared.files.make_folder(path)
        linked = LinkedFiles(path, (entry.start, entry.stop), self.shared)
        linked.follow([region.live_store_files() for region in old])
        return linked

    def _merged(self, old: Sequence[Region], prepare: Prepare, gates: contextlib.ExitStack) -> Successors:
        """3. for a merge. `gates` holds the gates of the old regions from here on."""
        deadline = self._deadline()
        predecessors = [gates.enter_context(region.succession.handed_over(deadline)) for region in old]
        predecessors.sort(key=lambda predecessor: predecessor.start)
        stamps_until = self._stamps_until(old, gates)
        return Successors(prepare(predecessors, stamps_until))

    def _split(
        self, old: Region, prepare: Prepare, gates: contextlib.ExitStack, undo: contextlib.ExitStack
    ) -> Successors:
        """3. for a split. `gates` holds the gate of the old region at the end."""
        succession = old.succession
        with succession.handed_over(self._deadline(), NUMBERS_AHEAD_MAX) as predecessor:
            noted = gates.enter_context(succession.noted_changes())
        made = prepare([predecessor], 0)  # The log will reserve the stamps.
        for region in made:
            region.replay.keeps_old_versions = True  # for the old region's readers
            undo.callback(self.log.forget, region.region_id)
        copied = CopiedChanges(noted, made, self.log)
        copied.copy()
        gates.enter_context(succession.held(self._deadline()))
        stamps_until = self._stamps_until([old], gates)
        last = old.newest_write_number
        copied.finish(last, stamps_until)
        return Successors(made, last, stamps_until)

    def _deadline(self) -> float:
        return self.shared.clock.monotonic() + self.shared.config.row_lock_wait_ms / 1000

    def _stamps_until(self, old: Sequence[Region], gates: contextlib.ExitStack) -> int:
        """Returns a bound of the stamps of regions. `gates` holds the lock of the timestamp ranges from here on.

        So no client gets a range that the new regions would not know.
        """
        gates.enter_context(self.timestamps.lock)
        return 1 + max([region.newest_stamp for region in old])

    def _successors(
        self,
        table: Table,
        new: Sequence[RegionEntry],
        linked: Sequence[LinkedFiles],
        undo: contextlib.ExitStack,
        predecessors: Sequence[Predecessor],
        stamps_until: int,
    ) -> list[Region]:
        """3. Finishes the folders of regions that take over the rows of others, and opens them. `undo` closes them."""
        files, config = self.shared.files, self.shared.config
        opened: list[Region] = []
        for entry, of_region in zip(new, linked, strict=True):
            made = finish_successor_folder(files, of_region, entry.region_id, predecessors, stamps_until, config)
            opened.append(open_region(self.folder, table, entry, self.shared, made=made))
            undo.callback(opened[-1].abandon)
        return opened

    @contextlib.contextmanager
    def committed(self, state: CatalogState, what: str, undo: contextlib.ExitStack) -> Iterator[None]:
        """Commits the state, and runs the block. Nothing is undone from then on, nor if the outcome is unknown."""
        try:
            with self.catalog.committed(state, what):
                undo.pop_all()
                yield
        except UnknownOutcomeError:
            undo.pop_all()
            raise

    def _exchange(self, old: Sequence[Region], made: Successors) -> None:
        """5. Ends the old regions and serves the new ones. The caller holds the lock of the timestamps."""
        new = made.regions
        for region in new:
            region.serve(self.log, self.bulk_numbers, made.numbers_until, made.stamps_until)
        for region in old:
            region.end_replaced()
        self.snapshots.move(old, new)
        for region in new:
            self.timestamps.begin(region, None)
            self.regions[region.region_id] = region
        self.replaced.add([region.region_id for region in old], [region.region_id for region in new])
        for region in old:
            del self.regions[region.region_id]
            region.succession.pass_changes_on(new)

    def _retire(self, region: Region, reason: str) -> None:
        """6. Removes a region that was replaced."""
        self.compactions.forget(region.region_id, (), reason)
        region.close_for_removal()
        self._remove(region.region_id, region, reason)
