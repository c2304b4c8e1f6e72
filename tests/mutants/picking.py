"""Broken builds of the picker: which files a compaction takes, and what becomes of each."""

from __future__ import annotations

from .broken_build import Mutant

PICKER = "unit/compaction/test_picker.py"
GROUPS = "unit/compaction/test_row_groups.py"
RANDOM = "property/test_compaction_picker.py"
ANY_FILES = f"{RANDOM}::test_any_files_give_a_legal_plan_or_none_and_plans_come_to_an_end"
MEMORY = "unit/compaction/test_tombstone_flushes.py"

PICKING = [
    Mutant(
        "a major compaction of too many files leaves out the oldest",
        "_major",
        "    inputs = files[-settings.files_max :]\n",
        "    inputs = files[: settings.files_max]\n",
        ANY_FILES,
    ),
    Mutant(
        "a minor compaction takes bases too",
        "_minor",
        "    run = _longest_run(files, [not file.is_base for file in files])\n",
        "    run = list(files)\n",
        ANY_FILES,
    ),
    Mutant(
        "a file is dropped when some of its cells have expired",
        "_dropping",
        "    run = _longest_run(files, [file.is_all_expired for file in files])[: settings.files_max]\n",
        "    run = _longest_run(files, [file.expired_count > 0 for file in files])[: settings.files_max]\n",
        ANY_FILES,
    ),
    Mutant(
        "a compaction may take any number of files",
        "_minor_of_all",
        "    numbers = _numbers(run[-settings.files_max :])\n",
        "    numbers = _numbers(run)\n",
        ANY_FILES,
    ),
    Mutant(
        "small groups stay apart, so bases leave no room for deltas",
        "row_groups",
        "        if sum(spans[index].byte_count for index in small) >= enough_bytes:\n",
        "        if True:\n",
        f"{RANDOM}::test_a_major_compaction_leaves_so_few_bases_that_there_is_room_for_deltas",
    ),
    Mutant(
        "files that share one row are compacted apart",
        "_overlapping",
        "        if groups and spans[index].first_row <= last_row:\n",
        "        if groups and spans[index].first_row < last_row:\n",
        f"{GROUPS}::test_files_that_share_one_row_are_one_group",
    ),
    Mutant(
        "a group ends with the last row of the file that begins last",
        "_overlapping",
        "        last_row = max(last_row, spans[index].last_row)\n",
        "        last_row = spans[index].last_row\n",
        f"{GROUPS}::test_a_file_inside_another_does_not_end_the_group",
    ),
    Mutant(
        "tombstones that a reader protects lead to one major compaction after the other",
        "_dropped_share",
        "    droppable = [file for file in files if not file.is_protected]\n",
        "    droppable = list(files)\n",
        f"{PICKER}::test_tombstones_that_a_reader_protects_lead_to_no_compaction_until_it_ends",
    ),
    Mutant(
        "a large base is rewritten for many tiny deltas",
        "_why_major",
        "    if _are_too_many(deltas, settings) and delta_bytes >= share_min / _SHARE_PART * base_bytes:\n",
        "    if _are_too_many(deltas, settings):\n",
        f"{PICKER}::test_a_base_is_not_rewritten_for_deltas_that_are_many_and_tiny",
    ),
    Mutant(
        "a file with tombstones is moved unread",
        "FileFacts.must_rewrite",
        "        return self.has_deleted_cells or self.expired_count > 0 or self.is_clipped\n",
        "        return self.expired_count > 0 or self.is_clipped\n",
        f"{PICKER}::test_a_file_with_something_to_drop_is_rewritten_even_if_it_is_alone",
    ),
    Mutant(
        "a single base with nothing to drop is compacted again and again",
        "_major",
        "    if len(moved) == len(inputs) and all(file.is_base for file in inputs):\n",
        "    if False:\n",
        f"{PICKER}::test_a_single_base_with_nothing_to_drop_is_never_rewritten",
    ),
    Mutant(
        "clipped files keep the disk of the rows of other regions",
        "pick",
        " or _unclipping(files, settings)",
        "",
        f"{RANDOM}::test_an_idle_store_has_no_clipped_file",
    ),
    Mutant(
        "a clipped base is moved with the rows of other regions",
        "FileFacts.must_rewrite",
        " or self.is_clipped",
        "",
        f"{PICKER}::test_a_clipped_base_is_rewritten_and_other_bases_are_moved",
    ),
    Mutant(
        "the largest deltas are compacted because there are many",
        "cheapest_run",
        "            if cost < best_cost:\n",
        "            if cost > best_cost or not best:\n",
        "unit/compaction/test_size_tiers.py::test_the_cheapest_run_costs_the_fewest_bytes_a_file",
    ),
    Mutant(
        "a threshold below its least value is accepted",
        "CompactionSettings.__post_init__",
        "            if not (math.isfinite(value) and least <= value <= greatest):\n",
        "            if not (math.isfinite(value) and value <= greatest):\n",
        "unit/compaction/test_settings.py::test_a_bad_value_is_refused_with_its_property_and_what_is_allowed",
    ),
    Mutant(
        "few tombstones among many rows in memory are flushed",
        "is_due",
        "    least = max(settings.memory_tombstones, share * store.row_count)\n",
        "    least = settings.memory_tombstones\n",
        f"{MEMORY}::test_a_flush_is_due_with_enough_tombstones_that_are_a_share_of_the_rows",
    ),
    Mutant(
        "a region that always deletes is flushed at each look",
        "TombstoneFlushes.look_at",
        "        if monotonic < self._not_before.get(region_id, monotonic):\n",
        "        if False:\n",
        f"{MEMORY}::test_a_region_is_flushed_once_in_a_while_however_much_is_deleted",
    ),
    Mutant(
        "tombstones in memory are never flushed",
        "CompactionThreads._offer_due",
        "        self._tombstones.look_at(region.region_id, memory, settings, self._clock.monotonic())\n",
        "",
        "unit/host/test_compacting.py::test_a_flush_is_requested_of_a_region_with_many_tombstones_in_memory",
    ),
    Mutant(
        "a requested flush is forgotten",
        "FlushThreads._due",
        "            or region.region_id in requested\n",
        "",
        "unit/host/test_flushing.py::test_a_requested_flush_is_begun_once_and_others_are_not",
    ),
]
