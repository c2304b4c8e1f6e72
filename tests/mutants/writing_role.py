"""Broken builds of the log's writing role: who writes a record, and who wakes whom."""

from __future__ import annotations

from .broken_build import Mutant

ROLE = "unit/wal/test_writing_role.py"

WRITING_ROLE = [
    Mutant(
        "a caller releases the log without looking for records of others",
        "Pending.release",
        "                self._has_work()\n                or self._is_closing\n",
        "                self._is_closing\n",
        f"{ROLE}::test_a_record_of_another_thread_that_the_caller_leaves_wakes_the_writer_at_the_release",
    ),
    Mutant(
        "a caller releases a log that was closed without waking the writer",
        "Pending.release",
        "                or self._is_closing\n",
        "",
        f"{ROLE}::test_a_log_that_ends_during_a_claim_ends_its_writer_when_the_role_is_released",
    ),
    Mutant(
        "a caller releases a log that has failed without waking the writer",
        "Pending.release",
        "                or self._failure is not None\n",
        "",
        f"{ROLE}::test_a_log_that_ends_during_a_claim_ends_its_writer_when_the_role_is_released",
    ),
    Mutant(
        "no marker follows what callers wrote",
        "Pending.release",
        "                or (not self._waits_for_marker and self.end() != self._marker_end)\n",
        "",
        f"{ROLE}::test_a_caller_wakes_the_writer_once_when_no_time_for_the_next_marker_is_set",
    ),
    Mutant(
        "the log is claimed while records are pending",
        "Pending.claim",
        " or self._has_work():",
        ":",
        f"{ROLE}::test_the_role_is_not_claimed_while_records_are_pending",
    ),
    Mutant(
        "the log is claimed by two",
        "Pending.claim",
        "self._holder is not _NO_THREAD",
        "False",
        f"{ROLE}::test_the_role_has_one_holder",
    ),
    Mutant(
        "the writer goes on while a caller writes",
        "Pending.wait",
        "            while self._holder is _CALLER or (self._failure is None and not self._has_work()):\n",
        "            while self._failure is None and not self._has_work():\n",
        f"{ROLE}::test_after_a_failure_during_a_claim_the_writer_ends_only_when_the_role_is_released",
    ),
    Mutant(
        "a caller syncs",
        "Pending.take_claimed",
        "                or batch.synced_from is not None\n",
        "",
        f"{ROLE}::test_a_record_that_waits_for_a_sync_is_left_to_the_writer",
    ),
    Mutant(
        "a caller begins a segment",
        "Pending.take_claimed",
        "                len(self._batches) > 1\n                or ",
        "                ",
        f"{ROLE}::test_a_caller_leaves_a_long_batch_and_the_end_of_a_segment_to_the_writer",
    ),
    Mutant(
        "a caller writes beyond the space of the segment",
        "Pending.take_claimed",
        "                or self._offset > offset_max\n",
        "",
        f"{ROLE}::test_a_caller_leaves_a_long_batch_and_the_end_of_a_segment_to_the_writer",
    ),
    Mutant(
        "a caller writes to a log that has failed",
        "Pending.take_claimed",
        "                or self._failure is not None\n",
        "",
        f"{ROLE}::test_after_a_failure_during_a_claim_the_writer_ends_only_when_the_role_is_released",
    ),
    Mutant(
        "a failed write of a caller is not reported",
        "Writer.write_claimed",
        "            self._pending.fail(error)\n",
        "            pass\n",
        f"{ROLE}::test_a_failure_of_a_caller_is_final_and_is_reported_by_the_logs_thread",
    ),
    Mutant(
        "a caller keeps the log after a failure",
        "Writer.write_claimed",
        "        finally:\n            self._pending.release()\n",
        "        else:\n            self._pending.release()\n",
        f"{ROLE}::test_a_failure_of_a_caller_is_final_and_is_reported_by_the_logs_thread",
    ),
    Mutant(
        "callers write while writes are slow",
        "Writer._write_data",
        "        if ended - started > self._quick_sync_seconds:\n",
        "        if False:\n",
        f"{ROLE}::test_callers_write_no_more_for_a_while_after_a_slow_write",
    ),
    Mutant(
        "callers write although the limit is zero",
        "Writer.__init__",
        "0.0 if quick_sync_us else math.inf",
        "0.0",
        f"{ROLE}::test_no_caller_writes_when_the_limit_is_zero",
    ),
]
