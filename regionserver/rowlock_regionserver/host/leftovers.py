"""Unnamed files and folders: leftovers of interrupted operations, or the traces of a lost generation.

No catalog or manifest names them. A missing file can't be seen by itself; there is other evidence:

- the log notes each generation of the catalog and of the manifests when it is durable, before the operation is
  answered;
- region ids ascend and are never reused: an id that the catalog has not allocated is of a later catalog.

So a generation that is older than one in the log, or than an id shows, is damage. An unnamed file is a leftover only if
the log notes generations, has lost no record, and names no newer generation. All other unnamed files are set aside
(set_aside.py). docs/storefile_format.md has the table of proofs. This module only reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rowlock_regionserver import generations
from rowlock_regionserver.catalog import catalog
from rowlock_regionserver.catalog.catalog import CatalogState
from rowlock_regionserver.durable_files import TEMPORARY_SUFFIX
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.region import manifest
from rowlock_regionserver.region.idempotency.answers_file import answers_number
from rowlock_regionserver.region.store_file_names import store_file_names
from rowlock_regionserver.wal.marker import RegionState
from rowlock_regionserver.wal.recovered import Recovered


@dataclass(frozen=True, slots=True)
class Unnamed:
    """An unnamed file or folder. `why`: the operation that left it, or why that is not certain."""

    path: Path
    why: str
    is_leftover: bool


def lost_catalog(
    folder: Path, files: Files, generation: int, state: CatalogState, recovered: Recovered
) -> CorruptionError | None:
    """Returns the damage if the generation of the catalog that was found is not the newest one; else None."""
    if recovered.catalog_generation > generation:
        return _lost_generation(folder, recovered.catalog_generation, "the log names it")
    logged = {region_id for segment in recovered.segments for region_id in segment.regions}
    for region_id in sorted(logged.union(recovered.regions, recovered.damaged)):
        if region_id >= state.next_region_id:
            return _lost_generation(folder, generation + 1, f"the log knows region {region_id}")
    for region_id, path in region_folders(folder, files):
        if region_id >= state.next_region_id and _is_folder(path, files) and _has_served(path, files):
            return _lost_generation(folder, generation + 1, f"{path} holds data")
    return None


def lost_manifest(folder: Path, generation: int, logged: RegionState | None) -> CorruptionError | None:
    """Returns the damage if a region's manifest is not the newest generation. `logged`: its state in the log."""
    if logged is None or logged.manifest_generation <= generation:
        return None
    path = generations.generation_path(folder, manifest.NAME, logged.manifest_generation)
    return CorruptionError.missing(path, f"the manifest of generation {logged.manifest_generation}", "no file")


def unnamed_region_folders(folder: Path, files: Files, state: CatalogState, recovered: Recovered) -> Iterator[Unnamed]:
    """Yields the region folders of no table and no named snapshot. There is no evidence of a newer catalog."""
    named = state.region_ids
    is_proven = recovered.catalog_generation > 0 and not recovered.gaps
    for region_id, path in region_folders(folder, files):
        if region_id in named:
            continue
        if not _is_folder(path, files):
            yield Unnamed(path, "it is not a folder, so no region made it", is_leftover=False)
            continue
        if region_id < state.next_region_id:
            yield Unnamed(path, "its table or snapshot was dropped, or its table truncated", is_leftover=True)
        elif is_proven and holds_what_a_create_makes(path, files):
            yield Unnamed(path, "its table was never made", is_leftover=True)
        elif is_proven:
            yield Unnamed(path, "no catalog names it, and it has more files than a create makes", is_leftover=False)
        else:
            yield Unnamed(path, "the catalog does not name it, and may not be the newest", is_leftover=False)


def unnamed_files_of_region(paths: list[Path], region_id: int, recovered: Recovered) -> Iterator[Unnamed]:
    """Yields the files of a region's folder that its manifest does not name. There is no evidence of a newer manifest.

    The region is not damaged, so the log has all its records since the manifest.
    """
    logged = recovered.regions.get(region_id)
    is_proven = logged is not None and logged.manifest_generation > 0 and not recovered.gaps
    for path in paths:
        if is_proven:
            yield Unnamed(
                path, "its flush was interrupted, its family dropped, or a compaction replaced it", is_leftover=True
            )
        else:
            yield Unnamed(path, "the region's manifest does not name it, and may not be the newest", is_leftover=False)


def region_folders(folder: Path, files: Files) -> Iterator[tuple[int, Path]]:
    """Yields (region id, path) of all entries with a region's name in the data folder, by id. Ignores other names."""
    names = [name for name in files.list_folder(folder / "regions") if name.isdigit() and str(int(name)) == name]
    for name in sorted(names, key=int):
        yield int(name), folder / "regions" / name


def _is_folder(path: Path, files: Files) -> bool:
    try:
        files.list_folder(path)
    except NotADirectoryError:
        return False
    return True


def holds_what_a_create_makes(path: Path, files: Files) -> bool:
    """Whether the folder has at most a first manifest and an answers file of a truncate, made before the commit."""
    first = generations.generation_path(path, manifest.NAME, 1).name
    names = (name.removesuffix(TEMPORARY_SUFFIX) for name in files.list_folder(path))
    return all(name == first or answers_number(name) is not None for name in names)


def _has_served(path: Path, files: Files) -> bool:
    """Whether the folder has files that are made only after the catalog names the region."""
    return max(generations.generation_numbers(files, path, manifest.NAME), default=0) > 1 or bool(
        store_file_names(files, path)
    )


def _lost_generation(folder: Path, generation: int, why: str) -> CorruptionError:
    path = generations.generation_path(folder / "catalog", catalog.NAME, generation)
    return CorruptionError.missing(path, f"the catalog of generation {generation}, because {why}", "no file")
