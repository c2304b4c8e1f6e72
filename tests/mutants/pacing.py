"""Broken builds of the pauses of background work, and of what tells it that the event loop is idle."""

from __future__ import annotations

from .broken_build import Mutant

PACING = "unit/region/test_background_pacing.py"

PACING_BUILDS = [
    Mutant(
        "a bulk batch pauses beyond its deadline",
        "Permit._sleep",
        "max(0.0, self._deadline - pacing.clock.monotonic())",
        "math.inf",
        f"{PACING}::test_no_pause_is_longer_than_the_deadline",
    ),
    Mutant(
        "beside a busy event loop a bulk batch pauses beyond its deadline",
        "Permit._sleep",
        "_BUSY_PAUSE_SECONDS_MAX, seconds_left)",
        "_BUSY_PAUSE_SECONDS_MAX)",
        f"{PACING}::test_beside_a_busy_event_loop_no_pause_is_longer_than_the_deadline",
    ),
    Mutant(
        "background work does not wait until the event loop was idle",
        "Permit._sleep",
        "while (lacking",
        "while False and (lacking",
        f"{PACING}::test_it_pauses_until_the_event_loop_was_idle_for_as_long[pace0-0.002]",
    ),
    Mutant(
        "background work waits for a busy event loop for half a second after each piece",
        "Permit._sleep",
        "self._current_pace().longest * pause",
        "1000 * pause",
        f"{PACING}::test_beside_an_event_loop_that_is_never_idle_it_works_for_a_part_of_the_time[pace2-0.04]",
    ),
    Mutant(
        "the event loop's idle time from before the work counts as its pause",
        "Permit._begin",
        "        self._idle_before = pacing.idle()\n",
        "",
        f"{PACING}::test_beside_an_event_loop_that_is_never_idle_it_works_for_a_part_of_the_time[pace2-0.04]",
    ),
    Mutant(
        "idle time that was counted for one pause counts for the next",
        "Permit._pause",
        "        self._idle_before = pacing.idle()\n",
        "",
        f"{PACING}::test_idle_time_counts_for_one_pause_only",
    ),
    Mutant(
        "a flush keeps pausing after memory has become scarce",
        "Permit._sleep",
        " and not self._is_urgent():",
        ":",
        f"{PACING}::test_a_flush_ends_its_pause_when_memory_becomes_scarce",
    ),
    Mutant(
        "other work that begins to wait for the permit waits for a long pause",
        "Permit._sleep",
        "self._current_pace().longest",
        "self._pace.longest",
        f"{PACING}::test_a_pause_is_shorter_when_other_work_begins_to_wait_for_the_permit",
    ),
    Mutant(
        "an event loop that waits for a sync is busy",
        "WritePath.mutate",
        "            self._pacing.note_sync_wait(self._clock.monotonic() - began)\n",
        "",
        f"{PACING}::test_the_event_loop_is_idle_while_a_single_put_waits_for_its_sync",
    ),
    Mutant(
        "a compaction for which many files wait pauses as long as others",
        "_Merge.pieces",
        "COMPACTION_BEHIND if len(self._inputs) > _INPUTS_BEHIND else COMPACTION",
        "COMPACTION",
        "unit/region/test_compacting.py::test_a_compaction_for_which_many_files_wait_does_not_pause_for_longer",
    ),
    Mutant(
        "background work does not know whether the event loop is idle",
        "Server._serve",
        "            region_server.pacing.idle_seconds = selector.idle_seconds\n",
        "",
        "end_to_end/test_server_process.py::test_its_background_work_knows_how_long_its_event_loop_was_idle",
    ),
    Mutant(
        "an event loop that waits for long is not idle until something comes",
        "ReadySelector.idle_seconds",
        "waited if since is None else waited + time.monotonic() - since",
        "waited",
        "unit/rpc/direct/test_ready_selector.py::test_a_wait_that_has_not_ended_counts_too",
    ),
]
