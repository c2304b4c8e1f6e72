"""Files and folders that nothing names, after a restart: what an operation that was interrupted has left behind."""

from __future__ import annotations

from pathlib import Path

from rowlock_regionserver.files import Files
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.region.bulk.bulk_file import bulk_file_path
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.region.store_file_names import store_file_names

from tests.crash.steps import snapshot_key


def orphans(server: RegionServer, folder: Path, files: Files) -> str | None:
    """Returns what nothing names, or what was set aside, in the server's data folder; None when there is nothing.

    Folders of regions are named by the catalog, store files by manifests, and bulk files by records of the log or by an
    open bulk write, which has a staging folder. No other thread may write, or compact.
    """
    names = [table.name for table in server.tables()]
    names += [snapshot_key(snapshot.name) for snapshot in server.named_snapshots]
    regions = [region for name in names for region in server.readable_regions_of(name)]
    folders = {str(region.region_id) for region in regions}
    if unnamed := set(files.list_folder(folder / "regions")) - folders:
        return f"no region has the folders {sorted(unnamed)}"
    if aside := list((folder / "set-aside").glob("*")):
        return f"{aside} were set aside"
    for region in regions:
        live_files = region._parts.live_files
        with region._flusher.no_flush():  # A flush that runs has a file that it names at its end.
            infos = live_files.manifest.store_files
            named = {live_files.path_of(number, info.number) for number in infos for info in infos[number]}
            unnamed_files = [each.path for each in store_file_names(files, live_files.folder) if each.path not in named]
        if unnamed_files:
            return f"table {region.table_name}: {unnamed_files} are in no manifest"
    return _bulk_orphans(server, folder, files, regions)


def _bulk_orphans(server: RegionServer, folder: Path, files: Files, regions: list[Region]) -> str | None:
    writes = server.bulk_writes
    opened = list(writes._writes.values())
    staging = {writes.staging.folder_of(each.write).name for each in opened}
    if unnamed := set(files.list_folder(folder / "staging")) - staging:
        return f"no open bulk write has the folders {sorted(unnamed)}"
    numbers = {number for region in regions for number in region.bulk_files}
    numbers.update([staged.record.file_number for each in opened for staged in each.staged()])
    named = {bulk_file_path(folder / "bulk", number).name for number in numbers}
    if unnamed := set(files.list_folder(folder / "bulk")) - named:
        return f"no record and no open bulk write names the bulk files {sorted(unnamed)}"
    return None
