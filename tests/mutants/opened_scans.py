"""Broken builds of scans that point requests open: their first rows, how they go on, and how held ones end."""

from __future__ import annotations

from .broken_build import CLIENT, Mutant

OPENED = "end_to_end/test_opened_scans.py"
OPENING = "unit/engine/test_scan_openings.py"
SCANS = "unit/engine/test_scans.py"
SHORT = "unit/region/test_short_scans.py"
GOES_ON = f"{OPENED}::test_a_scan_goes_on_at_the_same_read_point_without_losing_or_repeating_a_row"

RELEASED = "unit/client/test_scan_release.py"

OPENED_SCANS = [
    Mutant(
        "a scan whose task is cancelled when it was just opened stays held",
        "abandon",
        "    else:\n        release()\n",
        "",
        f"{OPENED}::test_a_scan_whose_task_is_cancelled_while_it_opens_is_not_held[True-True]",
        package=CLIENT,
    ),
    Mutant(
        "a scan that is cancelled before the call that continues it is sent stays held",
        "ScanStream.cancel",
        "        if held_scan:  # grpc",
        "        if False:  # grpc",
        f"{OPENED}::test_a_scan_that_is_cancelled_before_its_call_is_sent_is_not_held",
        package=CLIENT,
    ),
    Mutant(
        "a scan whose task is cancelled while it is continued stays held",
        "open_scan",
        "            servers.link_to(region).release(region, opened.held_scan)\n",
        "",
        f"{RELEASED}::test_a_scan_whose_task_is_cancelled_while_it_is_continued_is_released",
        package=CLIENT,
    ),
    Mutant(
        "batches are made ahead although scans hold much",
        "Scans._write_batches",
        "count > 1 and not self._account.is_half_full",
        "count > 1",
        f"{SCANS}::test_nothing_is_made_ahead_while_scans_hold_much",
    ),
    Mutant(
        "a held scan goes on from its beginning, at another read point",
        "OpenScan._next_answer",
        "        if self._answers is None:\n",
        "        if self._reading is Reading.BULK and self._first_bytes:\n"
        "            self._begin_again()\n"
        "        if self._answers is None:\n",
        GOES_ON,
    ),
    Mutant(
        "the last of the first rows are lost",
        "ScanRun._made_answer",
        "self._request.answer(scan.first, ",
        "self._request.answer(scan.first[:-1], ",
        GOES_ON,
    ),
    Mutant(
        "a scan that a worker begins again repeats what the loop has read",
        "OpenScan._begin_again",
        "        self.first, self._first_bytes = [], 0\n",
        "",
        f"{OPENING}::test_what_was_read_before_a_wait_is_read_again_and_not_repeated",
    ),
    Mutant(
        "the limit of an opened scan is ignored",
        "Scan._batches_of_windows",
        "self._plan.row_limit > 0",
        "False",
        f"{OPENED}::test_of_a_limit_no_row_more_is_returned",
    ),
    Mutant(
        "a held scan has no lease",
        "HeldScans.hold",
        "self._lease_ms / 1000",
        "3600",
        f"{OPENED}::test_a_scan_that_no_one_goes_on_with_is_freed_by_its_lease",
    ),
    Mutant(
        "a held scan outlives its connection",
        "HeldScans.free_gone",
        "if held.responder.is_gone",
        "if False",
        f"{OPENED}::test_a_held_scan_is_freed_with_its_connection",
    ),
    Mutant(
        "a held scan outlives its session",
        "HeldScans.hold",
        "        admitted.listed.ended.add_done_callback(partial(self._end, held_id))\n",
        "",
        f"{OPENED}::test_a_held_scan_ends_with_its_session",
    ),
    Mutant(
        "a held scan that is not wanted is kept",
        "HeldScans.free",
        "            self._release(held.admitted)\n",
        "            pass\n",
        f"{OPENED}::test_a_held_scan_is_counted_listed_and_freed_on_request",
    ),
    Mutant(
        "a held scan is not among the open ones",
        "ScanRun._settle",
        "            self._scans.held.hold(self._held_id, self._admitted, self._responder)\n",
        "            self._scans.held.hold(self._held_id, self._admitted, self._responder)\n"
        "            self._scans._open_count -= 1\n",
        f"{OPENED}::test_a_held_scan_is_counted_listed_and_freed_on_request",
    ),
    Mutant(
        "short scans of cells pass by the block cache",
        "CellRun.read_rows",
        "        if reading is not Reading.BULK:\n",
        "        if False:\n",
        f"{SHORT}::test_on_the_loop_no_scan_waits_for_a_disk",
    ),
    Mutant(
        "short scans of lines pass by the block cache",
        "WideRun._window",
        "        if reading is Reading.BULK:\n",
        "        if True:\n",
        f"{SHORT}::test_on_the_loop_no_scan_waits_for_a_disk",
    ),
    Mutant(
        "a scan with a limit reads windows of any size",
        "Scan._window_answers",
        "            bytes_max = min(self._window_bytes, FIRST_WINDOW_BYTES, self._bytes_to_limit())\n",
        "            bytes_max = self._window_bytes\n",
        f"{SHORT}::test_a_scan_with_a_limit_reads_no_more_blocks_than_its_rows_need",
    ),
    Mutant(
        "a scan whose task was cancelled while it opened stays held",
        "abandon.release",
        "                submit(releasing_request(request.table, request.row, request.region_id, held_scan))\n",
        "                pass\n",
        f"{OPENED}::test_a_scan_whose_task_is_cancelled_while_it_opens_is_not_held",
        CLIENT,
    ),
]
