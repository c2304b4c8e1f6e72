"""The folder of a region of a named snapshot, and of one that is restored from it.

Both begin with the store files of another region, as hard links under the same names, so they take no space and no time
that depends on their size. Write numbers, clips and limits from before an alter are those of the other region: all of
them belong together. Saved answers are not copied. Durable, except the folder's own name: the caller syncs the parent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.region.applied_limits import limits_of
from rowlock_regionserver.region.manifest import Manifest, read_manifest, write_first_manifest
from rowlock_regionserver.region.region_cut import RegionCut
from rowlock_regionserver.region.store_file_names import store_file_path
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.wal.record import NOWHERE


def make_snapshot_folder(
    files: Files, folder: Path, region_id: int, table_id: int, source: RegionCut, stamps_until: int
) -> None:
    """Makes the folder of a snapshot's region. Raises OSError and DiskFullError.

    `stamps_until`: the source has used stamps below it.
    """
    files.make_folder(folder)
    infos = {number: tuple([file.info for file in found]) for number, found in source.store_files.items() if found}
    for number, found in source.store_files.items():
        for file in found:
            files.link(file.path, store_file_path(folder, number, file.info.number))
    manifest = Manifest(
        region_id,
        table_id,
        flushed_write_number=source.write_number,
        next_file_number=1 + max([info.number for info in _all(infos)], default=0),
        store_files=infos,
        stamps_are_own=source.stamps_are_own,
        stamps_until=stamps_until,
        limits=limits_of(source.table),
    )
    write_first_manifest(files, folder, manifest)


def make_restored_folder(files: Files, folder: Path, region_id: int, table_id: int, snapshot: Path) -> None:
    """Makes the folder of a region like that of a snapshot, in the folder `snapshot`.

    Raises CorruptionError if that is damaged, OSError and DiskFullError.
    """
    manifest = read_manifest(files, snapshot).manifest
    files.make_folder(folder)
    for number, infos in manifest.store_files.items():
        for info in infos:
            path = store_file_path(snapshot, number, info.number)
            try:
                files.link(path, store_file_path(folder, number, info.number))
            except FileNotFoundError:
                raise CorruptionError.missing(path, "the store file that the manifest names", "no file") from None
    restored = replace(manifest, region_id=region_id, table_id=table_id, log_position=NOWHERE)
    write_first_manifest(files, folder, restored)


def _all(infos: Mapping[int, Sequence[StoreFileInfo]]) -> list[StoreFileInfo]:
    return [info for of_family in infos.values() for info in of_family]
