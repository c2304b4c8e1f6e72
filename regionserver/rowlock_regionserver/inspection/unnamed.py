"""Lost generations and unnamed files in a folder, as a start would find them."""

from __future__ import annotations

from collections.abc import Iterator

from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.leftovers import (
    Unnamed,
    lost_catalog,
    lost_manifest,
    unnamed_files_of_region,
    unnamed_region_folders,
)
from rowlock_regionserver.inspection.folder import StoredFolder
from rowlock_regionserver.region.region_files import unnamed_files
from rowlock_regionserver.wal.recovered import Recovered


def lost_generations(stored: StoredFolder, files: Files, recovered: Recovered) -> Iterator[CorruptionError]:
    """The generations of the catalog and of manifests that are missing. Raises OSError."""
    # A damaged generation was reported already.
    if stored.catalog is not None and stored.catalog.is_newest:
        number, state = stored.catalog.number, stored.catalog.body
        lost = lost_catalog(stored.folder, files, number, state, recovered)
        if lost is not None:
            yield lost
    for region in stored.regions:
        if region.manifest is not None:
            logged = recovered.regions.get(region.entry.region_id)
            lost = lost_manifest(region.folder, region.generation, logged)
            if lost is not None:
                yield lost


def unnamed_in(stored: StoredFolder, files: Files, recovered: Recovered) -> Iterator[Unnamed]:
    """The unnamed files and folders of a data folder without lost generations. Raises OSError."""
    if stored.catalog is None:
        return
    yield from unnamed_region_folders(stored.folder, files, stored.catalog.body, recovered)
    for region in stored.regions:
        if region.manifest is not None and region.entry.region_id in recovered.regions:
            paths = unnamed_files(region.manifest, files, region.folder)
            yield from unnamed_files_of_region(paths, region.entry.region_id, recovered)
