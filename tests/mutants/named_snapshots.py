"""Broken builds of named snapshots: rows of another moment, files that are lost or left over, snapshots that change."""

from __future__ import annotations

from .broken_build import Mutant

NAMED = "unit/host/test_named_snapshots.py"
FOLDERS = "unit/host/test_snapshot_folders.py"
READ = "unit/host/test_read_snapshots.py"
_CUT = (
    "            numbers = {region.region_id: gates.enter_context(region.sealed(deadline)) for region in by_id}\n",
    "            numbers = {}\n"
    "            for region in by_id:\n"
    "                with region.sealed(deadline) as numbers[region.region_id]:\n"
    "                    pass\n",
)
BESIDE_WRITES = f"{NAMED}::test_writes_go_on_while_the_cut_is_flushed_and_are_not_in_it"
ANSWERED = f"{FOLDERS}::test_after_the_answer_a_power_failure_changes_nothing"
UNCOMMITTED = f"{FOLDERS}::test_until_the_commit_everything_is_as_before_and_no_folder_is_left"
STAYS = f"{NAMED}::test_whatever_happens_to_the_table_the_snapshot_stays"

NAMED_SNAPSHOT_MUTANTS = [
    # ---- the moment
    Mutant(
        "the regions of a snapshot are cut one after the other",
        "_cut",
        *_CUT,
        f"{NAMED}::test_all_gates_are_held_at_one_moment",
    ),
    Mutant(
        "the gates for a snapshot are taken in row order",
        "_cut",
        "sorted(regions, key=lambda region: region.region_id)",
        "list(regions)",
        f"{NAMED}::test_the_gates_are_taken_in_the_order_of_their_ids",
    ),
    Mutant(
        "a snapshot misses what was written after its flush",
        "Region.cut",
        "        self._flusher.flush_sealed()\n",
        "",
        f"{NAMED}::test_what_comes_after_the_flush_is_in_the_snapshot",
    ),
    Mutant(
        "a snapshot has what was written after its moment",
        "Region.cut",
        "        self._flusher.flush_sealed()\n",
        "        with self._flusher.sealed(NEWEST):\n            pass\n        self._flusher.flush_sealed()\n",
        f"{BESIDE_WRITES}[0]",
    ),
    Mutant(
        "a flush may come between the moment of a snapshot and its files",
        "_cut",
        "        for region in regions:\n            cuts.append(",
        "        for region in regions:\n            flush_locks[region.region_id].close()\n            cuts.append(",
        f"{BESIDE_WRITES}[1]",
    ),
    Mutant(
        "writes wait until a snapshot is flushed",
        "_cut",
        "        with contextlib.ExitStack() as gates:\n",
        "        if gates := flushes:\n",
        f"{BESIDE_WRITES}[0]",
    ),
    # ---- the commit
    Mutant(
        "a snapshot is committed before its folders have durable names",
        "create_snapshot",
        '            changes.shared.files.fsync_folder(changes.folder / "regions")\n',
        "",
        ANSWERED,
    ),
    Mutant(
        "a restored table is committed before its folders have durable names",
        "restore_snapshot",
        '            files.fsync_folder(changes.folder / "regions")\n',
        "",
        ANSWERED,
    ),
    Mutant(
        "ids of a snapshot's regions are not reserved before their folders are made",
        "RegionChanges.reserved",
        '        with self.catalog.committed(state, f"{count} numbers of regions were reserved"):\n'
        "            return tuple(ids)\n",
        "        self.catalog.state = state\n        return tuple(ids)\n",
        f"{UNCOMMITTED}[create]",
    ),
    Mutant(
        "files of a dropped snapshot are removed before the commit",
        "drop_snapshot",
        '        with changes.catalog.committed(state, f"snapshot {name!r} was dropped"):\n',
        "        for region in dropped.entry.regions:\n"
        "            remove_region_folder(changes.shared.files, region_folder(changes.folder, region.region_id))\n"
        '        with changes.catalog.committed(state, f"snapshot {name!r} was dropped"):\n',
        f"{UNCOMMITTED}[drop]",
    ),
    Mutant(
        "a restore that fails leaves its folders",
        "_new_path",
        "    undo.callback(remove_region_folder, changes.shared.files, path)\n",
        "",
        f"{NAMED}::test_a_damaged_snapshot_is_refused_and_leaves_nothing[unlink]",
    ),
    # ---- what a table and its snapshot share
    Mutant(
        "dropping a table drops its snapshots",
        "CatalogState.without_table",
        "        return replace(self, tables=tuple(entry for entry in self.tables if entry is not dropped_table))\n",
        "        tables = tuple(entry for entry in self.tables if entry is not dropped_table)\n"
        "        return replace(self, tables=tables, snapshots=())\n",
        f"{STAYS}[dropped]",
    ),
    Mutant(
        "a start takes the folders of snapshots for leftovers",
        "CatalogState.region_ids",
        "(*self.tables, *(snapshot.entry for snapshot in self.snapshots))",
        "self.tables",
        f"{STAYS}[restarted]",
    ),
    Mutant(
        "a catalog with snapshots is one that earlier servers open",
        "CatalogState.format_version",
        "FORMAT_VERSION if self.snapshots else _VERSION_WITHOUT_SNAPSHOTS",
        "_VERSION_WITHOUT_SNAPSHOTS",
        f"{FOLDERS}::test_an_earlier_server_refuses_a_folder_with_snapshots_and_reads_one_without",
    ),
    Mutant(
        "a snapshot has the id of its table",
        "CatalogState._copied",
        "replace(entry.table, name=name, table_id=self.next_table_id)",
        "replace(entry.table, name=name)",
        f"{READ}::test_a_leased_snapshot_of_it_reads_until_it_is_dropped",
    ),
    # ---- what a restored table begins with
    Mutant(
        "a snapshot forgets the clips of its files",
        "make_snapshot_folder",
        "tuple([file.info for file in found])",
        'tuple([replace(file.info, clip_start=b"", clip_stop=b"") for file in found])',
        f"{NAMED}::test_rows_outside_of_the_clips_of_files_stay_hidden",
    ),
    Mutant(
        "write numbers of a restored table begin at 0",
        "make_snapshot_folder",
        "flushed_write_number=source.write_number",
        "flushed_write_number=0",
        f"{NAMED}::test_a_restored_table_goes_on_from_the_numbers_of_cells_that_are_gone",
    ),
    Mutant(
        "stamps of a restored table begin with the clock",
        "make_snapshot_folder",
        "        stamps_until=stamps_until,\n",
        "",
        f"{NAMED}::test_write_numbers_versions_and_stamps_go_on",
    ),
    Mutant(
        "a snapshot forgets the limits from before an alter",
        "make_snapshot_folder",
        "        limits=limits_of(source.table),\n",
        "",
        f"{NAMED}::test_limits_from_before_an_alter_are_kept",
    ),
    # ---- reading without restoring
    Mutant(
        "a named snapshot can be changed",
        "ReadableRegion._check_writable",
        "        if self._state is _READING:\n",
        "        if False:\n",
        f"{READ}::test_what_is_read_by_name_can_not_be_changed",
    ),
    Mutant(
        "a snapshot that a scan reads is closed as unused",
        "ReadSnapshots.close_unused",
        " and not opened.is_read",
        "",
        f"{READ}::test_a_snapshot_that_nobody_reads_is_closed_and_opened_again",
    ),
    Mutant(
        "dropping a snapshot removes files under a scan",
        "drop_snapshot",
        "            read_by_scans = changes.read_snapshots.remove(dropped)\n",
        "            read_by_scans = set()\n",
        f"{READ}::test_a_leased_snapshot_of_it_reads_until_it_is_dropped",
    ),
    Mutant(
        "files that two snapshots share count as held by none",
        "held_by_snapshots",
        "file.st_nlink == names[place]",
        "file.st_nlink == 1",
        f"{FOLDERS}::test_sizes_say_what_only_snapshots_hold",
    ),
]
