"""Broken builds of recovery: what the log says, what replay makes of it, and tables whose change was cut short."""

from __future__ import annotations

from .broken_build import Mutant

CRASHES = "unit/catalog/test_table_crashes.py::test_a_crash_at_any_call_of_a_table_operation_leaves_it_done_or_not"
DAMAGE = "unit/wal/test_damage.py"
DISK = "unit/catalog/test_disk_failures.py"
INTERLEAVINGS = "unit/region/test_interleavings.py"
REPLAY = "unit/region/test_replay.py"
SEGMENT = "unit/memstore/test_segment.py"
TABLES = "unit/catalog/test_region_server.py"
TAIL = "unit/wal/test_torn_tail.py"

RECOVERY = [
    # ---- torn tail
    Mutant(
        "a record's checksum is not looked at",
        "wal/replay.py",
        " or extend(seed ^ offset, data[offset + 4 : end]) != checksum",
        "",
        f"{TAIL}::test_valid_records_behind_a_bad_one_that_prove_nothing_go_with_the_tail",
    ),
    Mutant(
        "damage is taken for a torn tail",
        "wal/recovery.py",
        "        proven = max([proven, first_stop, *(run.proven for run in later)])\n",
        "        proven = first_stop\n",
        f"{DAMAGE}::test_a_proven_bad_record_breaks_the_chain_of_its_region_and_the_others_are_whole",
    ),
    Mutant(
        "a torn tail is not cut",
        "wal/recovery.py",
        "    if recovered.last_segment and recovered.end_bytes < files.size(path):\n",
        "    if False:\n",
        f"{TAIL}::test_the_cut_is_done_before_a_new_segment_exists",
    ),
    Mutant(
        "the cut is not synced",
        "wal/recovery.py",
        "            files.fsync(descriptor)\n",
        "",
        f"{TAIL}::test_the_cut_is_done_before_a_new_segment_exists",
    ),
    Mutant(
        "what is not proven is not written anew",
        "wal/opening.py",
        "    for record in recovered.unproven_changes():\n        content",
        "    for record in ():\n        content",
        f"{TAIL}::test_what_was_valid_but_not_proven_is_written_anew_and_synced",
    ),
    Mutant(
        "what is written anew is not synced",
        "wal/opening.py",
        "        files.fdatasync(descriptor)\n",
        "",
        "unit/wal/test_crashes.py::test_a_crash_at_each_call_of_a_recovery_is_harmless",
    ),
    Mutant(
        "what was written anew is delivered twice",
        "wal/recovery.py",
        "        limit = min(final_bytes, len(data))\n",
        "        limit = len(data)\n",
        f"{TAIL}::test_valid_records_behind_a_bad_one_that_prove_nothing_go_with_the_tail",
    ),
    # ---- damage
    Mutant(
        "a broken chain is served",
        "wal/replay.py",
        "                if last_of(region_id, 0) == previous or self._mends(path, offset, region_id, previous):\n",
        "                if True:\n",
        f"{DAMAGE}::test_a_proven_bad_record_breaks_the_chain_of_its_region_and_the_others_are_whole",
    ),
    Mutant(
        "what lies after damage is guessed to be whole",
        "wal/replay.py",
        "            if region_id not in self._proven and region_id not in self.broken:\n",
        "            if False:\n",
        f"{DAMAGE}::test_without_a_later_marker_no_region_is_proven_whole",
    ),
    Mutant(
        "what the log does not reach back to is guessed to be flushed",
        "wal/replay.py",
        "            if flushed < start:\n",
        "            if False:\n",
        f"{DAMAGE}::test_missing_oldest_segments_are_seen_by_what_was_flushed",
    ),
    Mutant(
        "damage is forgotten when its segment is gone",
        "wal/pending.py",
        "        known.update((region_id, RegionState(BROKEN)) for region_id in self._broken)\n",
        "",
        f"{DAMAGE}::test_a_segment_with_damage_is_set_aside_instead_of_removed",
    ),
    Mutant(
        "a hole between segments is passed over",
        "wal/recovery.py",
        "        if number != before + 1:\n",
        "        if False:\n",
        f"{DAMAGE}::test_a_missing_segment_in_the_middle_is_named",
    ),
    Mutant(
        "a segment of another log is read",
        "wal/recovery.py",
        "        if header.log_id != self._log_id:\n",
        "        if False:\n",
        f"{DAMAGE}::test_a_segment_of_another_log_is_named",
    ),
    Mutant(
        "a missing log is taken for a new one",
        "catalog/opening.py",
        "            expected_log_id=self._state.log_id or None,\n",
        "            expected_log_id=None,\n",
        f"{TABLES}::test_a_missing_log_is_not_taken_for_a_new_one",
    ),
    Mutant(
        "a region that the log lost something of is served",
        "catalog/opening.py",
        "            if damage is not None and region_id not in self._damaged:\n",
        "            if False:\n",
        f"{TABLES}::test_damage_in_the_log_closes_the_regions_that_lost_something_and_the_others_serve",
    ),
    Mutant(
        "a missing catalog is taken for a new folder",
        "catalog/opening.py",
        "                if found is None:\n",
        "                if False:\n",
        f"{TABLES}::test_a_missing_catalog_beside_regions_is_damage_and_nothing_is_removed",
    ),
    Mutant(
        "one damaged region closes all",
        "catalog/opening.py",
        "                    self._damaged[region.region_id] = error\n",
        "                    raise\n",
        f"{TABLES}::test_a_region_with_a_damaged_manifest_is_closed_and_named_and_the_others_serve",
    ),
    # ---- replay
    Mutant(
        "the log is not read at start",
        "region/replay.py",
        "        if write_number <= self._last:\n            return\n",
        "        return\n",
        f"{REPLAY}::test_every_kind_of_change_is_there_again_after_crash_after_crash",
    ),
    Mutant(
        "what is in store files is replayed",
        "region/replay.py",
        "        if write_number <= self._last:\n            return\n",
        "",
        f"{REPLAY}::test_the_bulk_file_of_a_flushed_batch_is_not_missed",
    ),
    Mutant(
        "write numbers are handed out again after a restart",
        "region/region.py",
        "        contents.mvcc.restore(max(replayed, numbers_until))\n",
        "",
        f"{INTERLEAVINGS}::test_numbers_go_on_past_what_was_reserved_after_a_restart",
    ),
    Mutant(
        "a dropped family's records come back",
        "region/replay.py",
        "                if memstore is not None:  # Else the family was dropped since.\n",
        "                memstore = memstore or next(iter(self._memstores.values()))\n                if True:\n",
        f"{TABLES}::test_a_dropped_familys_cells_are_gone_also_for_a_later_family_of_the_same_name[True]",
    ),
    Mutant(
        "a row's cells stay as the log brought them",
        "memstore/segment.py",
        "                for held in self._rows.values():\n                    held.sort()\n",
        "",
        f"{SEGMENT}::test_cells_that_come_in_any_order_in_recovery_are_sorted_before_pruning_and_at_its_end",
    ),
    Mutant(
        "a row is pruned as the log brought it",
        "memstore/segment.py",
        "            if self._is_recovering:\n                held.sort()\n            kept",
        "            kept",
        f"{SEGMENT}::test_cells_that_come_in_any_order_in_recovery_are_sorted_before_pruning_and_at_its_end",
    ),
    Mutant(
        "a log of more than fits in memory is replayed into it",
        "catalog/opening.py",
        "            if self._memory.is_under_pressure:\n",
        "            if False:\n",
        f"{REPLAY}::test_a_log_of_more_than_fits_in_memory_is_flushed_while_it_is_replayed",
    ),
    Mutant(
        "a bulk file is not proved before it is served",
        "region/bulk_file.py",
        "    if checksum != written.checksum:\n",
        "    if False:\n",
        f"{REPLAY}::test_a_bulk_file_that_is_not_what_the_log_says_closes_its_region_and_no_other[a flipped bit]",
    ),
    Mutant(
        "bulk files that the log names are removed at start",
        "catalog/opening.py",
        "            if number not in named and not self._damaged:\n",
        "            if not self._damaged:\n",
        f"{REPLAY}::test_every_kind_of_change_is_there_again_after_crash_after_crash",
    ),
    Mutant(
        "what salvage may want is removed at start",
        "catalog/opening.py",
        "            if number not in named and not self._damaged:\n",
        "            if number not in named:\n",
        f"{REPLAY}::test_a_bulk_file_that_is_not_what_the_log_says_closes_its_region_and_no_other[a flipped bit]",
    ),
    # ---- tables
    Mutant(
        "a dropped table's regions go before the catalog says so",
        "catalog/region_server.py",
        "            self._commit(self._state.without_table(name))\n"
        '            self._remove_regions(entry, "its table was dropped")\n',
        '            self._remove_regions(entry, "its table was dropped")\n'
        "            self._commit(self._state.without_table(name))\n",
        f"{CRASHES}[drop]",
    ),
    Mutant(
        "a truncated table's old regions go before the new ones are there",
        "catalog/region_server.py",
        "            self._make_regions(state.entry(name), state)\n"
        '            self._remove_regions(old, "its table was truncated")\n',
        '            self._remove_regions(old, "its table was truncated")\n'
        "            self._make_regions(state.entry(name), state)\n",
        f"{CRASHES}[truncate]",
    ),
    Mutant(
        "the catalog names a region before its folder is there",
        "catalog/region_server.py",
        '        """Folders first and all that may fail, then the commit, then the regions serve."""\n',
        "        self._commit(state)\n",
        f"{CRASHES}[create]",
    ),
    Mutant(
        "a family's files go before the catalog says so",
        "catalog/region_server.py",
        "            self._commit(state)\n            for region in entry.regions:\n"
        "                if region.region_id in self._regions:\n"
        "                    self._regions[region.region_id].alter(entry.table)\n",
        "            for region in entry.regions:\n"
        "                if region.region_id in self._regions:\n"
        "                    self._regions[region.region_id].alter(entry.table)\n            self._commit(state)\n",
        f"{CRASHES}[alter]",
    ),
    Mutant(
        "a region's id is used again",
        "catalog/catalog.py",
        "            next_table_id=self.next_table_id + 1,\n            next_region_id=self.next_region_id + 1,\n",
        "            next_table_id=self.next_table_id + 1,\n            next_region_id=self.next_region_id,\n",
        f"{TABLES}::test_a_dropped_table_leaves_nothing_and_its_ids_are_never_used_again",
    ),
    Mutant(
        "a family's number is used again",
        "catalog/catalog.py",
        "            number = next_number if known is None else known.number\n",
        "            number = 1 + len(families) if known is None else known.number\n",
        f"{TABLES}::test_a_dropped_familys_cells_are_gone_also_for_a_later_family_of_the_same_name[True]",
    ),
    Mutant(
        "a failed sync of the catalog does not end the server",
        "catalog/region_server.py",
        "            self._fail_and_end(error)\n            raise\n",
        "            raise\n",
        f"{DISK}::test_a_failed_sync_of_the_catalog_ends_the_server",
    ),
    Mutant(
        "a failed sync does not end the process",
        "catalog/region_server.py",
        "        self._on_fatal(error)\n",
        "        pass\n",
        f"{DISK}::test_a_failed_sync_of_the_catalog_ends_the_server",
    ),
]
