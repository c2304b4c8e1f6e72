"""Broken builds of bulk batches, and of the request ids that make a repeated change count once."""

from __future__ import annotations

from .broken_build import Mutant

COMMIT = "unit/commit/test_commit.py"
BULK = "unit/region/test_bulk_load.py"
DISK = "unit/host/test_disk_failures.py"
INTERLEAVINGS = "unit/region/test_interleavings.py"
REPLAY = "unit/region/test_region_replay.py"
REQUESTS = "unit/region/test_idempotency_table.py"
WRITES = "unit/region/test_write_path.py"

BULK_AND_REQUESTS = [
    # ---- bulk batches
    Mutant(
        "a bulk batch with forged offsets is accepted",
        "_record_batch",
        "    batch.validate(full=True)\n",
        "",
        "unit/rpc/test_bulk_batches.py::test_forged_offsets_between_good_ones_are_refused",
    ),
    Mutant(
        "a bulk batch of any size is read",
        "_record_batch",
        "    if buffer_bytes > uncompressed_bytes + _PADDING_BYTES_MAX * batch.num_columns:\n",
        "    if False:\n",
        "unit/rpc/test_bulk_batches.py::test_a_batch_larger_than_it_declares_is_refused",
    ),
    Mutant(
        "a bulk batch is not collapsed",
        "_survivors",
        "        survives &= is_tombstone | (covered_through < positions)\n",
        "",
        f"{BULK}::test_a_null_value_deletes_what_came_before_it_in_the_batch_and_in_the_table",
    ),
    Mutant(
        "of equal cells of a bulk batch the first one wins",
        "_survivors",
        "    survives[:-1] = ~repeats[1:]\n",
        "    survives = ~repeats\n",
        f"{BULK}::test_the_later_of_two_cells_with_one_key_and_timestamp_wins",
    ),
    Mutant(
        "a bulk batch passes the gate while other threads hold it",
        "BulkLoad._apply_in_gate",
        "            with self._batch_gate.exclusive(",
        "            with __import__('contextlib').nullcontext(",
        f"{INTERLEAVINGS}::test_a_bulk_batch_waits_for_the_row_that_is_between_compare_and_apply",
    ),
    Mutant(
        "a bulk batch that was checked before an alter is not checked again",
        "BulkLoad._apply_in_gate",
        "                if self._stores.served.table is not table:\n",
        "                if False:\n",
        f"{BULK}::test_a_batch_that_meets_an_alter_is_checked_against_the_new_families",
    ),
    Mutant(
        "a bulk batch keeps the order of an earlier stamp",
        "BulkLoad._apply_in_gate",
        "        if not arranged.is_in_order_at(stamp):\n",
        "        if False:\n",
        f"{BULK}::test_a_batch_is_in_order_for_a_stamp_that_it_gets_much_later",
    ),
    Mutant(
        "a bulk batch begins again for timestamps of other columns",
        "_timestamps_ahead",
        "ordering[~is_missing & is_mixed[number_of_column] & (",
        "ordering[~is_missing & (",
        f"{BULK}::test_cells_ahead_of_the_stamp_in_columns_where_all_have_timestamps_keep_no_batch_waiting",
    ),
    Mutant(
        "a bulk batch keeps its permit while it is synced",
        "Permit.released",
        "        self._release()\n        try:\n            yield\n",
        "        try:\n            yield\n",
        "unit/region/test_background_pacing.py::test_the_permit_is_free_during_a_wait_for_a_disk_which_is_no_pause_if_other_work_took_it",
    ),
    Mutant(
        "a synced bulk batch waits for a permit beyond its deadline",
        "Permit.released",
        "        self._begin(self._deadline)  # Not",
        "        self._begin()  # Not",
        "unit/region/test_background_pacing.py::test_waiting_for_a_permit_after_a_disk_ends_at_the_deadline",
    ),
    Mutant(
        "a failed append of a bulk batch leaves its number open",
        "Commit.commit_applied",
        "                self._mvcc.complete(write_number)\n",
        "",
        f"{COMMIT}::test_cells_are_taken_back_before_their_refused_number_completes[4]",
    ),
    Mutant(
        "a bulk batch that the log refuses stays in memory",
        "Commit.commit_applied",
        "                take_back()\n                self._mvcc",
        "                self._mvcc",
        f"{COMMIT}::test_cells_are_taken_back_before_their_refused_number_completes[4]",
    ),
    Mutant(
        "a bulk batch that gets no number stays in memory",
        "Commit.commit_applied",
        "                take_back()\n                raise\n            try",
        "                raise\n            try",
        f"{COMMIT}::test_cells_that_got_no_number_are_taken_back",
    ),
    Mutant(
        "a bulk batch that is applied in part stays in memory",
        "Applier._apply_rows_early",
        "                    yield_now()\n        except BaseException:\n            take_back()\n",
        "                    yield_now()\n        except BaseException:\n",
        "unit/region/test_failures.py"
        "::test_a_bulk_batch_that_can_not_be_applied_is_not_logged_and_changes_nothing[small]",
    ),
    Mutant(
        "a bulk batch is numbered before it holds the gate exclusively",
        "Commit.commit_applied",
        "        next_number = self._mvcc.last + 1\n",
        "        next_number = self._mvcc.last\n",
        f"{COMMIT}::test_a_write_of_many_cells_is_applied_before_it_is_appended",
    ),
    Mutant(
        "a bulk file is not synced before the log names it",
        "new_file",
        "                files.fsync(descriptor)\n",
        "                pass\n",
        f"{BULK}::test_a_bulk_file_is_durable_before_a_later_sync_makes_its_record_so",
    ),
    Mutant(
        "a bulk batch that is not logged gets a file",
        "BulkLoad._put",
        "        is_logged = durability is not Durability.SKIP\n",
        "        is_logged = True\n",
        f"{BULK}::test_a_batch_that_is_not_logged_touches_no_file",
    ),
    Mutant(
        "no folder fsync after a bulk file is made",
        "new_file",
        "            files.fsync_folder(path.parent)\n",
        "            pass\n",
        f"{BULK}::test_a_bulk_file_is_durable_before_a_later_sync_makes_its_record_so",
    ),
    Mutant(
        "a failed sync of a bulk file does not end the server",
        "BulkLoad._write_file",
        "            self._on_fatal(error)\n",
        "            pass\n",
        f"{DISK}::test_a_failed_sync_of_a_bulk_file_ends_the_server",
    ),
    Mutant(
        "a bulk batch is answered before the sync",
        "BulkLoad._put",
        "        self._mvcc.when_published(applied.write_number, partial(_notify, done, outcome))\n",
        "        _notify(done, outcome, None)\n",
        f"{BULK}::test_a_batch_and_its_repetition_are_answered_when_they_are_published",
    ),
    Mutant(
        "a repeated bulk batch is answered without waiting",
        "BulkLoad._applied_before",
        "        return _Applied(saved.write_number, saved.outcome.timestamp, is_repeated=True)\n",
        "        return _Applied(0, saved.outcome.timestamp, is_repeated=True)\n",
        f"{BULK}::test_a_batch_and_its_repetition_are_answered_when_they_are_published",
    ),
    Mutant(
        "request ids of bulk batches are not saved",
        "BulkLoad._apply",
        "        if request is not None:\n            self._idempotency.save(",
        "        if False:\n            self._idempotency.save(",
        f"{BULK}::test_a_repeated_bulk_request_is_applied_once",
    ),
    Mutant(
        "request ids of bulk batches are not replayed",
        "Replay._apply_bulk",
        "        if record.request is not None:\n",
        "        if False:\n",
        f"{REPLAY}::test_a_bulk_request_is_known_after_a_crash",
    ),
    # ---- request ids
    Mutant(
        "an answer replaces one that its client still waits for",
        "IdempotencyTable._replaces_only_answer",
        "            and answers[0][0] < floor <= answer[0]\n",
        "            and answers[0][0] < answer[0]\n",
        "unit/region/test_idempotency_table.py::test_answers_that_a_client_waits_for_are_saved_in_any_order_of_sequences_and_floors",
    ),
    Mutant(
        "request ids are not saved",
        "IdempotencyTable._save",
        "                self._add(client, answer)\n",
        "                pass\n",
        f"{WRITES}::test_a_repeated_request_is_applied_once_and_answered_the_same",
    ),
    Mutant(
        "a condition's 'no' is not saved for its request",
        "is_definite_without_change",
        "        return not outcome.timestamp\n",
        "        return False\n",
        "unit/region/test_conditions.py::test_an_unmet_condition_stays_unmet_for_copies_of_the_request",
    ),
    Mutant(
        "request ids are not in the log",
        "encode_row",
        "    if request is not None:\n        flags |= HAS_REQUEST\n",
        "    if False and request is not None:\n        flags |= HAS_REQUEST\n",
        f"{WRITES}::test_a_repeated_request_is_known_after_a_restart[crashed]",
    ),
    Mutant(
        "request ids are not in the manifest",
        "with_answers",
        "        return replace(manifest, answers=tuple(itertools.chain.from_iterable(answers)))\n",
        "        return manifest\n",
        f"{WRITES}::test_a_repeated_request_is_known_after_a_restart[flushed]",
    ),
    Mutant(
        "a manifest has answers of writes that are not flushed",
        "IdempotencyTable.saved",
        "after < answer[2] <= through and",
        "after < answer[2] and",
        f"{REQUESTS}::test_a_manifest_gets_only_answers_of_flushed_writes_and_restores_them",
    ),
    Mutant(
        "a manifest forgets floors",
        "IdempotencyTable.saved",
        "saved_answer(name, floor, answer)",
        "saved_answer(name, 0, answer)",
        f"{REQUESTS}::test_a_manifest_gets_only_answers_of_flushed_writes_and_restores_them",
    ),
    Mutant(
        "an answer that was cut is returned without its cells",
        "repeated",
        "    if not saved.is_cut and byte_count <= budget:\n",
        "    if byte_count <= budget:\n",
        "unit/region/test_answer_size.py::test_a_repeated_request_whose_cells_were_dropped_reports_that_it_was_applied",
    ),
    Mutant(
        "an id below the floor is applied",
        "IdempotencyTable.find",
        "                if sequence < client.floor:\n",
        "                if False:\n",
        f"{WRITES}::test_a_request_below_the_floor_is_answered_with_unknown_outcome",
    ),
    Mutant(
        "the floor never rises",
        "IdempotencyTable._forget_answers",
        "        if floor > client.floor:\n",
        "        if False:\n",
        f"{WRITES}::test_a_request_below_the_floor_is_answered_with_unknown_outcome",
    ),
    Mutant(
        "answers are never forgotten",
        "IdempotencyTable._raise_floor",
        "            self._drop(client, bisect_left(answers, (floor,)))\n",
        "            pass\n",
        f"{REQUESTS}::test_saved_answers_are_bounded_by_the_requests_in_flight",
    ),
    Mutant(
        "a bulk batch that can't be parsed is counted forever",
        "BulkStreams._apply",
        "        except Exception as error:\n            answer(error)\n            return error.without",
        "        except InvalidRequestError as error:\n            answer(error)\n            return error.without",
        "unit/rpc/test_bulk.py::test_a_batch_that_can_not_be_parsed_releases_its_bytes",
    ),
]
