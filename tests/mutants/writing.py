"""Broken builds of the write path, in the order of its steps, and of request ids and bulk batches."""

from __future__ import annotations

from .broken_build import Mutant

BULK = "unit/region/test_bulk_load.py"
SIZES = "unit/region/test_answer_size.py"
INTERLEAVINGS = "unit/region/test_interleavings.py"
MVCC = "unit/commit/test_mvcc.py"
REPLAY = "unit/region/test_region_replay.py"
EACH = "unit/region/test_mutate_each.py"
COMMIT = "unit/commit/test_commit.py"
WRITES = "unit/region/test_write_path.py"
STAMPS = "unit/region/test_stamps.py"
LONE = "unit/region/test_lone_increment.py"

# Outcomes that come from reading alone, each with the kind of read.
WAITS = f"{WRITES}::test_an_answer_from_reading_alone_waits_until_what_it_read_is_published"

WRITING = [
    # ---- increments alone
    Mutant(
        "an increment goes on from what is no counter, or from a tombstone",
        "incremented",
        "if len(value) != COUNTER_BYTES:",
        "if False:",
        f"{LONE}::test_it_is_made_as_by_row_changer_whatever_the_sources",
    ),
    Mutant(
        "an increment goes on from an expired cell",
        "incremented",
        "family.past or family.time_to_live_ms or ",
        "family.past or ",
        f"{LONE}::test_it_is_made_as_by_row_changer_whatever_the_sources",
    ),
    Mutant(
        "an increment's cell is older than the one that it read",
        "incremented",
        "timestamp = max(stamp, -negative_timestamp)",
        "timestamp = stamp",
        f"{LONE}::test_it_is_made_as_by_row_changer_whatever_the_sources",
    ),
    Mutant(
        "an increment ignores a segment whose newest cell is as new as another's",
        "RowState.newest_column_cells",
        "if source.timestamp_max >= newest:",
        "if source.timestamp_max > newest:",
        f"{LONE}::test_it_reads_no_segment_whose_cells_are_all_older",
    ),
    Mutant(
        "an increment reads the files before the segments of groups",
        "Lookup.candidates",
        "*in_groups, *self._runs",
        "*self._runs, *in_groups",
        f"{LONE}::test_it_reads_no_older_file_after_a_group_of_segments",
    ),
    Mutant(
        "a key between two samples is not found",
        "KeyColumn.first_at_or_after",
        "(above - 1) * self._step + 1, stop)",
        "above * self._step, stop)",
        "unit/arrow/test_key_column.py::test_it_finds_each_key_and_each_gap_of_a_long_column",
    ),
    # ---- CHECK
    Mutant(
        "a bad row is not refused",
        "check_row",
        "    if not row:\n",
        "    if False:\n",
        f"{WRITES}::test_a_batch_with_bad_rows_returns_the_results_of_the_others",
    ),
    Mutant(
        "a cell far in the future is not refused",
        "_check_timestamp",
        "    if timestamp > timestamp_max:\n",
        "    if False:\n",
        f"{WRITES}::test_a_batch_with_bad_rows_returns_the_results_of_the_others",
    ),
    Mutant(
        "a bad row fails the whole batch",
        "WritePath._check",
        "            except RegionServerError as error:\n                if mutation.request is None",
        "            except RegionServerError as error:\n"
        "                raise\n"
        "                if mutation.request is None",
        f"{WRITES}::test_a_batch_with_bad_rows_returns_the_results_of_the_others",
    ),
    Mutant(
        "CHECK ignores full memory",
        "MemoryGauge.check",
        "        if not self._account.has_room(byte_count):\n",
        "        if False:\n",
        f"{WRITES}::test_full_memory_refuses_writes_with_a_retry_delay_and_allows_reads",
    ),
    Mutant(
        "one call may use less durability than its table",
        "Table.durability_of",
        "        if requested < own:\n",
        "        if False:\n",
        f"{WRITES}::test_less_durability_than_the_table_promises_is_refused",
    ),
    Mutant(
        "one call can not use more durability than its table",
        "Table.durability_of",
        "        return requested\n",
        "        return own\n",
        f"{BULK}::test_a_bulk_file_is_durable_before_a_later_sync_makes_its_record_so",
    ),
    # ---- LOCK, beside locks.py
    Mutant(
        "rows are locked in the order of the request",
        "distinct_ascending",
        "else sorted(set(rows))",
        "else list(dict.fromkeys(rows))",
        f"{WRITES}::test_the_rows_of_a_batch_are_locked_in_ascending_order",
    ),
    Mutant(
        "a write that was checked before an alter is not checked again",
        "WritePath._make",
        "                    if self._stores.served.table is not table:\n                        continue\n",
        "",
        f"{INTERLEAVINGS}::test_a_write_that_meets_an_alter_is_checked_against_the_new_families",
    ),
    Mutant(
        "log space is not checked for an append's new value",
        "RowCommit._check_again",
        "        self._log.check_space(record_bytes)\n",
        "",
        f"{SIZES}::test_memory_and_log_are_checked_again_for_the_size_of_an_append[log]",
    ),
    Mutant(
        "each row of an answer may fill the message",
        "WritePath._make",
        "                if is_one_answer:\n",
        "                if False:\n",
        f"{SIZES}::test_the_rows_of_a_request_that_do_not_fit_in_its_answer_are_refused",
    ),
    # ---- COMPARE
    Mutant(
        "unlock before compare",
        "WritePath._make",
        "                    for i in batch:\n                        pending[i] = ",
        "                    self._row_locks.release(rows)\n                    rows = []\n"
        "                    for i in batch:\n                        pending[i] = ",
        f"{INTERLEAVINGS}::test_a_writer_compares_after_the_one_before_it_has_applied",
    ),
    Mutant(
        "compare reads no newer writes",
        "NewestRow.__init__",
        "        self._now = ReadPoint(NEWEST, now_ms)\n",
        "        self._now = ReadPoint(0, now_ms)\n",
        f"{WRITES}::test_create_and_update_are_different_operations",
    ),
    Mutant(
        "an absent cell satisfies not-equal",
        "_holds",
        "    return cell is not None and COMPARISONS",
        "    if cell is None:\n        return check.op is CompareOp.NOT_EQUAL\n    return COMPARISONS",
        f"{WRITES}::test_an_absent_cell_fails_every_comparison",
    ),
    Mutant(
        "a comparison swaps its operands",
        "_holds",
        "(cell[4], check.operand)",
        "(check.operand, cell[4])",
        f"{WRITES}::test_every_comparison_reads_stored_op_given",
    ),
    Mutant(
        "an empty value counts as absent",
        "_holds",
        "            return cell is None\n",
        "            return cell is None or not cell[4]\n",
        f"{WRITES}::test_absence_and_an_empty_value_are_different",
    ),
    Mutant(
        "counters wrap",
        "RowChanger._increment",
        "        after = before + amount\n",
        "        after = (before + amount - COUNTER_MIN) % (1 << 64) + COUNTER_MIN\n",
        f"{WRITES}::test_counter_overflow_is_an_error_and_leaves_the_counter_unchanged",
    ),
    Mutant(
        "a missing counter is not zero",
        "RowChanger._increment",
        "        before = 0\n",
        "        before = 1\n",
        f"{WRITES}::test_increment_counts_from_zero_and_answers_the_new_value",
    ),
    # ---- STAMP
    Mutant(
        "a stamp is set back with the clock",
        "Stamps.next",
        "            if now_ms > self.newest:\n",
        "            if True:\n",
        f"{WRITES}::test_stamps_never_go_back_when_the_clock_does",
    ),
    Mutant(
        "stamps decrease at a restart",
        "stamps_after_restart",
        "        return Stamps(clock, block_ms, max(0, reserved_until - 1))\n",
        "        return Stamps(clock, block_ms)\n",
        f"{STAMPS}::test_restarts_do_not_add_up",
    ),
    Mutant(
        "a read-modify-write is stamped by the clock alone",
        "RowChanger._put_newer",
        "        timestamp = self._stamp if newest is None else max(self._stamp, -newest[1])\n",
        "        timestamp = self._stamp\n",
        f"{WRITES}::test_a_read_modify_write_over_a_future_cell_is_stamped_no_earlier",
    ),
    Mutant(
        "a conditional put is stamped by the clock alone",
        "ReadingChanges._compare_and_change",
        "        stamp = max(stamp, read_timestamp_max)\n",
        "",
        f"{WRITES}::test_a_conditional_put_over_a_future_cell_is_seen",
    ),
    Mutant(
        "a timestamp that was read moves the region's stamps",
        "ReadingChanges._compare_and_change",
        "        stamp = max(stamp, read_timestamp_max)\n        changer",
        "        stamp = max(stamp, read_timestamp_max)\n"
        "        self._numbering._stamps.pass_over(stamp)\n"
        "        changer",
        f"{WRITES}::test_a_conditional_put_over_a_future_cell_is_seen",
    ),
    Mutant(
        "a mutation is not collapsed",
        "FamilyChange.delete_column",
        "            puts.drop_through(through)\n",
        "            pass\n",
        f"{WRITES}::test_of_changes_in_one_mutation_the_later_sees_and_beats_the_earlier",
    ),
    # ---- BEGIN, APPEND, APPLY
    Mutant(
        "a write number is taken outside of the order lock",
        "Commit.commit",
        "        with self._log.order:\n            write_number = self._numbers.begin()\n",
        "        write_number = self._numbers.begin()\n        with self._log.order:\n",
        f"{COMMIT}::test_a_write_that_began_later_is_appended_later",
    ),
    Mutant(
        "a write is applied outside of the order lock",
        "Commit.commit",
        "            apply(write_number)\n",
        "        apply(write_number)\n",
        f"{COMMIT}::test_a_write_is_appended_then_applied_and_published_by_the_log",
    ),
    Mutant(
        "a write with a number is cancelled at its deadline",
        "WritePath._mutate",
        "        self.notify_when_published(done, [pending[i] for i in range",
        "        if self._clock.monotonic() > options.deadline:\n"
        "            raise RegionServerError('too late')\n"
        "        self.notify_when_published(done, [pending[i] for i in range",
        f"{INTERLEAVINGS}::test_a_write_that_has_its_number_is_not_cancelled_at_its_deadline",
    ),
    Mutant(
        "a failed append leaves its number open",
        "Commit.commit",
        "                self._mvcc.complete(write_number)\n",
        "",
        f"{COMMIT}::test_a_refused_record_leaves_an_empty_number[4]",
    ),
    Mutant(
        "a failed append is applied",
        "Commit.commit",
        "                raise\n",
        "                pass\n",
        f"{COMMIT}::test_a_refused_record_leaves_an_empty_number[4]",
    ),
    Mutant(
        "a request of many rows holds the gate to its end",
        "next_gate_batch",
        "    batch = remaining[:ROWS_PER_GATE_HOLD]\n",
        "    batch = remaining\n",
        "unit/region/test_long_requests.py::test_an_exclusive_gate_waits_for_one_batch_of_a_request_and_not_for_all",
    ),
    Mutant(
        "a row of very many puts is applied under the order lock",
        "WritePath._change_row",
        "self._commit.commit_exclusive if is_exclusive else self._commit.commit",
        "self._commit.commit",
        "unit/region/test_long_requests.py"
        "::test_a_row_of_very_many_puts_is_applied_without_the_order_lock_and_by_its_place_in_the_request",
    ),
    Mutant(
        "a writer completes its own number",
        "Commit._append",
        "        complete = partial(self._mvcc.complete, write_number)\n",
        "        complete = lambda: None\n        self._mvcc.complete(write_number)\n",
        f"{COMMIT}::test_a_write_is_appended_then_applied_and_published_by_the_log",
    ),
    Mutant(
        "write numbers are reserved only once",
        "Numbering.begin",
        "self._mvcc.last >= self._numbers_until or ",
        "",
        f"{REPLAY}::test_a_write_number_is_not_handed_out_twice_even_if_the_log_lost_its_record",
    ),
    Mutant(
        "stamps are reserved only once",
        "Numbering.begin",
        " or self._stamps.newest >= self._stamps_until",
        "",
        f"{REPLAY}::test_a_stamp_is_not_handed_out_twice_even_if_the_log_lost_its_record",
    ),
    # ---- SYNC, PUBLISH
    Mutant(
        "the answer is sent before the sync",
        "WritePath.notify_when_published",
        "        self._mvcc.when_published(newest, partial(self._notify, done, pending))\n",
        "        self._notify(done, pending, None)\n",
        f"{WRITES}::test_an_unsynced_write_is_neither_answered_nor_read",
    ),
    Mutant(
        "fsync is acknowledged after the write",
        "Commit._append",
        "payload, durability, complete)",
        "payload, Durability.OS, complete)",
        f"{COMMIT}::test_a_write_is_appended_then_applied_and_published_by_the_log",
    ),
    Mutant(
        "the read point passes a hole",
        "Mvcc.complete",
        "            published = write_number == self._read_point + 1\n",
        "            published = True\n",
        f"{MVCC}::test_read_point_does_not_pass_an_incomplete_write",
    ),
    Mutant(
        "'no' is answered without waiting",
        "ReadingChanges._compare_and_change",
        "        if not changes:\n            return RowResult(is_met, seen), state.newest_write_number, ",
        "        if not changes:\n            return RowResult(is_met, seen), 0, ",
        f"{WAITS}[comparison]",
    ),
    Mutant(
        "a delete of nothing is answered without waiting",
        "ReadingChanges._compare_and_change",
        "that do not exist.\n            return RowResult(is_met, seen), state.newest_write_number, ",
        "that do not exist.\n            return RowResult(is_met, seen), 0, ",
        f"{WAITS}[no_version]",
    ),
    Mutant(
        "an error is answered without waiting",
        "ReadingChanges.change",
        "            return error.without_frames(), state.newest_write_number, 0\n",
        "            return error, 0, 0\n",
        f"{WAITS}[overflow]",
    ),
    Mutant(
        "a repeated request is answered without waiting",
        "WritePath._change_row",
        "                return repeated(request, saved, budget)\n",
        "                return repeated(request, saved._replace(write_number=0), budget)\n",
        f"{WAITS}[repeated]",
    ),
    Mutant(
        "a failed sync is tried again",
        "Writer._sync",
        "            self._files.fdatasync(self._descriptor)\n            self.sync_count += 1\n",
        "            try:\n                self._files.fdatasync(self._descriptor)\n            except OSError:\n"
        "                pass\n            self.sync_count += 1\n",
        f"{WRITES}::test_after_a_failed_sync_nothing_is_acknowledged_and_the_server_ends",
    ),
    Mutant(
        "after a failed sync writes are acknowledged",
        "WritePath._notify",
        "        if failure is None:\n",
        "        if True:\n",
        f"{WRITES}::test_after_a_failed_sync_nothing_is_acknowledged_and_the_server_ends",
    ),
    Mutant(
        "coalesced puts are answered before they are published",
        "WritePath.mutate_each",
        "            self.notify_when_published(partial(done, later), [pending[i] for i in later])\n",
        "            done(later, [pending[i][0] for i in later])\n",
        f"{EACH}::test_a_repeat_of_what_is_not_published_waits_for_it",
    ),
]
