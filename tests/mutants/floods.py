"""Broken builds of what a connection that floods the server leaves to other connections, and to scans."""

from __future__ import annotations

from .broken_build import Mutant

CONNECTION = "unit/rpc/direct/test_connection.py"
SCANS = "unit/engine/test_scans.py"

FLOODS = [
    Mutant(
        "a flooding connection keeps the event loop",
        "DirectConnection._must_yield",
        "self._monotonic() - self._slice_began > SLICE_SECONDS_MAX or self._is_unread_too_much()",
        "self._is_unread_too_much()",
        f"{CONNECTION}::test_a_flooding_connection_stands_behind_the_others_after_each_slice",
    ),
    Mutant(
        "the next slice of a connection is begun before what came during the last one",
        "DirectConnection._take_turn_soon",
        "self._loop.call_soon(self._loop.call_soon, self._take_due_turn)",
        "self._loop.call_soon(self._take_due_turn)",
        f"{CONNECTION}::test_what_comes_during_a_slice_is_begun_before_the_next_slice_of_that_connection",
    ),
    Mutant(
        "the next slice of a connection is begun before the changes that came during the last one are made",
        "DirectConnection._take_due_turn",
        "        self._service.turn.end()",
        "        pass",
        f"{CONNECTION}::test_changes_that_come_during_a_slice_are_made_before_the_next_slice_of_that_connection",
    ),
    Mutant(
        "a flooding connection pauses for no scan",
        "DirectConnection._take_turn_later",
        "        if not step_count or self._slices_in_a_row <= FLOOD_SLICES or self._state is not _OPEN:\n",
        "        if True:\n",
        f"{CONNECTION}::test_a_flooding_connection_pauses_for_running_scans",
    ),
    Mutant(
        "a flooding connection that ends pauses",
        "DirectConnection._take_turn_later",
        " or self._state is not _OPEN:\n",
        ":\n",
        f"{CONNECTION}::test_a_flooding_connection_that_ends_does_not_pause",
    ),
    Mutant(
        "a connection of which no more waits pauses as a flood does",
        "DirectConnection.buffer_updated",
        "            self._slices_in_a_row = 0  # No more was waiting.\n",
        "            pass\n",
        f"{CONNECTION}::test_a_connection_whose_receives_are_not_full_does_not_pause",
    ),
    Mutant(
        "the steps of scans that run are not counted",
        "Scans._step",
        "            self._workers.scan_step_count -= 1\n",
        "            pass\n",
        f"{SCANS}::test_steps_are_counted_while_they_run",
    ),
]
