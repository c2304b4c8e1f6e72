"""Broken builds of bulk writes: commits over several regions."""

from __future__ import annotations

from .broken_build import Mutant

COMMIT = "unit/host/test_bulk_commit.py"
CRASH = f"{COMMIT}::test_a_crash_at_any_call_of_a_commit_leaves_all_of_it_or_nothing"

BULK_WRITE_MUTANTS = [
    Mutant(
        "a record of a bulk write counts without its commit",
        "Replay.apply",
        "            if not record.commit_number or record.commit_number in self.commits:\n",
        "            if True:\n",
        CRASH,
    ),
    Mutant(
        "two of four regions adopt a bulk write",
        "_Committing._commit_in_gates",
        "                    for each in commits.values():\n                        each.finish()\n",
        "                    for each in list(commits.values())[:2]:\n                        each.finish()\n",
        f"{COMMIT}::test_what_is_staged_is_invisible_until_its_commit_which_has_all_of_it",
    ),
    Mutant(
        "the read point does not wait for the commit",
        "RegionCommit.begin",
        "            self._first = self._numbering.begin()\n",
        "            self._first = self._numbering.begin()\n        self._mvcc.complete(self._first)\n"
        '        self._mvcc = type("M", (), {"complete": lambda *_: None, "last": 0})()\n',
        f"{COMMIT}::test_no_reader_sees_a_commit_before_its_commit_point",
    ),
    Mutant(
        "a failed commit stays in memory",
        "RegionCommit.take_back",
        "                take_back()\n",
        "                pass\n",
        f"{COMMIT}::test_a_full_disk_refuses_a_commit_and_nothing_of_it_is_seen",
    ),
    Mutant(
        "staged files are removed at start",
        "Opening._remove_unnamed_bulk_files",
        "        named.update([each.record.file_number for batch in batches for each in batch.staged])\n",
        "",
        f"{COMMIT}::test_staged_batches_survive_a_restart_with_their_session",
    ),
    Mutant(
        "a conflict is not found",
        "_Committing._commit_in_gates",
        "            self._check_unchanged(since)\n",
        "",
        f"{COMMIT}::test_of_two_commits_from_one_snapshot_the_first_wins",
    ),
    Mutant(
        "rows that came since they were looked for are not replaced",
        "_Committing._hide",
        "distinct_rows(iter([known, later])) if len(later) else known",
        "known",
        f"{COMMIT}::test_a_row_that_comes_while_a_replacement_is_prepared_is_replaced_too",
    ),
    Mutant(
        "an identity is forgotten",
        "_Committing.commit",
        "request.identity is not None and commits.has_identity",
        "False and commits.has_identity",
        f"{COMMIT}::test_a_commit_of_a_known_identity_does_nothing",
    ),
]
