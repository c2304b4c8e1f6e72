"""Broken builds of splits and merges: rows, versions, answers or snapshots are lost, doubled or read too late."""

from __future__ import annotations

from .broken_build import Mutant

SPLITTING = "unit/host/test_splitting.py"
REPLACED = "unit/host/test_replaced_regions.py"
HANDED_OVER = "unit/host/test_handed_over.py"
UNFLUSHED = "unit/host/test_unflushed_cells.py"
LINKED = "unit/region/test_linked_files.py"
UNCOMMITTED = f"{REPLACED}::test_until_the_commit_the_old_regions_are_whole_and_the_new_ones_can_be_removed[False]"
_INFO = "                    info = clipped_info(file, *self.bounds)\n"
_FINISHED = "finish_successor_folder"

SPLITTING_MUTANTS = [
    # ---- the steps, in their order
    Mutant(
        "writes wait for a flush of what was written during the first one",
        "flush_again",
        "        if region.memstore_bytes <= _FEW_BYTES:\n            break\n",
        "        break\n",
        "unit/host/test_replaced_regions.py::test_it_is_flushed_again_until_little_is_left",
    ),
    Mutant(
        "ids of new regions are not reserved before their folders are made",
        "RegionChanges.reserved",
        '        with self.catalog.committed(state, f"{count} numbers of regions were reserved"):\n'
        "            return tuple(ids)\n",
        "        self.catalog.state = state\n        return tuple(ids)\n",
        UNCOMMITTED,
    ),
    Mutant(
        "a region is replaced without what was written after its flush",
        "Predecessor.of",
        "cells_in_memory(parts.stores)",
        "{}",
        f"{REPLACED}::test_what_was_written_after_the_flush_is_in_the_new_regions",
    ),
    Mutant(
        "the gates of regions to merge are taken in row order",
        "RegionChanges.replace",
        "sorted(old, key=lambda region: region.region_id)",
        "old",
        f"{REPLACED}::test_gates_are_taken_in_the_order_of_their_ids",
    ),
    Mutant(
        "a snapshot takes gates in row order",
        "hold_writes",
        "sorted(regions, key=lambda region: region.region_id)",
        "regions",
        f"{REPLACED}::test_gates_are_taken_in_the_order_of_their_ids",
    ),
    Mutant(
        "regions to merge are taken for each other",
        "RegionChanges._merged",
        "        predecessors.sort(key=lambda predecessor: predecessor.start)\n",
        "        predecessors[:] = predecessors[:1]\n",
        f"{SPLITTING}::test_it_is_as_before_after_a_restart[restart]",
    ),
    Mutant(
        "the old region's folder is removed before the catalog's commit",
        "RegionChanges.replace",
        "                with self.committed(state, what, undo):\n",
        "                for region in old:\n"
        "                    remove_region_folder(self.shared.files, region_folder(self.folder, region.region_id))\n"
        "                with self.committed(state, what, undo):\n",
        UNCOMMITTED,
    ),
    Mutant(
        "the names of new regions' folders are not durable at the commit",
        "RegionChanges.replace",
        '            self.shared.files.fsync_folder(self.folder / "regions")\n',
        "",
        f"{SPLITTING}::test_a_crash_at_any_call_leaves_the_old_regions_or_the_new_ones[split]",
    ),
    Mutant(
        "a split that fails leaves its folders",
        "RegionChanges._linked",
        "        undo.callback(remove_region_folder, self.shared.files, path)\n",
        "",
        f"{REPLACED}::test_a_full_disk_changes_nothing_and_later_it_works[False]",
    ),
    Mutant(
        "writes that waited go on in a region that was split",
        "Region.end_replaced",
        "        self._parts.gate.close_held()\n",
        "",
        f"{REPLACED}::test_a_change_that_waited_is_made_by_the_new_region_once",
    ),
    Mutant(
        "changes are passed on before snapshots have moved",
        "RegionChanges._exchange",
        "            region.end_replaced()\n",
        "            region.end_replaced()\n            region.succession.pass_changes_on(new)\n",
        f"{REPLACED}::test_a_change_that_comes_late_is_not_passed_on_before_snapshots_have_moved",
    ),
    Mutant(
        "an old region is flushed although few cells are left",
        "Succession.handed_over",
        "            if parts.stores.memstore_bytes > _HANDED_OVER_BYTES_MAX:\n",
        "            if True:\n",
        f"{HANDED_OVER}::test_an_old_region_whose_split_is_refused_is_not_flushed",
    ),
    Mutant(
        "a manifest gets any number of cells",
        "Succession.handed_over",
        "            if parts.stores.memstore_bytes > _HANDED_OVER_BYTES_MAX:\n",
        "            if False:\n",
        f"{UNFLUSHED}::test_many_bytes_are_flushed_once_more_instead",
    ),
    Mutant(
        "a change that waited is made by a new region that has one of its rows",
        "Succession.successor_with",
        "all(region.has(row) for row in rows)",
        "region.has(rows[0])",
        f"{REPLACED}::test_changes_that_waited_are_refused_if_no_new_region_has_all_their_rows",
    ),
    Mutant(
        "a flush that waited writes files of a region that was split",
        "Region.end_replaced",
        "        self._flusher.close_held()\n",
        "",
        f"{HANDED_OVER}::test_a_flush_that_waits_while_its_region_is_split_writes_nothing",
    ),
    Mutant(
        "a region that was split still answers reads",
        "Region.end_replaced",
        "        self._state = State.CLOSED\n",
        "",
        f"{REPLACED}::test_the_old_region_takes_no_read_once_a_new_one_can_be_written",
    ),
    Mutant(
        "the new regions are served before the old ones have ended",
        "RegionChanges._exchange",
        "        for region in old:\n            region.end_replaced()\n        self.snapshots.move(old, new)\n",
        "        self.snapshots.move(old, new)\n",
        f"{REPLACED}::test_the_old_region_takes_no_read_once_a_new_one_can_be_written",
    ),
    Mutant(
        "the folder of a region that was split stays",
        "RegionChanges._retire",
        "        self._remove(region.region_id, region, reason)\n",
        "",
        f"{SPLITTING}::test_the_files_of_the_old_regions_are_removed",
    ),
    # ---- snapshots
    Mutant(
        "snapshots are not moved to the new regions",
        "RegionChanges._exchange",
        "        self.snapshots.move(old, new)\n",
        "",
        f"{SPLITTING}::test_a_snapshot_sees_its_moment_over_splits_merges_and_compactions",
    ),
    Mutant(
        "a merged region reads all of a snapshot at one read point",
        "moved",
        "                result.append(SnapshotPart(region, rows, part.read_point))\n",
        "                result.append(SnapshotPart(region, rows, region._parts.mvcc.open_read_point()))\n",
        f"{REPLACED}::test_a_major_compaction_keeps_what_a_moved_snapshot_sees",
    ),
    Mutant(
        "all parts of a merged region are read at the first one's read point",
        "Snapshots.reading",
        "ReadPoint(part.read_point.write_number, made_ms)",
        "ReadPoint(parts[0].read_point.write_number, made_ms)",
        "property/test_snapshots_of_regions.py::test_each_snapshot_reads_its_moment_wherever_its_rows_are",
    ),
    Mutant(
        "a moved snapshot stays registered in the old region only",
        "moved",
        "                region.adopt_read_point(part.read_point)\n",
        "",
        f"{REPLACED}::test_a_major_compaction_keeps_what_a_moved_snapshot_sees",
    ),
    # ---- what new regions begin with
    Mutant(
        "write numbers of a new region begin at 0",
        _FINISHED,
        "flushed_write_number=max([each.write_number for each in predecessors])",
        "flushed_write_number=0",
        "property/test_snapshots_of_regions.py::test_each_snapshot_reads_its_moment_wherever_its_rows_are",
    ),
    Mutant(
        "write numbers of a merged region go on from those of its left part",
        _FINISHED,
        "flushed_write_number=max([each.write_number for each in predecessors])",
        "flushed_write_number=predecessors[0].write_number",
        f"{REPLACED}::test_a_merged_region_goes_on_from_the_number_of_one_whose_cells_are_gone",
    ),
    Mutant(
        "a new region's stamps begin with the clock",
        _FINISHED,
        "        stamps_until=stamps_until,\n",
        "",
        f"{SPLITTING}::test_a_stamp_is_later_than_before_although_the_clock_was_set_back",
    ),
    Mutant(
        "a merged region forgets the requests of its right part",
        _FINISHED,
        "_AnswersOfRows([each.answers for each in predecessors], *bounds)",
        "_AnswersOfRows([each.answers for each in predecessors[:1]], *bounds)",
        f"{REPLACED}::test_a_merged_region_has_the_answers_of_both",
    ),
    Mutant(
        "a new region forgets the requests of its predecessors",
        _FINISHED,
        "_AnswersOfRows([each.answers for each in predecessors], *bounds)",
        "_AnswersOfRows([], *bounds)",
        f"{SPLITTING}::test_a_repeated_request_gets_its_answer_from_the_new_region",
    ),
    Mutant(
        "a merged region forgets the clips of its files",
        "LinkedFiles.follow",
        _INFO,
        _INFO + "                    if info is not None and len(olds) > 1:\n"
        '                        info = replace(info, clip_start=b"", clip_stop=b"")\n',
        f"{REPLACED}::test_a_merge_does_not_bring_back_what_a_neighbour_has_compacted_away",
    ),
    Mutant(
        "the base of a part counts as the base of a merged region",
        "LinkedFiles.follow",
        "                    if len(olds) > 1:\n",
        "                    if False:\n",
        f"{REPLACED}::test_a_merged_region_has_no_base",
    ),
    Mutant(
        "files of two regions are linked under one name",
        "LinkedFiles._linked",
        "each.family_number == family_number and",
        "False and",
        f"{SPLITTING}::test_a_merge_has_the_rows_of_both_and_hides_what_the_files_have_of_others",
    ),
    # ---- what is written, flushed and compacted while the new folders are made
    Mutant(
        "a file that a compaction replaced meanwhile stays in a new region's folder",
        "LinkedFiles.follow",
        "        for path in stale:\n",
        "        for path in ():\n",
        f"{HANDED_OVER}::test_new_regions_have_no_file_that_was_compacted_meanwhile",
    ),
    Mutant(
        "a file that became the base meanwhile has its earlier entry in a new region",
        "LinkedFiles._linked",
        "        if link is None or link.file.info != info:\n",
        "        if link is None:\n",
        f"{LINKED}::test_a_file_that_became_the_base_is_the_base_of_the_new_region",
    ),
    Mutant(
        "each file is opened again while writes wait",
        "LinkedFiles._linked",
        "        if link is None or link.file.info != info:\n",
        "        if True:\n",
        f"{LINKED}::test_a_file_that_is_linked_is_not_opened_again",
    ),
    Mutant(
        "a region with cells in its manifest counts as flushed",
        "Flusher.__init__",
        "_NONE_IS_FLUSHED if manifest.unflushed_cells else ",
        "",
        f"{UNFLUSHED}::test_the_first_flush_writes_them_to_the_newest_file_though_nothing_was_written_since",
    ),
    Mutant(
        "a flush leaves cells in the manifest",
        "Flusher._with_answers",
        "            unflushed_cells={},\n",
        "",
        f"{UNFLUSHED}::test_the_manifest_has_them_until_the_first_flush",
    ),
    Mutant(
        "a new region gets the last cells of rows from its stop on",
        "taken_over",
        "first_at_or_after(table, stop) if stop else table.num_rows",
        "table.num_rows",
        f"{UNFLUSHED}::test_the_manifest_has_them_until_the_first_flush",
    ),
    Mutant(
        "a new region gets the last cells of the active segments only",
        "cells_in_memory",
        "store.memstore.sources() for",
        "store.memstore.sources()[:1] for",
        f"{UNFLUSHED}::test_they_come_from_all_kinds_of_segments_with_all_versions_and_tombstones",
    ),
    Mutant(
        "cells of a manifest are not counted as memory",
        "open_parts",
        "shared.memory.add(add_unflushed(manifest.unflushed_cells, stores))",
        "add_unflushed(manifest.unflushed_cells, stores)",
        f"{UNFLUSHED}::test_the_manifest_has_them_until_the_first_flush",
    ),
    Mutant(
        "an earlier server reads a manifest with cells",
        "Manifest.format_version",
        "        if self.unflushed_cells:\n",
        "        if False:\n",
        f"{UNFLUSHED}::test_a_server_of_version_4_refuses_a_manifest_with_some",
    ),
    Mutant(
        "the cells of a manifest are not salvaged",
        "SalvagedRegion.__init__",
        "                if number in self._sources:\n",
        "                if False:\n",
        f"{UNFLUSHED}::test_they_are_verified_and_salvaged",
    ),
    Mutant(
        "cells of a manifest may be of any schema",
        "table_of",
        "not table.schema.equals(CELL_SCHEMA) or ",
        "",
        f"{UNFLUSHED}::test_cells_that_are_no_stream_are_damage",
    ),
    Mutant(
        "each half of a split keeps the memory of all cells that came last",
        "taken_over",
        "_copy(pa.concat_tables(tables))",
        "single_chunk(pa.concat_tables(tables))",
        f"{UNFLUSHED}::test_each_half_has_memory_of_its_own_cells_only",
    ),
    Mutant(
        "a manifest may have a family with no cells",
        "table_of",
        " or not table.num_rows:",
        ":",
        f"{UNFLUSHED}::test_cells_that_are_no_stream_are_damage",
    ),
    Mutant(
        "the folders of new regions are not synced at the commit",
        _FINISHED,
        "    write_first_manifest(files, folder, manifest)\n",
        "    with __import__('unittest.mock').mock.patch.object(files, 'fsync_folder', lambda path: None):\n"
        "        write_first_manifest(files, folder, manifest)\n",
        f"{HANDED_OVER}::test_a_crash_at_any_call_loses_nothing_that_was_written_last[split]",
    ),
    Mutant(
        "the first generation in a new folder is not synced",
        "write_first",
        "    with new_file(files, generation_path(folder, name, 1)) as file:\n"
        "        file.append(framed(1, body, version))\n",
        "    descriptor = files.create(generation_path(folder, name, 1))\n"
        "    files.pwrite(descriptor, framed(1, body, version), 0)\n"
        "    files.close(descriptor)\n",
        "unit/test_generations.py::test_a_first_generation_that_is_acknowledged_is_whole_after_a_crash_at_any_call",
    ),
]
