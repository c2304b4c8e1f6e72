"""The parts of a region that its reads, writes, flushes and replay share, made from the region's folder."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rowlock_regionserver.catalog.properties import changes_retained_ms
from rowlock_regionserver.commit.gate import Gate
from rowlock_regionserver.commit.mvcc import Mvcc
from rowlock_regionserver.commit.row_locks import RowLocks
from rowlock_regionserver.durable_files import TEMPORARY_SUFFIX
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.region.applied_limits import with_applied_limits
from rowlock_regionserver.region.apply import Applier
from rowlock_regionserver.region.bulk.logged_bulk_files import LoggedBulkFiles
from rowlock_regionserver.region.change_retention import ChangeRetention
from rowlock_regionserver.region.idempotency.answers_file import read_answers
from rowlock_regionserver.region.idempotency.idempotency_table import IdempotencyTable
from rowlock_regionserver.region.live_files import LiveFiles
from rowlock_regionserver.region.manifest import LiveManifest, Manifest, read_manifest
from rowlock_regionserver.region.region_files import numbered_files, unnamed_among
from rowlock_regionserver.region.region_log import RegionLog
from rowlock_regionserver.region.shared_parts import SharedParts
from rowlock_regionserver.region.store_file_names import store_file_path
from rowlock_regionserver.region.stores import Stores
from rowlock_regionserver.region.unflushed_cells import add_unflushed
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.reader import StoreFile
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.record import Position


@dataclass(frozen=True, slots=True)
class MadeFolder:
    """The folder of a new region, as this process has just made it: its manifest, and its open files by path."""

    live: LiveManifest
    opened: Mapping[Path, StoreFile]


@dataclass(frozen=True, slots=True)
class FoundFolder:
    """The state of a region's folder when it was opened."""

    generation: int  # of the manifest
    flushed_write_number: int
    log_position: Position
    # Files that the manifest does not name. Only the log shows whether they are leftovers.
    unnamed: list[Path]


@dataclass(frozen=True, slots=True)
class RegionParts:
    """The parts of one region. The current table and its families' view are in one place, `stores.served`."""

    region_id: int
    start: bytes
    stop: bytes
    shared: SharedParts
    found: FoundFolder
    mvcc: Mvcc
    gate: Gate
    row_locks: RowLocks
    idempotency: IdempotencyTable
    stores: Stores
    applier: Applier
    log: RegionLog
    live_files: LiveFiles
    bulk_files: LoggedBulkFiles
    changes: ChangeRetention
    wanted: Table  # the catalog's; `serve` applies its limits if the region has applied others


def open_parts(
    region_id: int,
    bounds: tuple[bytes, bytes],
    table: Table,
    folder: Path,
    shared: SharedParts,
    commits: Collection[int] = (),
    made: MadeFolder | None = None,
) -> RegionParts:
    """Reads the manifest and opens its store files. Raises CorruptionError, and OSError for an unreadable file.

    `commits`: the numbers of all commits of bulk writes that the catalog has. `made`: its manifest and its open
    files, if this process has just made the folder: they are not read again.
    """
    files, clock, config = shared.files, shared.clock, shared.config
    live = read_manifest(files, folder) if made is None else made.live
    manifest = live.manifest.counted(commits)
    if manifest.region_id != region_id:
        raise CorruptionError(folder, 0, f"the manifest of region {region_id}", f"that of {manifest.region_id}")
    # One listing: with thousands of regions each call counts at start. A folder that was just made has no other files
    # than its manifest names.
    numbered = [] if made else numbered_files(_names_without_temporary(files, folder), folder)
    unnamed = unnamed_among(numbered, manifest, folder)
    mvcc = Mvcc(manifest.newest_number, clock)
    # Enough for a repetition of the largest request, or of as many small ones as may be in flight.
    answers_max = max(config.rows_per_request_max, config.requests_in_flight_max)
    idempotency = IdempotencyTable(clock, shared.request_ids, config.request_ids_forgotten_after_ms, answers_max)
    in_files = (read_answers(files, folder, file, table.name_by_number) for file in manifest.answers_files)
    idempotency.restore((*itertools.chain.from_iterable(in_files), *manifest.answers), manifest.forgotten_ms_ago)
    applied = with_applied_limits(table, manifest.limits)
    stores = Stores(applied, _open_store_files(folder, manifest, table, shared, made))
    shared.memory.add(add_unflushed(manifest.unflushed_cells, stores))
    log = RegionLog(region_id)
    changes = ChangeRetention(mvcc, clock, manifest.changes, changes_retained_ms(table))
    return RegionParts(
        region_id,
        *bounds,
        shared,
        FoundFolder(live.generation, manifest.flushed_write_number, manifest.log_position, unnamed),
        mvcc,
        Gate(region_id, clock),
        RowLocks(clock),
        idempotency,
        stores,
        Applier(stores, shared.memory, mvcc.read_points_for_pruning, shared.on_fatal),
        log,
        LiveFiles(
            replace(live, manifest=_with_unused_file_number(manifest, numbered)),
            stores,
            files,
            log.committed,
            lambda: changes.state,
        ),
        LoggedBulkFiles(shared.bulk_folder, files),
        changes,
        table,
    )


def _open_store_files(
    folder: Path, manifest: Manifest, table: Table, shared: SharedParts, made: MadeFolder | None
) -> dict[int, tuple[StoreFile, ...]]:
    def file_of(path: Path, info: StoreFileInfo) -> StoreFile:
        file = made.opened.get(path) if made else None
        return file if file and file.info == info else StoreFile.open(path, info, shared.cache, shared.open_files)

    return {
        number: tuple(file_of(store_file_path(folder, number, info.number), info) for info in infos)
        for number, infos in manifest.store_files.items()
        if number in table.name_by_number
    }


def _names_without_temporary(files: Files, folder: Path) -> list[str]:
    """Removes the temporary files of an interrupted flush. Returns the other names in the folder."""
    names = files.list_folder(folder)
    for name in names:
        if name.endswith(TEMPORARY_SUFFIX):
            files.remove_if_there(folder / name)
    return [name for name in names if not name.endswith(TEMPORARY_SUFFIX)]


def _with_unused_file_number(manifest: Manifest, numbered: Sequence[tuple[int, Path]]) -> Manifest:
    """Returns the manifest with a next file number above those of all files, so that a flush overwrites none."""
    greatest = max((number for number, _ in numbered), default=0)
    return replace(manifest, next_file_number=max(manifest.next_file_number, greatest + 1))
