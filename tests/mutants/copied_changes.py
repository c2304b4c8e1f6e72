"""Broken builds of splits: changes that are made while the new regions are prepared are lost, doubled or wait."""

from __future__ import annotations

from .broken_build import Mutant

COPIED = "unit/host/test_copied_changes.py"
REPLACED_IDS = "unit/host/test_replaced_ids.py"
FAILURES = "unit/host/test_copied_change_failures.py"
ALL_KINDS = f"{COPIED}::test_the_new_regions_have_all_kinds_of_changes"

COPIED_CHANGES_MUTANTS = [
    Mutant(
        "writes wait while new regions are prepared",
        "RegionChanges._split",
        "        with succession.handed_over(self._deadline(), NUMBERS_AHEAD) as predecessor:\n"
        "            noted = gates.enter_context(succession.noted_changes())\n",
        "        predecessor = gates.enter_context(succession.handed_over(self._deadline(), NUMBERS_AHEAD))\n"
        "        noted = gates.enter_context(succession.noted_changes())\n",
        f"{ALL_KINDS}[split_and_prepare]",
    ),
    Mutant(
        "a new region has nothing that was written while it was prepared",
        "Succession.noted_changes",
        "        self._commit.note_changes(noted.add)\n",
        "",
        f"{ALL_KINDS}[split_and_prepare]",
    ),
    Mutant(
        "a new region lacks the last changes before writes had to wait",
        "CopiedChanges.finish",
        "        self._copy(self._noted.taken())\n",
        "",
        f"{ALL_KINDS}[split_and_copy]",
    ),
    Mutant(
        "copied changes are not logged",
        "CopiedChanges._copy",
        "                self._log.append(region.region_id, *change, Durability.ASYNC, do_nothing)\n",
        "                pass\n",
        f"{ALL_KINDS}[split_and_prepare]",
    ),
    Mutant(
        "copied changes are read after a restart only",
        "CopiedChanges._copy",
        "            region.replay.apply(*change)\n",
        "            pass\n",
        f"{ALL_KINDS}[split_and_prepare]",
    ),
    Mutant(
        "copied changes are not durable at the catalog's commit",
        "CopiedChanges.finish",
        "        if not self._log.sync(gives_up=lambda: self._log.waits_for_space):\n",
        "        if False:\n",
        f"{FAILURES}::test_copies_are_durable_at_the_catalogs_commit",
    ),
    Mutant(
        "a new region uses numbers of the old one after a restart",
        "CopiedChanges.finish",
        "self._log.reserve(region.region_id, last, stamps_until)",
        "self._log.reserve(region.region_id, 0, stamps_until)",
        f"{FAILURES}::test_copies_are_durable_at_the_catalogs_commit",
    ),
    Mutant(
        "a new region uses stamps that a client has reserved meanwhile",
        "CopiedChanges.finish",
        "self._log.reserve(region.region_id, last, stamps_until)",
        "self._log.reserve(region.region_id, last, 0)",
        f"{FAILURES}::test_copies_are_durable_at_the_catalogs_commit",
    ),
    Mutant(
        "a new region drops versions that a snapshot of the old one sees",
        "RegionChanges._split",
        "            region.replay.keeps_old_versions = True",
        "            region.replay.keeps_old_versions = False",
        f"{COPIED}::test_a_snapshot_that_is_made_meanwhile_reads_its_moment",
    ),
    Mutant(
        "rows in columns that are not logged are lost by a split",
        "ColumnPuts._apply",
        "        if not is_logged and self._commit.are_changes_noted:\n",
        "        if False:\n",
        f"{COPIED}::test_changes_without_a_log_record_are_in_the_new_regions[split_and_prepare]",
    ),
    Mutant(
        "a bulk batch that is not logged is lost by a split",
        "BulkLoad._apply",
        "        if record is None and self._commit.are_changes_noted:\n",
        "        if False:\n",
        f"{COPIED}::test_changes_without_a_log_record_are_in_the_new_regions[split_and_prepare]",
    ),
    Mutant(
        "a copied batch has rows of the other region",
        "_cut_record",
        "cut(parts, region.start, region.stop)",
        "parts",
        f"{COPIED}::test_a_bulk_batch_in_a_file_is_cut[split_and_prepare]",
    ),
    Mutant(
        "a copied batch names a bulk file that is removed with the old region",
        "_cut_record",
        "        file_number=0,\n",
        "",
        f"{COPIED}::test_a_bulk_batch_in_a_file_is_cut[split_and_prepare]",
    ),
    Mutant(
        "a region saves the answers of rows of another one",
        "_cut_record",
        "_requests_in(record.row_requests, region)",
        "record.row_requests",
        f"{COPIED}::test_rows_of_a_batch_keep_their_requests[split_and_prepare]",
    ),
    Mutant(
        "a region without rows of a bulk batch forgets its request",
        "_cut_record",
        "    if not own and record.request is None:\n",
        "    if not own:\n",
        f"{COPIED}::test_a_bulk_batch_keeps_its_request_in_both_regions[split_and_prepare]",
    ),
    Mutant(
        "the log keeps regions of a split that was refused",
        "RegionChanges._split",
        "            undo.callback(self.log.forget, region.region_id)\n",
        "",
        f"{FAILURES}::test_after_a_refused_split_the_old_region_has_what_was_written_meanwhile[split_and_prepare]",
    ),
    Mutant(
        "changes are noted for ever after a split that was refused",
        "Succession.noted_changes",
        "            self._commit.note_changes(None)\n",
        "            pass\n",
        f"{FAILURES}::test_after_a_refused_split_the_old_region_has_what_was_written_meanwhile[split_and_prepare]",
    ),
    Mutant(
        "a split counts although the log has no space for copied changes",
        "CopiedChanges.finish",
        "        if not self._log.sync(gives_up=lambda: self._log.waits_for_space):\n",
        "        self._log.sync(gives_up=lambda: self._log.waits_for_space)\n        if False:\n",
        f"{FAILURES}::test_a_log_without_space_refuses_the_split",
    ),
    Mutant(
        "a manifest says that the old region has fewer changes than it made",
        "CopiedChanges._copy",
        "        if changes and changes[-1].write_number > self._noted.begun_at + NUMBERS_AHEAD:\n",
        "        if False:\n",
        f"{FAILURES}::test_more_changes_than_numbers_were_kept_free_refuse_the_split",
    ),
    Mutant(
        "an offset of the old region is refused, because its last number is of before the split",
        "RegionChanges._split",
        "succession.handed_over(self._deadline(), NUMBERS_AHEAD)",
        "succession.handed_over(self._deadline())",
        f"{COPIED}::test_a_change_feed_has_each_change_once[after a crash-split_and_prepare]",
    ),
    Mutant(
        "ancestors are remembered until a million changes later",
        "CopiedChanges.finish",
        "            region.end_predecessor(last)\n",
        "            pass\n",
        f"{COPIED}::test_the_last_number_of_an_ancestor_is_in_the_next_manifest",
    ),
    # ---- changes that come later
    Mutant(
        "a change that comes late is made by a region that has one of its rows",
        "ServedRegions.successor",
        "all(region.has(row) for row in rows)",
        "any(region.has(row) for row in rows)",
        f"{REPLACED_IDS}::test_it_is_the_one_that_has_all_of_the_rows",
    ),
    Mutant(
        "a region that was split twice is forgotten",
        "ReplacedRegions.add",
        "            known = {region_id: _exchanged(ids, old, new) for region_id, ids in self._successors.items()}\n",
        "            known = dict(self._successors)\n",
        f"{REPLACED_IDS}::test_it_is_the_one_that_has_all_of_the_rows",
    ),
    Mutant(
        "replaced regions are remembered without a limit",
        "ReplacedRegions.add",
        "dict(list(known.items())[-_REMEMBERED_MAX:])",
        "known",
        f"{REPLACED_IDS}::test_the_newest_thousand_are_known",
    ),
]
