"""Broken builds of alters: the limits by which a write is judged, and how long a region remembers them."""

from __future__ import annotations

from .broken_build import Mutant

LIMITS = "unit/region/test_altered_limits.py"
HISTORIES = "property/test_altered_limits.py"
RULES = "property/test_retention.py::test_no_answer_depends_on_flushes_compactions_and_pruning_after_alters"

LIMIT_MUTANTS = [
    Mutant(
        "a get takes the newest limit for all writes",
        "alters",
        "        if limits.versions != versions or limits.gone_through >= 0:\n",
        "        if limits.gone_through >= 0:\n",
        f"{LIMITS}::test_a_higher_limit_brings_no_version_back",
    ),
    Mutant(
        "a get shows what had expired before an alter",
        "after_alters",
        "            left = [cell for cell in live if -cell[1] > limits.gone_through]\n",
        "            left = list(live)\n",
        f"{LIMITS}::test_a_longer_time_to_live_brings_nothing_back",
    ),
    Mutant(
        "a scan shows what had expired before an alter",
        "after_alters",
        "        mask[places] = live & (before.timestamp > limits.gone_through)\n",
        "        mask[places] = live\n",
        f"{LIMITS}::test_a_longer_time_to_live_brings_nothing_back",
    ),
    Mutant(
        "an old reader is under the new limits",
        "Family.as_of",
        "            if write_number < limits.write_number:\n",
        "            if write_number < 0:\n",
        f"{LIMITS}::test_a_scan_from_before_an_alter_is_under_the_limits_of_its_moment",
    ),
    Mutant(
        "cells expire under the eyes of a reader from before an alter",
        "expired_for_all",
        "    if family.as_of(protected[0][0]) is not family:\n",
        "    if False:\n",
        f"{LIMITS}::test_a_scan_from_before_an_alter_is_under_the_limits_of_its_moment",
    ),
    Mutant(
        "surplus versions are counted across an alter",
        "_without_surplus",
        "                of_span = [cell for cell in newer if start <= -cell[2] < stop]\n",
        "                of_span = newer\n",
        RULES,
    ),
    Mutant(
        "pruning in a replay takes the newest limits for all writes",
        "RowSegment._prune",
        "Retention(spans, past=self._past)",
        "Retention(spans)",
        f"{LIMITS}::test_replay_prunes_each_write_by_the_limits_of_its_moment",
    ),
    Mutant(
        "past limits end although cells from before are in memory",
        "RegionCompactor._settled_through",
        "self._oldest_outside(family_number, rewritten) - 1",
        "NEWEST",
        f"{LIMITS}::test_past_limits_stay_while_memory_or_files_left_out_have_cells_from_before",
    ),
    Mutant(
        "a compaction applies an alter before a delete in memory that came before the alter",
        "RegionCompactor._written",
        "            newer_from=self._oldest_outside(family_number, [*inputs, *older]),\n",
        "            newer_from=NEWEST,\n",
        f"{LIMITS}::test_a_compaction_leaves_what_a_delete_in_memory_shows_again",
    ),
    Mutant(
        "past limits end although a reader is under them",
        "RegionCompactor._settled_through",
        "        through = self._mvcc.protected_read_points()[0][0]\n",
        "        through = self._mvcc.last\n",
        f"{LIMITS}::test_past_limits_end_with_a_major_compaction",
    ),
    Mutant(
        "a start forgets an alter that the region had not applied",
        "open_parts",
        "    applied = with_applied_limits(table, manifest.limits)\n",
        "    applied = table\n",
        f"{LIMITS}::test_a_start_after_a_crash_applies_an_alter_after_all_writes_of_the_log",
    ),
    Mutant(
        "writes come between an alter and its manifest",
        "Altering.alter",
        "                    parts.log.owes_limits = not self._commit(Edit())\n",
        "                    pass\n",
        f"{LIMITS}::test_no_write_comes_between_an_alter_and_its_manifest",
    ),
    Mutant(
        "a region takes writes under limits that no manifest has",
        "RegionLog.check_space",
        "        if self.owes_limits:\n",
        "        if False:\n",
        f"{LIMITS}::test_without_space_for_the_altered_limits_a_region_takes_no_writes",
    ),
    Mutant(
        "a start takes writes under limits that no manifest has",
        "Altering.apply_wanted_limits",
        "            parts.log.owes_limits = not self._commit(Edit())\n",
        "            self._commit(Edit())\n",
        f"{LIMITS}::test_a_crash_before_there_is_space_changes_no_answer",
    ),
    Mutant(
        "the manifest that an alter could not write is not tried again",
        "RegionServer._tidy_up",
        "                    region.altering.commit_owed_limits()\n",
        "                    pass\n",
        "unit/host/test_region_server.py::test_a_manifest_for_which_there_was_no_space_is_written_when_there_is",
    ),
    Mutant(
        "an alter takes no write number",
        "Altering.alter",
        '                    assert parts.mvcc.begin() == write_number, "a write began with the gate held"\n'
        "                    parts.mvcc.complete(write_number)\n",
        "                    pass\n",
        HISTORIES,
    ),
]
