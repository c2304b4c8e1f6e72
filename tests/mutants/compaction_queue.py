"""Broken builds of the compaction queue, its history and its threads."""

from __future__ import annotations

from .broken_build import Mutant

QUEUE = "unit/compaction/test_queue.py"
SERVER = "unit/host/test_region_server.py"
THREADS = "unit/host/test_compacting.py"

COMPACTION_QUEUE_MUTANTS = [
    Mutant(
        "a store is compacted twice at once",
        "CompactionQueue.start_next",
        " if store not in self._working]",
        "]",
        f"{QUEUE}::test_a_store_has_one_queued_and_one_working_job_at_most",
    ),
    Mutant(
        "automatic compaction goes before requests",
        "CompactionQueue.start_next",
        "(not entry.job.is_by_hand, entry.job.job_id)",
        "(entry.job.job_id,)",
        f"{QUEUE}::test_requests_by_hand_start_first_then_the_older_job",
    ),
    Mutant(
        "automatic compaction never stops",
        "StoreHistory.stopped_because",
        "        if self.failure_count < failures_max:\n",
        "        if True:\n",
        f"{QUEUE}::test_automatic_jobs_stop_after_two_failures_until_a_request_by_hand_succeeds",
    ),
    Mutant(
        "damage does not stop automatic compaction",
        "StoreHistory.stopped_because",
        "        if self.damage:\n",
        "        if False:\n",
        f"{QUEUE}::test_damage_stops_automatic_jobs_at_once",
    ),
    Mutant(
        "a failed automatic compaction is tried again at once",
        "StoreAttempts.is_paused",
        "return self._paused_until is not None and monotonic < self._paused_until",
        "return False",
        f"{QUEUE}::test_after_a_failure_the_next_automatic_job_waits_for_the_pause",
    ),
    Mutant(
        "an automatic compaction that gained nothing is repeated at once",
        "CompactionQueue.succeeded",
        " and job.work.has_gained_nothing:",
        " and False:",
        f"{QUEUE}::test_after_an_automatic_job_that_gained_nothing_the_next_one_waits_for_the_pause",
    ),
    Mutant(
        "the pause after a compaction that gained nothing is over at once",
        "JobRunner.run",
        "self._clock.now_ms(), self._clock.monotonic())",
        "self._clock.now_ms(), 0.0)",
        f"{THREADS}::test_an_automatic_compaction_that_gained_nothing_is_not_repeated_before_the_pause_is_over",
    ),
    Mutant(
        "a full disk counts as a failure of the store",
        "JobRunner._record_failure",
        "            case DiskFullError() | TooManyOpenFilesError() | OutOfMemoryError() if not "
        "entry.shown().work.bytes_read:\n",
        "            case DiskFullError() if False:\n",
        f"{THREADS}::test_a_disk_that_is_too_full_refuses_the_job_before_it_starts",
    ),
    Mutant(
        "a request takes only one step",
        "JobRunner._carry_out",
        "            is_continued = plan.is_continued and entry.job.is_by_hand\n",
        "            is_continued = False\n",
        f"{THREADS}::test_more_files_than_one_compaction_takes_are_compacted_in_steps",
    ),
    Mutant(
        "the history of a dropped region is written",
        "CompactionThreads._history_of",
        "            if region_id not in self._regions:\n                return None\n",
        "",
        f"{THREADS}::test_jobs_of_a_dropped_region_are_cancelled_and_nothing_is_written_any_more",
    ),
    Mutant(
        "an unknown outcome of a compaction is only a failed job",
        "JobRunner.run",
        "        except (UnknownOutcomeError, StoppingError, OSError):\n            raise\n",
        "",
        f"{THREADS}::test_an_unknown_outcome_ends_the_threads_and_is_not_recorded",
    ),
    Mutant(
        "a stop does not cancel compactions",
        "CompactionQueue.cancel_all",
        "            entry.cancel(reason)\n",
        "            pass\n",
        f"{QUEUE}::test_a_stopping_server_forgets_automatic_jobs_and_records_those_by_hand",
    ),
    Mutant(
        "ids of compactions begin again after a restart",
        "CompactionThreads.begin",
        "            next_id += -(next_id - 1) % _IDS_PER_START\n",
        "            next_id = 1\n",
        f"{THREADS}::test_a_request_is_carried_out_and_kept_over_a_restart",
    ),
    Mutant(
        "regions are flushed before there are compaction threads to wake",
        "RegionServer._begin",
        "        self.compactions = CompactionThreads(\n",
        "        self._flusher.thread.start()\n"
        "        self._flusher.thread.start = lambda: None\n"
        "        self.compactions = CompactionThreads(\n",
        f"{SERVER}::test_a_flush_may_end_before_the_server_has_started_its_other_threads",
    ),
]
