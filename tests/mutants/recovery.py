"""Broken builds of recovery: reading the log, and replay."""

from __future__ import annotations

from .broken_build import Mutant

DAMAGE = "unit/wal/test_damage.py"
IDLE = "unit/wal/test_idle_markers.py"
LIFE = "unit/region/test_region.py"
INTERLEAVINGS = "unit/region/test_interleavings.py"
LOST = "unit/host/test_lost_generations.py"
LOST_ENDS = "unit/wal/test_lost_ends.py"
REPLAY = "unit/region/test_region_replay.py"
SEGMENT = "unit/memstore/test_row_segment.py"
TABLES = "unit/host/test_region_server.py"
TAIL = "unit/wal/test_torn_tail.py"
UNKNOWN = "unit/host/test_unknown_outcomes.py"

RECOVERY = [
    # ---- torn tail
    Mutant(
        "a record's checksum is ignored",
        "LogReplay.read",
        " or extend(seed ^ offset, data[offset + 4 : end]) != checksum",
        "",
        f"{TAIL}::test_valid_records_behind_a_bad_one_that_prove_nothing_are_cut_with_the_tail",
    ),
    Mutant(
        "damage is taken for a torn tail",
        "LogReader._proven",
        ", *(r.proven for r in runs)])\n",
        "])\n",
        "unit/wal/test_format_1.py::test_a_bad_place_that_its_records_prove_is_damage",
    ),
    Mutant(
        "a torn tail is not cut",
        "recover",
        "    if recovered.is_tail_intact:\n",
        "    if False:\n",
        f"{TAIL}::test_the_cut_is_done_before_a_new_segment_exists",
    ),
    Mutant(
        "the cut is not synced",
        "_cut_tail",
        "        files.fsync(descriptor)\n",
        "",
        f"{TAIL}::test_the_cut_is_done_before_a_new_segment_exists",
    ),
    Mutant(
        "unproven records are not rewritten",
        "_content",
        "    for record in recovered.unproven_changes():\n        copies",
        "    for record in ():\n        copies",
        f"{TAIL}::test_valid_records_that_are_not_proven_are_copied_and_synced",
    ),
    Mutant(
        "rewritten records are not synced",
        "begin_segment",
        "        files.fdatasync(descriptor)\n",
        "",
        "unit/wal/test_crashes.py::test_a_crash_at_each_call_of_a_recovery_is_harmless",
    ),
    Mutant(
        "rewritten records are delivered twice",
        "LogReader._read_sealed",
        "        limit = min(final_bytes, len(segment.data))\n",
        "        limit = len(segment.data)\n",
        f"{TAIL}::test_valid_records_behind_a_bad_one_that_prove_nothing_are_cut_with_the_tail",
    ),
    Mutant(
        "a tail is cut silently",
        "_cut_tail",
        "    if recovered.last_version > 1 and not _note_cut(folder, files, recovered):\n        return\n",
        "",
        f"{LOST_ENDS}::test_a_tail_that_a_recovery_cuts_is_no_damage_whenever_the_next_one_begins",
    ),
    Mutant(
        "a segment with damage is cut",
        "recover",
        "    if recovered.is_tail_intact:\n",
        "    if recovered.segments:\n",
        f"{LOST_ENDS}::test_lost_records_that_a_killed_server_had_synced_are_named",
    ),
    Mutant(
        "a segment may be shorter than it was made",
        "LogReader._proven",
        "        is_short = len(segment.data) < allocated_bytes and",
        "        is_short = False and",
        f"{LOST_ENDS}::test_a_file_cut_at_any_byte_is_shorter_than_it_was_made",
    ),
    Mutant(
        "a log that was closed may end anywhere",
        "LogReader._was_truncated",
        "        return last.kind == MARKER and is_last_marker(last.payload, segment.version)\n",
        "        return last.kind == MARKER\n",
        f"{LOST_ENDS}::test_a_log_that_ends_with_another_marker_was_cut",
    ),
    Mutant(
        "displaced records prove nothing",
        "LogReader._proven",
        "            displaced = displaced_proof(",
        "            displaced_proof(",
        f"{LOST_ENDS}::test_the_segment_alone_shows_a_piece_cut_out_of_it",
    ),
    Mutant(
        "the newest segments may be missing",
        "LogReader._check_newest",
        "        if self._durable.segment > number:\n",
        "        if False:\n",
        f"{LOST_ENDS}::test_a_missing_newest_segment_is_named",
    ),
    Mutant(
        "a partial marker proves records before it",
        "LogReplay._marker",
        "        elif self._unresolved_from is not None and marker.since <= self._unresolved_from:\n",
        "        elif self._unresolved_from is not None:\n",
        f"{IDLE}::test_no_region_is_served_with_lost_records",
    ),
    Mutant(
        "only the newest damage is in doubt",
        "LogReplay.gap",
        "        self._unresolved_from = self._unresolved_from or start\n",
        "        self._unresolved_from = start\n",
        f"{IDLE}::test_no_region_is_served_with_lost_records",
    ),
    # ---- damage
    Mutant(
        "a broken chain is served",
        "LogReplay.read",
        "                if last_of(region_id, 0) == previous or "
        "self._gap_is_flushed(path, offset, region_id, previous):\n",
        "                if True:\n",
        f"{DAMAGE}::test_a_proven_bad_record_breaks_the_chain_of_its_region_and_the_others_are_whole",
    ),
    Mutant(
        "records after damage are assumed intact",
        "LogReplay.finish",
        "            if region_id not in self._proven and region_id not in self.damaged:\n",
        "            if False:\n",
        f"{DAMAGE}::test_without_a_later_marker_no_region_is_proven_whole",
    ),
    Mutant(
        "records older than the log are assumed flushed",
        "LogReplay._begin",
        "            if flushed < start:\n",
        "            if False:\n",
        f"{DAMAGE}::test_missing_oldest_segments_show_by_the_flushed_write_numbers",
    ),
    Mutant(
        "damage is forgotten when its segment is removed",
        "Chains.states",
        "        states.update((region_id, RegionState(DAMAGED)) for region_id in self._damaged)\n",
        "",
        f"{DAMAGE}::test_a_segment_with_damage_is_set_aside_instead_of_removed",
    ),
    Mutant(
        "a hole between segments is passed over",
        "_read_log",
        "        if number != before + 1:\n",
        "        if False:\n",
        f"{DAMAGE}::test_a_missing_segment_in_the_middle_is_named",
    ),
    Mutant(
        "a segment of another log is read",
        "LogReader._header",
        "        if header.log_id != self._log_id:\n",
        "        if False:\n",
        f"{DAMAGE}::test_a_segment_of_another_log_is_named",
    ),
    Mutant(
        "a missing log is taken for a new one",
        "Opening._read_log",
        "            expected_log_id=self._state.log_id or None,\n",
        "            expected_log_id=None,\n",
        f"{TABLES}::test_a_missing_log_is_not_a_new_one",
    ),
    Mutant(
        "a region with lost log records is served",
        "Opening._replay",
        "            if damage is not None:\n",
        "            if False:\n",
        f"{TABLES}::test_damage_in_the_log_closes_the_regions_that_lost_something_and_the_others_serve",
    ),
    Mutant(
        "the newest catalog found is taken for the newest written",
        "Opening._check_newest",
        "        if lost is not None:\n            raise lost\n",
        "",
        f"{LOST}::test_the_newest_catalog_is_missed_whatever_it_did",
    ),
    Mutant(
        "a folder of an unknown region id proves nothing",
        "lost_catalog",
        "        if region_id >= state.next_region_id:\n",
        "        if False:\n",
        f"{LOST}::test_a_region_that_the_catalog_has_never_given_shows_that_a_later_one_is_lost",
    ),
    Mutant(
        "the newest manifest found is taken for the newest written",
        "lost_manifest",
        "    if logged is None or logged.manifest_generation <= generation:\n",
        "    if True:\n",
        f"{LOST}::test_the_newest_manifest_is_missed_and_its_region_closed",
    ),
    Mutant(
        "regions are flushed in recovery before the catalog is known to be the newest",
        "Opening._relieve",
        "        if not self._is_newest_checked:\n",
        "        if False:\n",
        f"{LOST}::test_no_region_is_flushed_in_recovery_before_a_lost_catalog_is_missed",
    ),
    Mutant(
        "a file that can not be read ends the start",
        "Opening._open_regions",
        "                except (CorruptionError, OSError) as error:\n                    path",
        "                except CorruptionError as error:\n                    path",
        "unit/host/test_unreadable_files.py"
        "::test_it_costs_its_own_region_and_is_named_by_start_verify_and_salvage[a store file forbidden]",
    ),
    Mutant(
        "a table operation that fails after its commit is reported as undone",
        "LiveCatalog.committed",
        "        except Exception as error:",
        "        except OSError as error:",
        f"{UNKNOWN}::test_whatever_fails_just_after_the_commit_leaves_the_outcome_unknown_and_ends_the_server",
    ),
    Mutant(
        "the server serves on after an internal error follows a commit",
        "LiveCatalog.committed",
        "        except Exception as error:",
        "        except (RegionServerError, OSError) as error:",
        f"{UNKNOWN}::test_whatever_fails_just_after_the_commit_leaves_the_outcome_unknown_and_ends_the_server",
    ),
    Mutant(
        "a table operation is answered before the log has noted it",
        "LiveCatalog.committed",
        "            self._log.sync()\n",
        "",
        f"{UNKNOWN}::test_it_is_answered_when_the_log_has_noted_it_durably",
    ),
    Mutant(
        "the first start does not wait until the log has noted the catalog",
        "Opening._begin_serving",
        "                log.sync()\n",
        "                pass\n",
        "unit/host/test_set_aside.py::test_what_a_create_leaves_right_after_the_first_start_is_removed",
    ),
    Mutant(
        "one damaged region closes all",
        "Opening._open_regions",
        "                    self._damaged[region.region_id] = damage_of(error, path)\n",
        "                    raise\n",
        f"{TABLES}::test_a_region_with_a_damaged_manifest_is_closed_and_named_and_the_others_serve",
    ),
    # ---- replay
    Mutant(
        "the log is not read at start",
        "Replay.apply",
        "        if write_number <= self._last:\n            return\n",
        "        return\n",
        f"{REPLAY}::test_every_kind_of_change_survives_repeated_crashes",
    ),
    Mutant(
        "records that are in store files are replayed",
        "Replay.apply",
        "        if write_number <= self._last:\n            return\n",
        "",
        f"{REPLAY}::test_the_bulk_file_of_a_flushed_batch_is_not_missed",
    ),
    Mutant(
        "write numbers are reused after a restart",
        "Region.serve",
        "        mvcc.restore(max(replayed, numbers_until, self.table.newest_alter))\n",
        "",
        f"{INTERLEAVINGS}::test_numbers_continue_after_the_reserved_block_after_a_restart",
    ),
    Mutant(
        "a region accepts calls during replay",
        "ReadableRegion._check_serving",
        "        if self._state not in _SERVES_READS:\n",
        "        if self._state is State.CLOSED:\n",
        f"{LIFE}::test_only_a_serving_region_takes_calls",
    ),
    Mutant(
        "a region that is closed before it served counts memory that it has released",
        "Region.abandon",
        "        self.replay.count_memory()\n",
        "",
        f"{LIFE}::test_a_region_that_is_abandoned_releases_its_memory",
    ),
    Mutant(
        "a region keeps the memstores of dropped families",
        "Region.serve",
        "        del self.replay",
        "        pass",
        f"{LIFE}::test_the_cells_of_a_dropped_family_are_freed",
    ),
    Mutant(
        "a dropped family's records come back",
        "Replay.apply",
        "                if memstore is not None:  # Else the family was dropped since.\n",
        "                memstore = memstore or next(iter(self._memstores.values()))\n                if True:\n",
        f"{TABLES}::test_a_dropped_familys_cells_are_gone_also_for_a_later_family_of_the_same_name[True]",
    ),
    Mutant(
        "a row's replayed cells stay unsorted",
        "RowSegment.recovered",
        "                for held in self._rows.values():\n                    held.sort()\n",
        "",
        f"{SEGMENT}::test_cells_that_come_in_any_order_in_recovery_are_sorted_before_pruning_and_at_its_end",
    ),
    Mutant(
        "a row is pruned before its cells are sorted",
        "RowSegment._prune",
        "            if self._is_recovering:\n                held.sort()\n            retained",
        "            retained",
        f"{SEGMENT}::test_cells_that_come_in_any_order_in_recovery_are_sorted_before_pruning_and_at_its_end",
    ),
    Mutant(
        "a log of more than fits in memory is replayed into it",
        "Opening._replay.apply",
        "            if self._memory.is_under_pressure:\n",
        "            if False:\n",
        f"{REPLAY}::test_a_log_of_more_than_fits_in_memory_is_flushed_while_it_is_replayed",
    ),
    Mutant(
        "a bulk file is not verified before it is served",
        "read_bulk_file",
        "    if checksum != written.checksum:\n",
        "    if False:\n",
        f"{REPLAY}::test_a_damaged_bulk_file_closes_only_its_region[a flipped bit]",
    ),
    Mutant(
        "bulk files that the log names are removed at start",
        "Opening._remove_unnamed_bulk_files",
        "            if number not in named and not self._damaged:\n",
        "            if not self._damaged:\n",
        f"{REPLAY}::test_every_kind_of_change_survives_repeated_crashes",
    ),
    Mutant(
        "files that salvage may need are removed at start",
        "Opening._remove_unnamed_bulk_files",
        "            if number not in named and not self._damaged:\n",
        "            if number not in named:\n",
        f"{REPLAY}::test_a_damaged_bulk_file_closes_only_its_region[a flipped bit]",
    ),
]
