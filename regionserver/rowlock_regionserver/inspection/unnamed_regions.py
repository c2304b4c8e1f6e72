"""Regions that no catalog names, perhaps because the newest catalog is lost, for salvage.

The names of table and families are unknown. A region is written as a table `region~5`, its families as `1`, `2` and so
on, their numbers in the files; all versions are written.
"""

from __future__ import annotations

from collections.abc import Iterator

from rowlock_regionserver.catalog.regions import RegionEntry
from rowlock_regionserver.cells import Family
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.leftovers import region_folders
from rowlock_regionserver.inspection.folder import StoredFolder, StoredRegion, listed, read_region
from rowlock_regionserver.inspection.log import intact_records
from rowlock_regionserver.region.bulk.bulk_file import WrittenBulkFile, decode_parts, read_bulk_file
from rowlock_regionserver.region.store_file_names import store_file_names
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.mutation import BULK_KINDS, KIND_ROW, BulkRecord, decode_cells

_VERSIONS_ALL = (1 << 31) - 1


def unnamed_regions(stored: StoredFolder, files: Files, damage: list[CorruptionError]) -> list[StoredRegion]:
    """Returns the unnamed regions with cells, in files or in the log. Dropped regions are excluded."""
    if not listed(files, stored.folder / "regions", damage):
        return []
    named = {region.entry.region_id for region in (*stored.regions, *stored.snapshot_regions)}
    first = stored.catalog.body.next_region_id if stored.catalog is not None else 1
    ids = [number for number, _ in region_folders(stored.folder, files) if number >= first and number not in named]
    return list(_found(stored, files, ids, damage)) if ids else []


def _found(stored: StoredFolder, files: Files, ids: list[int], damage: list[CorruptionError]) -> Iterator[StoredRegion]:
    logged = _families_in_log(stored, files, ids)
    for region_id in ids:
        folder = stored.folder / "regions" / str(region_id)
        entry = RegionEntry(region_id, b"", b"")
        known = read_region(folder, entry, Table("", 0, ()), files, damage)
        numbers = set(logged[region_id])
        if known.manifest is not None:
            numbers.update(known.manifest.store_files, known.manifest.unflushed_cells)
        elif listed(files, folder, damage):
            numbers.update(name.family_number for name in store_file_names(files, folder))
        if numbers:
            families = [Family(number, b"%d" % number, versions=_VERSIONS_ALL) for number in numbers]
            families.sort(key=lambda family: family.name)
            table = Table(f"region~{region_id}", 0, tuple(families))
            yield StoredRegion(folder, entry, table, known.manifest, known.generation)


def _families_in_log(stored: StoredFolder, files: Files, ids: list[int]) -> dict[int, set[int]]:
    """By region, the numbers of the families of which the log has cells."""
    numbers: dict[int, set[int]] = {region_id: set() for region_id in ids}
    for record in intact_records(stored.log_folder, files):
        if record.region_id not in numbers:
            continue
        if record.kind == KIND_ROW:
            _, by_family, _, _ = decode_cells(record.payload, record.write_number)
            numbers[record.region_id].update(number for number, _ in by_family)
        elif record.kind in BULK_KINDS:
            numbers[record.region_id].update(_bulk_families(stored, files, BulkRecord.decode(record.payload)))
    return numbers


def _bulk_families(stored: StoredFolder, files: Files, record: BulkRecord) -> set[int]:
    if not record.file_number:
        return set(decode_parts(record.cells))
    written = WrittenBulkFile(record.file_number, record.file_bytes, record.file_checksum)
    try:
        return set(read_bulk_file(files, stored.bulk_folder, written))
    except (CorruptionError, OSError):
        return set()  # It is reported when its cells are read.
