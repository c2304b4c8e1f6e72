"""Named snapshots: takes them, restores them to new tables, and drops them.

A named snapshot is a table in the catalog that is not served. Taking one:

1. The regions are flushed, and again with the table's lock held, so that step 3 has little to flush.
2. The ids of the snapshot's regions are taken from the catalog, durably. So a start removes folders that no commit
   named.
3. The cut: the gates of all regions are held exclusively, in the order of their ids, while the memstores are sealed.
   Then writes go on, and what was sealed is flushed. No other flush runs from before the gates until then, so the store
   files have every write up to the moment of the gates, and none after it. They stay as long as they are referred to.
4. The folders are made: hard links, and a manifest (region/copied_folder.py).
5. The catalog commits: the only commit point.

A commit of a bulk write holds the gates of all its regions until it is visible, so it is in the cut everywhere or
nowhere. Restoring takes steps 2, 4 and 5 with the snapshot as its source, and serves the new regions. Dropping commits,
then ends its readers and removes the folders. All steps that may fail precede the commit, and undo what they made.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rowlock_regionserver.catalog.named_snapshots import NamedSnapshot
from rowlock_regionserver.errors import NotServingRegionError
from rowlock_regionserver.host.opening import open_region
from rowlock_regionserver.host.region_changes import RegionChanges
from rowlock_regionserver.host.region_folder import region_folder, remove_region_folder
from rowlock_regionserver.host.splitting import flush_again
from rowlock_regionserver.locks.lock_matrix import Operation
from rowlock_regionserver.locks.table_locks import Caller
from rowlock_regionserver.region.copied_folder import make_restored_folder, make_snapshot_folder
from rowlock_regionserver.region.flush import FlushResult
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.region.region_cut import RegionCut
from rowlock_regionserver.table import Table


class NamedSnapshotHost(Protocol):
    """The region server as named snapshots see it."""

    def regions_of(self, name: str) -> Sequence[Region]: ...
    def flush_region(self, region: Region) -> FlushResult: ...
    def operation(self, operation: Operation, name: str, caller: Caller) -> contextlib.AbstractContextManager[None]: ...
    def catalog_change(self) -> contextlib.AbstractContextManager[None]: ...


@dataclass(frozen=True, slots=True)
class _Cut:
    """A table at one moment: what each region had then, in row order."""

    regions: Sequence[RegionCut]
    made_ms: int
    stamps_until: int


def create_snapshot(
    host: NamedSnapshotHost, changes: RegionChanges, name: str, table: str, caller: Caller
) -> NamedSnapshot:
    """Takes a named snapshot of a table. Blocks.

    Raises TableNotFoundError, InvalidRequestError, SnapshotExistsError, LimitExceededError, CorruptionError for a
    damaged region, LockUnavailableError, DeadlineError, DiskFullError and OSError, with nothing changed, or
    UnknownOutcomeError.
    """
    limits = changes.shared.config
    state = changes.catalog.state
    count = len(state.entry(table).regions)
    reserved, ids = state.with_reserved_regions(count)
    reserved.with_snapshot(name, table, ids, 0, limits)  # Refuses a wrong request before any work.
    for region in host.regions_of(table):
        with contextlib.suppress(NotServingRegionError):  # It was split a moment ago.
            host.flush_region(region)
    with host.operation(Operation.CREATE_NAMED_SNAPSHOT, table, caller):
        regions = host.regions_of(table)
        reserved, ids = changes.catalog.state.with_reserved_regions(len(regions))
        reserved.with_snapshot(name, table, ids, 0, limits)
        for region in regions:
            flush_again(host, region)
        ids = changes.reserved(len(regions))
        cut = _cut(changes, regions)
        made = changes.catalog.state.with_snapshot(name, table, ids, cut.made_ms, limits)
        snapshot = made.snapshot(name)
        with contextlib.ExitStack() as undo:
            for region_id, source in zip(ids, cut.regions, strict=True):
                path = _new_path(changes, region_id, undo)
                table_id = snapshot.entry.table.table_id
                make_snapshot_folder(changes.shared.files, path, region_id, table_id, source, cut.stamps_until)
            changes.shared.files.fsync_folder(changes.folder / "regions")
            with changes.committed(made, f"snapshot {name!r} of table {table!r} was created", undo):
                return snapshot


def _cut(changes: RegionChanges, regions: Sequence[Region]) -> _Cut:
    """3. Seals all regions with their gates held, and flushes what was sealed."""
    shared = changes.shared
    by_id = sorted(regions, key=lambda region: region.region_id)  # the lock order of the gates
    with contextlib.ExitStack() as all_locks:
        flush_locks = {region.region_id: all_locks.enter_context(contextlib.ExitStack()) for region in by_id}
        for region in by_id:
            flush_locks[region.region_id].enter_context(region.without_flushes())
            region.flush_sealed()
        deadline = shared.clock.monotonic() + shared.config.row_lock_wait_ms / 1000
        with contextlib.ExitStack() as gates:
            numbers = {region.region_id: gates.enter_context(region.sealed(deadline)) for region in by_id}
            made_ms = shared.clock.now_ms()
            stamps_until = 1 + max([region.newest_stamp for region in regions])
        cuts = []
        for region in regions:
            cuts.append(region.cut(numbers[region.region_id]))
            flush_locks[region.region_id].close()  # Flushes of this region need not wait for those of others.
        return _Cut(cuts, made_ms, stamps_until)


def restore_snapshot(host: NamedSnapshotHost, changes: RegionChanges, name: str, table: str, caller: Caller) -> Table:
    """Makes a new table of a named snapshot. Blocks.

    Raises SnapshotNotFoundError, TableExistsError, InvalidRequestError, CorruptionError for a damaged snapshot,
    LockUnavailableError, DiskFullError and OSError, with nothing changed, or UnknownOutcomeError.
    """
    files = changes.shared.files
    with host.operation(Operation.RESTORE_NAMED_SNAPSHOT, table, caller):
        source = changes.catalog.state.snapshot(name).entry
        reserved, ids = changes.catalog.state.with_reserved_regions(len(source.regions))
        reserved.with_restored_table(name, table, ids)  # Refuses a wrong request before any work.
        ids = changes.reserved(len(source.regions))
        state = changes.catalog.state.with_restored_table(name, table, ids)
        entry = state.entry(table)
        made: list[Region] = []
        with contextlib.ExitStack() as undo:
            for old, new in zip(source.regions, entry.regions, strict=True):
                path = _new_path(changes, new.region_id, undo)
                table_id = entry.table.table_id
                make_restored_folder(files, path, new.region_id, table_id, region_folder(changes.folder, old.region_id))
                made.append(open_region(changes.folder, entry.table, new, changes.shared))
                undo.callback(made[-1].abandon)
            files.fsync_folder(changes.folder / "regions")
            with changes.committed(state, f"table {table!r} was restored from snapshot {name!r}", undo):
                for region in made:
                    changes.serve(region)
                return entry.table


def drop_snapshot(host: NamedSnapshotHost, changes: RegionChanges, name: str) -> None:
    """Drops a named snapshot, and removes its folders. Blocks.

    Raises SnapshotNotFoundError, DiskFullError and OSError, with nothing changed, or UnknownOutcomeError.
    """
    with host.catalog_change():
        dropped = changes.catalog.state.snapshot(name)
        state = changes.catalog.state.without_snapshot(name)
        with changes.catalog.committed(state, f"snapshot {name!r} was dropped"):
            changes.snapshots.end_those_of(dropped.entry.table.table_id, f"named snapshot {name!r} was dropped")
            read_by_scans = changes.read_snapshots.remove(dropped)
            for region in dropped.entry.regions:
                folder = region_folder(changes.folder, region.region_id)
                remove_region_folder(changes.shared.files, folder, read_by_scans)


def _new_path(changes: RegionChanges, region_id: int, undo: contextlib.ExitStack) -> Path:
    """Returns the path of a new region's folder; `undo` removes the folder."""
    path = changes.free_path(region_id)
    undo.callback(remove_region_folder, changes.shared.files, path)
    return path
