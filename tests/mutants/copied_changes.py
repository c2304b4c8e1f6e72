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
        "        with succession.handed_over(self._deadline(), NUMBERS_AHEAD_MAX) as predecessor:\n"
        "            noted = gates.enter_context(succession.noted_changes())\n",
        "        predecessor = gates.enter_context(succession.handed_over(self._deadline(), NUMBERS_AHEAD_MAX))\n"
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
        "        self._copy()\n",
        "",
        f"{ALL_KINDS}[split_and_copy]",
    ),
    Mutant(
        "copied changes are not logged",
        "CopiedChanges._copy_one",
        "            self._log.append(region.region_id, *change, Durability.ASYNC, do_nothing)\n",
        "            pass\n",
        f"{ALL_KINDS}[split_and_prepare]",
    ),
    Mutant(
        "copied changes are read after a restart only",
        "CopiedChanges._copy_one",
        "        region.replay.apply(*change)\n",
        "",
        f"{ALL_KINDS}[split_and_prepare]",
    ),
    Mutant(
        "copied changes are not durable at the catalog's commit",
        "CopiedChanges.finish",
        "        if not self._log.sync():\n",
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
        "        if not self._log.sync():\n",
        "        self._log.sync()\n        if False:\n",
        f"{FAILURES}::test_a_split_does_not_wait_for_space_of_the_log",
    ),
    Mutant(
        "an offset of the old region is refused, because its last number is of before the split",
        "RegionChanges._split",
        "succession.handed_over(self._deadline(), NUMBERS_AHEAD_MAX)",
        "succession.handed_over(self._deadline())",
        f"{COPIED}::test_a_change_feed_has_each_change_once[after a crash-split_and_prepare]",
    ),
    Mutant(
        "ancestors are remembered until a million changes later",
        "CopiedChanges.finish",
        "            region.end_ancestor(last)\n",
        "            pass\n",
        f"{COPIED}::test_the_last_number_of_an_ancestor_is_known_unless_the_server_crashes_before_a_manifest",
    ),
    Mutant(
        "a bulk commit waits for space of the log with gates and the catalog's lock held",
        "Log.sync",
        " and not self.waits_for_space",
        "",
        "unit/host/test_full_log.py::test_a_bulk_commit_does_not_wait_for_space_of_the_log",
    ),
    Mutant(
        "changes are copied to a log without space",
        "CopiedChanges._copy_one",
        "        self._log.check_space(len(change.payload))\n",
        "",
        f"{FAILURES}::test_a_log_without_space_refuses_the_copies",
    ),
    Mutant(
        "all changes are copied while writes wait",
        "CopiedChanges.copy",
        "        for _ in range(_ROUNDS_MAX):\n",
        "        for _ in ():\n",
        f"{COPIED}::test_changes_are_copied_in_rounds_before_writes_have_to_wait",
    ),
    Mutant(
        "changes are copied for as long as writers are faster",
        "CopiedChanges.copy",
        "2 * count > before",
        "False",
        f"{COPIED}::test_changes_are_copied_in_rounds_before_writes_have_to_wait",
    ),
    Mutant(
        "a batch is made while a split copies changes",
        "BatchGate._outside_splits",
        "                if not self._commit.are_changes_noted:\n",
        "                if True:\n",
        f"{COPIED}::test_a_batch_waits_and_is_refused_by_the_region_that_was_split[split_and_copy-a_bulk_batch]",
    ),
    Mutant(
        "a batch in columns does not wait for the end of a split",
        "ColumnPuts._locked",
        "        with self._batch_gate.shared(deadline):\n",
        "        with self._gate.shared(deadline):\n",
        f"{COPIED}::test_a_batch_waits_and_is_refused_by_the_region_that_was_split[split_and_copy-a_batch_in_columns]",
    ),
    Mutant(
        "a bulk batch does not wait for the end of a split",
        "BulkLoad._apply_in_gate",
        "self._batch_gate.exclusive(deadline)",
        "self._gate.exclusive(deadline)",
        f"{COPIED}::test_a_batch_waits_and_is_refused_by_the_region_that_was_split[split_and_copy-a_bulk_batch]",
    ),
    Mutant(
        "a batch waits for ever after a split that was refused",
        "Commit.note_changes",
        "            self._noting.notify_all()\n",
        "            pass\n",
        f"{COPIED}::test_a_batch_that_waited_is_made_if_the_split_fails[a_bulk_batch]",
    ),
    Mutant(
        "a manifest says that the old region has fewer changes than it made",
        "CopiedChanges.finish",
        "        if last > self._noted.after + NUMBERS_AHEAD_MAX:\n",
        "        if False:\n",
        f"{FAILURES}::test_too_many_changes_refuse_the_split[numbers]",
    ),
    Mutant(
        "noted changes take any memory",
        "NotedChanges.add",
        "        if self._bytes_left < 0:\n",
        "        if False:\n",
        f"{FAILURES}::test_too_many_changes_refuse_the_split[bytes]",
    ),
    Mutant(
        "a split loses a change that could not be noted",
        "NotedChanges.add",
        "            except MemoryError:\n                self._are_complete = False\n",
        "            except MemoryError:\n                pass\n",
        f"{FAILURES}::test_a_change_that_could_not_be_noted_refuses_the_split",
    ),
    Mutant(
        "the first manifest has answers of changes that it does not have",
        "Succession.handed_over",
        "InheritedAnswers(parts.idempotency, through=parts.mvcc.last)",
        "InheritedAnswers(parts.idempotency)",
        f"{COPIED}::test_the_first_manifest_has_no_answer_of_a_later_change",
    ),
    Mutant(
        "a change that the log refuses is copied",
        "Commit._append",
        "        complete = partial(self._mvcc.complete, write_number)\n",
        "        complete = partial(self._mvcc.complete, write_number)\n"
        "        if self._note is not None:\n            self._note(write_number, kind, payload)\n",
        "unit/commit/test_commit.py::test_a_change_that_the_log_refuses_is_not_noted",
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
