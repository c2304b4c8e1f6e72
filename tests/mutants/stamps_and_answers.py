"""Broken builds of stamps, timestamp ranges and saved answers."""

from __future__ import annotations

from .broken_build import CLIENT, Mutant

MEMORY = "unit/region/test_memory.py"
NUMBERING = "unit/commit/test_numbering.py"
OLD = "unit/host/test_old_reservations.py"
REPEATED = "unit/region/test_repeated_requests.py"
REQUESTS = "unit/region/test_idempotency_table.py"
SAVED = "unit/region/test_manifest_answers.py"
STAMPS = "unit/region/test_stamps.py"
TIMESTAMPS = "unit/host/test_timestamps.py"

STAMPS_AND_ANSWERS = [
    # ---- stamps
    Mutant(
        "stamps repeat while they are ahead of the clock",
        "Stamps.next",
        "                self._last = max(now_ms, self._last + 1)\n",
        "                self._last = max(now_ms, self._last)\n",
        f"{STAMPS}::test_calls_in_different_milliseconds_get_different_stamps_also_ahead_of_the_clock",
    ),
    Mutant(
        "stamps stay ahead of the clock under calls in every millisecond",
        "Stamps.next",
        "                if now_ms % LEFT_OUT_EVERY_MS == 0 or ",
        "                if ",
        f"{STAMPS}::test_stamps_come_back_under_calls_in_every_millisecond",
    ),
    Mutant(
        "stamps run a whole block ahead",
        "Stamps.next",
        " or self._last + 1 - now_ms == self._block_ms:",
        ":",
        f"{STAMPS}::test_stamps_pass_over_a_range_and_wait_at_the_end_of_a_block",
    ),
    Mutant(
        "a reservation reaches a block beyond the newest stamp",
        "Stamps.bound",
        "        if newest < bound:\n            return bound\n",
        "        if newest < bound:\n            return max(bound, newest + self._block_ms)\n",
        f"{STAMPS}::test_restarts_do_not_add_up",
    ),
    Mutant(
        "a start reserves a block",
        "Numbering.__init__",
        "            log.reserve(region_id, self._numbers_until, self._stamps_until)\n",
        "            self._reserve()\n",
        f"{STAMPS}::test_starts_without_a_write_reserve_nothing",
    ),
    Mutant(
        "a stop keeps unused stamps",
        "Numbering.release_unused",
        "                stamps_until = self._stamps.newest + 1\n",
        "                stamps_until = self._stamps_until\n",
        f"{STAMPS}::test_after_an_orderly_stop_stamps_go_on_from_the_last_one",
    ),
    Mutant(
        "a call waits for its stamp with its locks held",
        "WritePath._lock_and_stamp",
        "            self._unlock(rows, is_exclusive=is_exclusive)\n"
        "            if not may_wait:\n"
        "                return None\n",
        "            if not may_wait:\n"
        "                return None\n"
        "            self._unlock(rows, is_exclusive=is_exclusive)\n",
        f"{STAMPS}::test_a_call_that_may_not_wait_does_nothing_in_a_millisecond_that_gives_no_stamp",
    ),
    Mutant(
        "a timestamp that was read moves the clock at the next start",
        "stamps_of",
        "        max(stamps_until, manifest.stamps_until),\n        is_own",
        "        max([stamps_until, *(each.result.timestamp + 1 for each in manifest.answers)]),\n        is_own",
        f"{TIMESTAMPS}::test_timestamps_that_clients_send_or_changes_read_move_no_stamps",
    ),
    # ---- timestamp ranges
    Mutant(
        "the stamps of one table affect the range of all tables",
        "Timestamps.of_all",
        "        if not reserve_ms:\n            return TimestampRange(self._clock.now_ms(), 0)\n",
        "",
        f"{TIMESTAMPS}::test_a_range_of_one_table_affects_no_other",
    ),
    Mutant(
        "a timestamp of a range may be refused",
        "Numbering.timestamp_max",
        "        return max(self._clock.now_ms() + self._timestamp_ahead_ms_max, self._stamps.newest)\n",
        "        return self._clock.now_ms() + self._timestamp_ahead_ms_max\n",
        f"{TIMESTAMPS}::test_a_range_is_accepted_also_after_a_clock_was_two_days_ahead",
    ),
    Mutant(
        "a restart forgets reserved ranges",
        "Numbering.pass_over",
        "        if is_reserved:\n",
        "        if False:\n",
        f"{TIMESTAMPS}::test_stamps_are_later_than_a_reserved_range_also_after_a_crash",
    ),
    # ---- reservations of earlier versions
    Mutant(
        "a reservation of an earlier version is believed",
        "stamps_after_restart",
        "    if is_own or reserved_until <= ahead_max:\n",
        "    if True:\n",
        f"{OLD}::test_a_table_that_was_not_written_is_back_at_the_clock_for_good",
    ),
    Mutant(
        "a returned reservation counts again",
        "LogReplay._reserve",
        "        self._reserved[region_id] = (max(numbers_until, numbers_before), stamps_until)\n",
        "        before = self._reserved.get(region_id, (0, 0))[1]\n"
        "        self._reserved[region_id] = (max(numbers_until, numbers_before), max(stamps_until, before))\n",
        f"{OLD}::test_a_table_that_was_not_written_is_back_at_the_clock_for_good",
    ),
    Mutant(
        "new cells of a row are older than its old ones",
        "ReadingChanges.change",
        "            stamp = self._numbering.stamp_later_than(mutation.row, cells_of_row, stamp)\n",
        "",
        f"{OLD}::test_the_new_cells_of_a_row_do_not_lie_behind_its_old_ones",
    ),
    Mutant(
        "a hot row runs away from the clock",
        "Numbering.stamp_later_than",
        "            later = timestamp if self._given.get(row) == (stamp, timestamp) else timestamp + 1\n",
        "            later = timestamp + 1\n",
        f"{OLD}::test_changes_of_one_millisecond_share_a_timestamp_and_a_hot_row_does_not_run_away",
    ),
    Mutant(
        "a bulk batch is older than old cells",
        "BulkLoad._apply_in_gate",
        "                    self._numbering.pass_over_cells()  # Their rows are not read.\n",
        "                    pass\n",
        f"{OLD}::test_a_write_that_reads_no_rows_is_later_than_all_old_cells_and_so_are_all_later_writes",
    ),
    Mutant(
        "another call's stamp decides whether a call reads its rows",
        "Numbering.reads_rows",
        "        return stamp <= self._stamps.cells_until\n",
        "        return self._stamps._last < self._stamps.cells_until\n",
        f"{NUMBERING}::test_a_call_whose_stamp_lies_behind_old_cells_reads_its_rows_whatever_others_do_meanwhile",
    ),
    Mutant(
        "a stamp equal to the old cells' counts as later",
        "Numbering.reads_rows",
        "        return stamp <= self._stamps.cells_until\n",
        "        return stamp < self._stamps.cells_until\n",
        f"{OLD}::test_a_stamp_that_reaches_the_newest_old_cell_is_not_given_to_its_row_again",
    ),
    Mutant(
        "changes of two milliseconds share a timestamp",
        "Numbering.stamp_later_than",
        "self._given.get(row) == (stamp, timestamp) else",
        "self._given.get(row, (0, 0))[1] == timestamp else",
        f"{NUMBERING}::test_a_slow_call_shares_its_timestamp_with_no_other_call",
    ),
    Mutant(
        "a start ignores ranges beyond the cells",
        "stamps_after_restart",
        "        stamped_until = reserved_until - 1  # A client may",
        "        pass  # A client may",
        f"{OLD}::test_a_job_that_writes_on_after_a_restart_hides_no_later_put",
    ),
    # ---- repeated requests
    Mutant(
        "a number is matched without its row",
        "IdempotencyTable.find",
        "        if not is_its_row or (",
        "        if (",
        f"{REPEATED}::test_a_request_id_with_another_row_or_kind_is_refused",
    ),
    Mutant(
        "a number is matched without its kind",
        "IdempotencyTable.find",
        "(is_bulk != bool(flags & IS_BULK) and not flags & MAY_BE_BULK)",
        "False",
        f"{REPEATED}::test_a_request_id_with_another_row_or_kind_is_refused",
    ),
    Mutant(
        "a refusal is not saved",
        "is_definite_without_change",
        "    return not outcome.can_retry and not isinstance(outcome, UnknownOutcomeError)\n",
        "    return False\n",
        f"{REPEATED}::test_a_change_that_was_refused_is_not_applied_by_a_late_copy",
    ),
    Mutant(
        "a refusal by CHECK is not saved",
        "WritePath._check",
        "                if mutation.request is None or error.can_retry:\n",
        "                if True:\n",
        f"{REPEATED}::test_an_applied_change_gets_its_first_answer_even_if_it_would_be_refused_now",
    ),
    Mutant(
        "a refusal that a retry may overcome is saved",
        "is_definite_without_change",
        "    return not outcome.can_retry and not",
        "    return not",
        f"{REPEATED}::test_a_retryable_refusal_is_not_saved",
    ),
    Mutant(
        "a refusal of a bulk batch is not saved",
        "BulkLoad._saved_refusal",
        "                self._idempotency.save(request, None, 0, refusal, is_bulk=True)\n",
        "",
        f"{REPEATED}::test_a_bulk_batch_that_was_refused_is_not_applied_by_a_late_copy",
    ),
    Mutant(
        "an overflow of an unpublished counter is reported as final",
        "WritePath._notify",
        "failure if number > published else outcome",
        "failure if isinstance(outcome, RowResult) else outcome",
        f"{REPEATED}::test_an_outcome_that_depends_on_an_unpublished_write_is_unknown",
    ),
    # ---- remembered answers
    Mutant(
        "answers age by the wall clock",
        "IdempotencyTable._forget_silent",
        "        horizon = self._clock.monotonic() - self._forgotten_after_s\n",
        "        horizon = self._clock.now_ms() / 1000 - 1_700_000_000 + 1000 - self._forgotten_after_s\n",
        f"{REPEATED}::test_an_increment_counts_once_whatever_the_wall_clock_does",
    ),
    Mutant(
        "a change is made again when its answer has been forgotten",
        "IdempotencyTable.find",
        "                if request.age_ms and self._may_be_forgotten(request.age_ms):\n",
        "                if False:\n",
        f"{REPEATED}::test_a_change_whose_answer_may_have_been_forgotten_is_not_applied_again",
    ),
    Mutant(
        "a restart forgets that answers were forgotten",
        "IdempotencyTable.restore",
        "        if forgotten_ms_ago is not None:\n",
        "        if False:\n",
        f"{REPEATED}::test_a_change_whose_answer_may_have_been_forgotten_is_not_applied_again",
    ),
    Mutant(
        "answers of many clients have no bound",
        "IdempotencyMemory.free_excess",
        "        if self._bytes_held <= self.bytes_max or",
        "        if True or",
        f"{REQUESTS}::test_one_shot_clients_take_no_more_than_the_bound_and_the_newest_are_known",
    ),
    Mutant(
        "a truncated table forgets its requests",
        "RegionChanges.created",
        "inherited_answers(replaced[region.region_id]) if region.region_id in replaced else None",
        "None",
        f"{REPEATED}::test_a_truncated_table_remembers_earlier_requests",
    ),
    Mutant(
        "a damaged table that was truncated has forgotten nothing",
        "LostAnswers.forgotten_ms_ago",
        "        return 0\n",
        "        return None\n",
        "unit/host/test_damaged_regions.py::"
        "test_a_change_that_may_precede_the_truncate_of_a_damaged_table_is_not_repeated",
    ),
    Mutant(
        "a table that could not be truncated stays closed",
        "Gate.closing",
        "                self._is_closed = self._is_barred = False\n",
        "                pass\n",
        f"{REPEATED}::test_a_table_that_could_not_be_truncated_still_accepts_writes",
    ),
    Mutant(
        "each manifest lists all answers",
        "with_answers",
        "for each in live[place:]) <= listed_bytes_max:\n        return",
        "for each in live[place:]) <= 1 << 40:\n        return",
        f"{SAVED}::test_few_answers_are_listed_by_the_manifest_and_many_are_written_once",
    ),
    Mutant(
        "an answers file is not synced before a manifest names it",
        "new_file",
        "                files.fsync(descriptor)\n",
        "                pass\n",
        f"{SAVED}::test_a_file_is_durable_before_a_manifest_names_it_and_is_removed_when_none_does",
    ),
    Mutant(
        "an answers file is not verified before it is read",
        "read_checked",
        "    if checksum != written.checksum:\n",
        "    if False:\n",
        f"{SAVED}::test_a_damaged_answers_file_is_damage_of_its_region",
    ),
    Mutant(
        "replay holds answers below their client's floor",
        "Replay._defer_answer",
        "            grown -= client.raise_floor(floor)\n",
        "            client.floor = floor\n",
        f"{MEMORY}::test_replay_holds_no_more_of_a_client_than_it_still_waits_for",
    ),
    Mutant(
        "an attempt that the deadline cuts hides the failure before it",
        "Attempts.failed",
        "if self._last_error is None or not is_late:",
        "if True:",
        "unit/client/test_retry.py::test_a_connection_attempt_that_the_deadline_cuts_does_not_hide_the_failure_before_it",
        CLIENT,
    ),
    Mutant(
        "a block of write numbers counts as reserved although there was no memory for its record",
        "Numbering._reserve",
        "        self._log.reserve(self._region_id, numbers_until, stamps_until)\n"
        "        # Last: without memory for the record, nothing is reserved.\n"
        "        self._numbers_until, self._stamps_until = numbers_until, stamps_until\n",
        "        self._numbers_until, self._stamps_until = numbers_until, stamps_until\n"
        "        self._log.reserve(self._region_id, numbers_until, stamps_until)\n",
        f"{NUMBERING}::test_no_number_is_allocated_after_a_reservation_that_found_no_memory",
    ),
    Mutant(
        "the log takes a reservation for added although there was no memory for it",
        "Pending.reserve",
        "            self._add_note(region_id, RESERVATION, encode_reservation(*bounds))\n"
        "            self._chains.reserved[region_id] = bounds\n",
        "            self._chains.reserved[region_id] = bounds\n"
        "            self._add_note(region_id, RESERVATION, encode_reservation(*bounds))\n",
        "unit/wal/test_rolling_and_cleaning.py::test_a_note_that_finds_no_memory_is_added_when_it_is_made_again",
    ),
    Mutant(
        "a change that was answered is answered again when memory runs out",
        "CoalescedChanges._make_together",
        "            left = [i for i in range(count) if i not in answered]\n",
        "            left = range(count)\n",
        "unit/rpc/test_coalesced_changes.py::test_each_is_answered_once_when_memory_runs_out_between_their_answers",
    ),
    Mutant(
        "rows of a second region are sent after the deadline of their batch",
        "BatchSend.prepare",
        "        if now >= self.deadline:\n",
        "        if False:\n",
        "unit/client/test_batches.py::test_rows_of_a_second_region_are_not_sent_after_the_deadline",
        CLIENT,
    ),
]
