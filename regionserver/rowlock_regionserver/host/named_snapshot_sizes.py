"""What named snapshots take on the disk, for people.

A store file has a name in the folder of each region that has it, of tables and of snapshots, and the file system
counts the names. So a file with one name is held by one snapshot alone, and one with as many names as the snapshots'
folders have of it is held by snapshots alone. For a moment the count may be higher, while a scan reads a file that a
compaction replaced.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rowlock_regionserver.catalog.named_snapshots import NamedSnapshot
from rowlock_regionserver.generations import numbers_in
from rowlock_regionserver.host.region_folder import region_folder
from rowlock_regionserver.region import manifest


@dataclass(frozen=True, slots=True)
class SnapshotSizes:
    """The store files of one named snapshot.

    own_bytes: of files that nothing else has. error: a folder is missing or unreadable, and the sizes are not known.
    """

    store_file_count: int = 0
    store_file_bytes: int = 0
    own_bytes: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class HeldBySnapshots:
    """The sizes of named snapshots, and the bytes of all store files that they have and no table."""

    sizes: tuple[SnapshotSizes, ...]
    held_bytes: int


def held_by_snapshots(folder: Path, snapshots: Sequence[NamedSnapshot]) -> HeldBySnapshots:
    """Returns the sizes of these snapshots, which are all of the data folder. O(store files)."""
    sizes = []
    files: dict[tuple[int, int], os.stat_result] = {}
    names: Counter[tuple[int, int]] = Counter()
    for snapshot in snapshots:
        try:
            found = [file for path in _folders(folder, snapshot) for file in _store_files(path)]
        except OSError as error:
            sizes.append(SnapshotSizes(error=f"{error.filename}: {error.strerror}"))
            continue
        for file in found:
            place = (file.st_dev, file.st_ino)
            files[place] = file
            names[place] += 1
        own_bytes = sum(file.st_size for file in found if file.st_nlink == 1)
        sizes.append(SnapshotSizes(len(found), sum(file.st_size for file in found), own_bytes))
    held = sum(file.st_size for place, file in files.items() if file.st_nlink == names[place])
    return HeldBySnapshots(tuple(sizes), held)


def _folders(folder: Path, snapshot: NamedSnapshot) -> Iterator[Path]:
    for region in snapshot.entry.regions:
        yield region_folder(folder, region.region_id)


def _store_files(path: Path) -> list[os.stat_result]:
    """Returns the store files in the folder of a region. Raises OSError if it can't be read or has no manifest."""
    with os.scandir(path) as entries:
        found = list(entries)
    if not numbers_in([entry.name for entry in found], manifest.NAME):
        raise FileNotFoundError(0, "there is no manifest", str(path))
    return [entry.stat(follow_symlinks=False) for entry in found if entry.name.endswith(".store")]
