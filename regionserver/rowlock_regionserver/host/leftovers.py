"""What no catalog or manifest names: leftovers of what was cut short, or the trace of a generation that is lost.

A reader can't see that a file is missing; something else has to say so. Here that is:

- the log, which notes each generation of the catalog and of the manifests once it is durable, before anybody is told;
- the ids of regions, which ascend and are never given twice: one that the catalog has never given is of a later one.

So a generation older than the log names, or than an id shows, is damage. What is not named is a leftover only when the
log notes generations, has lost nothing, and names none that is newer. Everything else is set aside (set_aside.py).
docs/storefile_format.md has the table of proofs. Reads only.
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
    """Something that nobody names. `why`: what it is a leftover of, or why that is not sure."""

    path: Path
    why: str
    is_leftover: bool


def lost_catalog(
    folder: Path, files: Files, generation: int, state: CatalogState, recovered: Recovered
) -> CorruptionError | None:
    """Says which generation of the catalog in the data folder is lost, if the one that was found is not the newest."""
    if recovered.catalog_generation > generation:
        return _lost_generation(folder, recovered.catalog_generation, "the log names it")
    logged = {region_id for segment in recovered.segments for region_id in segment.regions}
    for region_id in sorted(logged.union(recovered.regions, recovered.broken)):
        if region_id >= state.next_region_id:
            return _lost_generation(folder, generation + 1, f"the log knows region {region_id}")
    for region_id, path in region_folders(folder, files):
        if region_id >= state.next_region_id and _has_served(path, files):
            return _lost_generation(folder, generation + 1, f"{path} holds data")
    return None


def lost_manifest(folder: Path, generation: int, logged: RegionState | None) -> CorruptionError | None:
    """The same for a region's manifest; `logged` is what the log says of the region."""
    if logged is None or logged.manifest_generation <= generation:
        return None
    path = generations.generation_path(folder, manifest.NAME, logged.manifest_generation)
    return CorruptionError.missing(path, f"the manifest of generation {logged.manifest_generation}", "no file")


def unnamed_region_folders(folder: Path, files: Files, state: CatalogState, recovered: Recovered) -> Iterator[Unnamed]:
    """The folders of regions that the catalog, which is the newest as far as anybody knows, does not name."""
    named = {region.region_id for entry in state.tables for region in entry.regions}
    is_proven = recovered.catalog_generation > 0 and not recovered.gaps
    for region_id, path in region_folders(folder, files):
        if region_id in named:
            continue
        if region_id < state.next_region_id:
            yield Unnamed(path, "its table was dropped or truncated", is_leftover=True)
        elif is_proven and holds_what_a_create_makes(path, files):
            yield Unnamed(path, "its table was never made", is_leftover=True)
        elif is_proven:
            yield Unnamed(path, "nobody names it, and it holds more than a create makes", is_leftover=False)
        else:
            yield Unnamed(path, "the catalog does not name it, and may not be the newest", is_leftover=False)


def unnamed_files_of_region(paths: list[Path], region_id: int, recovered: Recovered) -> Iterator[Unnamed]:
    """What the folder of a region holds that its manifest, which is the newest as far as anybody knows, does not name.

    The region is not damaged, so all that was logged since the manifest is in the log.
    """
    logged = recovered.regions.get(region_id)
    is_proven = logged is not None and logged.manifest_generation > 0 and not recovered.gaps
    for path in paths:
        if is_proven:
            yield Unnamed(path, "its flush was cut short, or its family dropped", is_leftover=True)
        else:
            yield Unnamed(path, "the region's manifest does not name it, and may not be the newest", is_leftover=False)


def region_folders(folder: Path, files: Files) -> Iterator[tuple[int, Path]]:
    """(region id, path) of what has a region's name in the data folder, by id. Other names are not ours."""
    names = [name for name in files.list_folder(folder / "regions") if name.isdigit() and str(int(name)) == name]
    for name in sorted(names, key=int):
        yield int(name), folder / "regions" / name


def holds_what_a_create_makes(path: Path, files: Files) -> bool:
    """A first manifest at most, and a file of answers that a truncate took over: what comes before the catalog."""
    first = generations.generation_path(path, manifest.NAME, 1).name
    names = (name.removesuffix(TEMPORARY_SUFFIX) for name in files.list_folder(path))
    return all(name == first or answers_number(name) is not None for name in names)


def _has_served(path: Path, files: Files) -> bool:
    """Whether more is there than what a create makes before the catalog names the region."""
    return max(generations.generation_numbers(files, path, manifest.NAME), default=0) > 1 or bool(
        store_file_names(files, path)
    )


def _lost_generation(folder: Path, generation: int, why: str) -> CorruptionError:
    path = generations.generation_path(folder / "catalog", catalog.NAME, generation)
    return CorruptionError.missing(path, f"the catalog of generation {generation}, for {why}", "no file")
