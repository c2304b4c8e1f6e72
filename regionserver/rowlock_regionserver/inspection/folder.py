"""The contents of a stopped server's folder: tables, regions and files, as far as catalog and manifests are intact.

This module only reads. Damage is collected in a list, not raised, and reading continues.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from rowlock_regionserver import generations
from rowlock_regionserver.catalog import catalog
from rowlock_regionserver.catalog.catalog import CatalogState
from rowlock_regionserver.catalog.regions import RegionEntry
from rowlock_regionserver.catalog.table_entry import TableEntry
from rowlock_regionserver.data_folder import FORMAT, LOCK, read_format, take_folder_lock
from rowlock_regionserver.errors import CorruptionError, DataFolderError
from rowlock_regionserver.files import Files
from rowlock_regionserver.ownership import check_contents
from rowlock_regionserver.region import manifest
from rowlock_regionserver.region.manifest import Manifest
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.record import NOWHERE, Position

Body = TypeVar("Body")


@dataclass(frozen=True, slots=True)
class Newest(Generic[Body]):
    """The newest intact generation of a name, and whether it is the newest of all."""

    number: int
    body: Body
    is_newest: bool


@dataclass(frozen=True, slots=True)
class StoredRegion:
    """A region on disk. `manifest` None: it is damaged, so only the names of the region's files are known."""

    folder: Path
    entry: RegionEntry
    table: Table
    manifest: Manifest | None
    generation: int = 0  # of the manifest


@dataclass(frozen=True, slots=True)
class StoredFolder:
    """A data folder on disk, with the tables of its newest intact catalog."""

    folder: Path
    regions: tuple[StoredRegion, ...]
    catalog: Newest[CatalogState] | None  # None: there is no intact one
    snapshot_regions: tuple[StoredRegion, ...] = ()  # of named snapshots

    @property
    def log_id(self) -> bytes | None:
        """The id of the log, if the catalog has it."""
        return self.catalog.body.log_id or None if self.catalog is not None else None

    @property
    def log_position(self) -> Position:
        """The position up to which the log was durable, by catalog and manifests."""
        manifests = [region.manifest for region in self.regions if region.manifest is not None]
        of_catalog = self.catalog.body.log_position if self.catalog is not None else NOWHERE
        return max([of_catalog, *(manifest.log_position for manifest in manifests)])

    @property
    def commits(self) -> frozenset[int] | None:
        """The numbers of the committed bulk writes of which the log may have records; None without a catalog."""
        return self.catalog.body.commits.numbers if self.catalog is not None else None

    @property
    def log_folder(self) -> Path:
        return self.folder / "log"

    @property
    def bulk_folder(self) -> Path:
        return self.folder / "bulk"

    def flushed(self) -> dict[int, int]:
        """By region with a manifest, the write number up to which everything is in store files or in the manifest."""
        return {
            region.entry.region_id: region.manifest.flushed_write_number
            for region in self.regions
            if region.manifest is not None
        }


@contextlib.contextmanager
def held(folder: Path, files: Files) -> Iterator[None]:
    """Locks the folder against servers while the block runs, without writing to it.

    Raises DataFolderError when it is not a server's folder, of another version, or in use by a server.
    """
    if not folder.is_dir():
        raise DataFolderError(f"{folder} is not a folder" if folder.exists() else f"there is no folder {folder}")
    if FORMAT not in files.list_folder(folder):
        raise DataFolderError(
            f"{folder} is not the data folder of a rowlock-server: it has no file {FORMAT!r}; "
            "restore that file, or name another folder"
        )
    read_format(folder, files)
    with contextlib.ExitStack() as locks:
        locks.callback(files.close, take_folder_lock(folder, files))
        check_contents(folder, is_shared=True)
        # A copy of a folder may lack the file; servers make it before anything else.
        with contextlib.suppress(FileNotFoundError):
            lock = files.open(folder / LOCK, os.O_RDONLY)
            locks.callback(files.close, lock)
            if not files.lock(lock):
                raise DataFolderError(f"{folder} is in use by a rowlock-server; stop it first")
        yield


def read_folder(folder: Path, files: Files, damage: list[CorruptionError]) -> StoredFolder:
    """Reads catalog and manifests, and checks every generation of them; adds damage to `damage`.

    Raises DataFolderError when a file was written by a newer version.
    """
    found = read_generations(files, folder / "catalog", catalog.NAME, catalog.decode, damage, catalog.FORMAT_VERSION)
    if found is None:
        if any(name.isdigit() for name in listed(files, folder / "regions", damage)):
            damage.append(CorruptionError(folder / "catalog", 0, "a catalog that names the regions", "no intact one"))
        return StoredFolder(folder, (), None)
    commits = found.body.commits.numbers
    tables = _regions_of(found.body.tables, folder, files, damage, commits)
    snapshots = _regions_of([snapshot.entry for snapshot in found.body.snapshots], folder, files, damage, commits)
    return StoredFolder(folder, tables, found, snapshots)


def _regions_of(
    tables: Iterable[TableEntry],
    folder: Path,
    files: Files,
    damage: list[CorruptionError],
    commits: Collection[int],
) -> tuple[StoredRegion, ...]:
    return tuple(
        read_region(folder / "regions" / str(entry.region_id), entry, table.table, files, damage, commits)
        for table in tables
        for entry in table.regions
    )


def listed(files: Files, folder: Path, damage: list[CorruptionError]) -> list[str]:
    """Returns the names in a folder. If it can't be read, adds that to `damage` and returns no names."""
    try:
        return files.list_folder(folder)
    except OSError as error:
        damage.append(CorruptionError.of(error, folder))
        return []


def read_region(
    folder: Path,
    entry: RegionEntry,
    table: Table,
    files: Files,
    damage: list[CorruptionError],
    commits: Collection[int] | None = None,
) -> StoredRegion:
    """Reads the region of the table in this folder, as far as its manifests are intact.

    `commits`: the numbers of committed bulk writes; None: unknown, and all count.
    """
    found = read_generations(files, folder, manifest.NAME, Manifest.decode, damage, manifest.FORMAT_VERSION)
    if found is None:
        damage.append(CorruptionError(folder, 0, f"the manifest of region {entry.region_id}", "no intact one"))
    elif found.body.region_id != entry.region_id:
        damage.append(
            CorruptionError(folder, 0, f"the manifest of region {entry.region_id}", f"that of {found.body.region_id}")
        )
        found = None
    # An older manifest may name files that were removed, and miss newer ones.
    if found is None or not found.is_newest:
        return StoredRegion(folder, entry, table, None)
    counted = found.body if commits is None else found.body.counted(commits)
    return StoredRegion(folder, entry, table, counted, found.number)


def read_generations(
    files: Files,
    folder: Path,
    name: str,
    decode: Callable[[bytes], Body],
    damage: list[CorruptionError],
    version_max: int = generations.FORMAT_VERSION,
) -> Newest[Body] | None:
    """Returns the newest intact generation of a name, or None. Checks all of them, and adds damage to `damage`.

    Raises DataFolderError when one is of a newer version than `version_max`.
    """
    intact: list[tuple[int, Body]] = []
    numbers: Sequence[int] = generations.numbers_in(listed(files, folder, damage), name)
    for number in numbers:
        path = generations.generation_path(folder, name, number)
        try:
            intact.append((number, decode(generations.read(files, path, number, version_max=version_max))))
        except CorruptionError as error:
            damage.append(error)
        except OSError as error:
            damage.append(CorruptionError.of(error, path))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            damage.append(CorruptionError(path, 0, f"a {name} of this version", repr(error)))
    if not intact:
        return None
    number, body = intact[-1]
    return Newest(number, body, number == numbers[-1])
