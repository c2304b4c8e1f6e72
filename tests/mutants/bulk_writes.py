"""Broken builds of bulk writes: commits over several regions, spilled batches and adopted files."""

from __future__ import annotations

from .broken_build import CLIENT, Mutant

COMMIT = "unit/host/test_bulk_commit.py"
LARGE = "unit/host/test_large_bulk_writes.py"
DAMAGED = "unit/host/test_damaged_bulk_commits.py"
LOST = "unit/host/test_lost_batches.py"
NO_MEMORY = "unit/host/test_bulk_writes_without_memory.py"
MANY = "unit/host/test_many_batches.py"
LARGE_CRASHES = "unit/host/test_large_bulk_crashes.py"
LARGE_CRASH = f"{LARGE_CRASHES}::test_a_crash_at_any_call_of_a_large_commit_leaves_all_of_it_or_nothing[False]"
SPILL_CRASH = f"{LARGE_CRASHES}::test_a_crash_at_any_call_of_a_spill_loses_no_batch_that_was_staged"
TWINS = f"{LARGE}::test_a_large_write_is_what_a_small_one_would_have_been"
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
        "a batch that can't be staged for lack of memory has an unknown outcome",
        "BulkWrites.stage",
        'memory_error_refused("a batch of a bulk write")',
        "contextlib.nullcontext()",
        f"{NO_MEMORY}::test_a_batch_that_can_not_be_staged_is_refused_and_leaves_no_file[read]",
    ),
    Mutant(
        "a failed commit stays in memory",
        "RegionCommit.take_back",
        "                self._applier.take_back_after(self._first)\n",
        "                pass\n",
        f"{COMMIT}::test_a_full_disk_refuses_a_commit_and_nothing_of_it_is_seen",
    ),
    Mutant(
        "segments of a commit are merged with older ones",
        "RegionCommit.begin",
        "        self._applier.merge_before(self._first)\n",
        "",
        f"{MANY}::test_a_commit_of_many_batches_that_fails_leaves_memory_as_it_was",
    ),
    Mutant(
        "segments from before a commit are never merged again",
        "RegionCommit.finish",
        "        self._applier.merge_before(NEWEST)\n",
        "",
        f"{MANY}::test_segments_are_merged_after_a_commit",
    ),
    Mutant(
        "a spill leaves an older batch of its rows behind",
        "batches_to_spill",
        " or (bounds[0] <= last and first <= bounds[1])",
        "",
        f"{MANY}::test_a_later_batch_wins_also_over_one_of_a_region_that_is_gone",
    ),
    Mutant(
        "staged files are removed at start",
        "Opening._remove_unnamed_bulk_files",
        "        named.update([each.record.file_number for each in staged_files])\n",
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
        "ReplacedRows.now",
        "distinct_rows(iter([self.known, later])) if len(later) else self.known",
        "self.known",
        f"{COMMIT}::test_a_row_that_comes_while_a_replacement_is_prepared_is_replaced_too",
    ),
    Mutant(
        "an identity is forgotten",
        "_Committing.commit",
        "request.identity is not None and commits.has_identity",
        "False and commits.has_identity",
        f"{COMMIT}::test_a_commit_of_a_known_identity_does_nothing",
    ),
    # ---- lost batches
    Mutant(
        "a commit passes over a lost batch",
        "_Committing.commit",
        "        check_none_is_lost(self._write, writes.staging, request.number, request.staged_batches)\n",
        "",
        f"{LOST}::test_a_commit_without_a_lost_last_batch_is_refused",
    ),
    Mutant(
        "batches of another bulk write of the session count",
        "check_none_is_lost",
        "numbers if is_another else write.contents.missing(numbers)",
        "write.contents.missing(numbers)",
        f"{LOST}::test_batches_of_another_bulk_write_of_the_session_are_lost",
    ),
    Mutant(
        "the number of a lost batch is given again after a restart",
        "StagedContents.__init__",
        "max(self.last_number, last_reserved) + 1",
        "self.last_number + 1",
        f"{LOST}::test_the_number_of_a_lost_batch_is_not_given_again",
    ),
    Mutant(
        "a block of numbers is in use before it is durable",
        "Staging.reserved",
        "        self._write(with_block)\n",
        "",
        f"{LOST}::test_the_number_of_a_lost_batch_is_not_given_again",
    ),
    Mutant(
        "a lost batch before a gap is not missed",
        "Staging.read_folder",
        "        _check_there(folder, _BATCH, batch_numbers, [batch.after for batch in batches if batch.after])\n",
        "",
        f"{LOST}::test_a_lost_batch_that_another_one_follows_ends_the_write_also_beside_a_gap",
    ),
    Mutant(
        "the number of a staged batch is not answered",
        "BulkMessages.answer",
        "                staged_batch=outcome.staged_batch,\n",
        "",
        "unit/rpc/test_staged_batches.py::test_the_answer_to_a_staged_batch_has_its_number",
    ),
    Mutant(
        "the numbers of a commit are not read",
        "commit_request",
        "        tuple(message.staged_batches),\n",
        "",
        "unit/rpc/test_staged_batches.py::test_a_commit_has_the_numbers_that_its_client_names",
    ),
    Mutant(
        "the numbers of staged batches are not collected",
        "BulkSend.answered",
        "                self.stage.numbers.add(answer.staged_batch)\n",
        "                pass\n",
        "unit/client/test_staged_batches.py::test_the_numbers_of_all_answered_batches_are_collected",
        CLIENT,
    ),
    # ---- large writes
    Mutant(
        "an entry of a manifest counts without its commit",
        "Manifest.counted",
        "                        if not info.commit_number or info.commit_number in commits\n",
        "",
        LARGE_CRASH,
    ),
    Mutant(
        "a server of an earlier version opens a manifest with adopted files and ignores their numbers",
        "Manifest.format_version",
        "            return _VERSION_OF_ADOPTED_FILES\n",
        "            return _VERSION_OF_CLIPPED_FILES\n",
        "unit/region/test_manifest.py::test_a_server_of_version_3_refuses_one_with_adopted_files",
    ),
    Mutant(
        "two of four regions adopt a large write",
        "_Committing._linked",
        "        for each in commits.values():\n",
        "        for each in list(commits.values())[:2]:\n",
        f"{LARGE}::test_spilled_batches_are_invisible_until_the_commit_which_has_all_of_them",
    ),
    Mutant(
        "adopted files are published before the manifest names them",
        "LiveFiles.prepare",
        "            self._commit(replace(manifest, store_files={**live, **named}))\n",
        "            manifest = replace(manifest, store_files={**live, **named})\n"
        "            self._live = replace(self._live, manifest=manifest)\n",
        LARGE_CRASH,
    ),
    Mutant(
        "the write numbers of adopted files are those in the files",
        "StoreFileInfo.numbers",
        "AdoptedNumbers(self.write_number_base, self.stamp)",
        "AdoptedNumbers(0, self.stamp)",
        TWINS,
    ),
    Mutant(
        "the stamp of adopted lines is ignored",
        "AdoptedNumbers.of_directory",
        "self.stamp or directory.timestamp",
        "directory.timestamp",
        TWINS,
    ),
    Mutant(
        "the base of lines with numbers of their own is ignored",
        "write_numbers_of",
        "by_line + base if base else by_line",
        "by_line",
        f"{LARGE}::test_lines_of_several_batches_in_one_file_get_the_numbers_of_the_commit",
    ),
    Mutant(
        "the stamp of adopted cells is ignored",
        "AdoptedNumbers.of_batch",
        "        if self.stamp:\n",
        "        if False:\n",
        TWINS,
    ),
    Mutant(
        "a region adopts files before it is flushed",
        "_Committing._enter_gates",
        "            if region_id in adopting:\n",
        "            if False:\n",
        f"{LARGE}::test_a_change_that_comes_while_a_large_commit_waits_for_its_gates_is_not_lost",
    ),
    Mutant(
        "a commit that failed leaves its files in the manifest",
        "LiveFiles.withdraw",
        "            self._live = replace(self._live, manifest=self.manifest.counted(()))\n",
        "            pass\n",
        f"{LARGE}::test_a_commit_that_fails_leaves_the_regions_as_they_were",
    ),
    Mutant(
        "a commit that failed leaves its files in the folders",
        "Adoption.withdraw",
        "files, self._paths)",
        "files, self._paths[:0])",
        f"{LARGE}::test_a_commit_that_fails_leaves_the_regions_as_they_were",
    ),
    Mutant(
        "bulk files are removed before their spill is durable",
        "Spilling._spill",
        "        finally:\n            shared.memory.add(-byte_count)\n",
        "        finally:\n            shared.memory.add(-byte_count)\n"
        "        numbers = [each.record.file_number for _, each in batches]\n"
        "        remove_bulk_files(shared.files, shared.bulk_folder, numbers)\n",
        SPILL_CRASH,
    ),
    Mutant(
        "the order of spilled batches is lost",
        "RunWriter._written",
        "segments_of(parts, number, 0)",
        "segments_of(parts, 1 + len(batches) - number, 0)",
        TWINS,
    ),
    Mutant(
        "an aborted write leaves its store files",
        "Staging._remove",
        "            for name in self._files.list_folder(folder):\n",
        '            for name in [each for each in self._files.list_folder(folder) if ".store" not in each]:\n',
        f"{LARGE}::test_an_aborted_write_leaves_nothing",
    ),
    Mutant(
        "a write number of an adopted file is used again",
        "RegionCommit._take_numbers",
        "            for _ in range(count):\n",
        "            for _ in range(0):\n",
        f"{LARGE}::test_a_change_before_the_commit_loses_and_one_after_it_wins",
    ),
    Mutant(
        "rows in spilled files do not conflict",
        "StagedRows.among",
        "range(len(rows) if self._spilled else 0)",
        "range(0)",
        f"{LARGE}::test_a_spilled_row_that_has_changed_since_the_snapshot_refuses_the_commit",
    ),
    Mutant(
        "a batch that is repeated while it is staged is staged twice",
        "BulkWrite.add",
        "            if known is not None:\n",
        "            if False:\n",
        f"{LARGE}::test_a_batch_that_is_repeated_while_it_waits_for_a_spill_is_staged_once",
    ),
    Mutant(
        "tombstones of a large replacement come after its files",
        "Adoption.hide",
        "        self._runs.insert(0, _LinkedRun",
        "        self._runs.append(_LinkedRun",
        f"{LARGE}::test_a_large_replacement_hides_everything_older",
    ),
    Mutant(
        "a commit passes over a damaged region",
        "ServedRegions.regions_of",
        "for region in self.entries_of(name, start, stop)]",
        "for region in self.entries_of(name, start, stop) if region.region_id not in self._damaged]",
        f"{DAMAGED}::test_a_damaged_region_refuses_every_commit_of_its_table_and_no_region_is_changed",
    ),
    Mutant(
        "ranges of identities are not bounded",
        "Commits._with_identity",
        "        if len(joined) > len(of_text) and",
        "        if False and",
        "unit/catalog/test_commits.py::test_a_commit_that_would_begin_one_range_too_many_is_refused",
    ),
]
