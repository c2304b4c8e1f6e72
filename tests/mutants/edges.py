"""Broken builds of the code between the network and the regions: which calls are accepted and answered, and how."""

from __future__ import annotations

from .broken_build import Mutant

CALLS = "unit/rpc/test_calls.py"
FAILURES = "unit/rpc/test_failures.py"
FLUSHES = "unit/engine/test_flushes.py"

EDGES = [
    Mutant(
        "a call for another folder is accepted",
        "Calls._refusal",
        "            if key == _FOLDER_ID_KEY and value != self._data_folder_id:\n",
        "            if False:\n",
        f"{CALLS}::test_a_call_for_another_folder_is_refused_even_while_the_server_recovers",
    ),
    Mutant(
        "a call is accepted before the server has recovered",
        "Calls._refusal",
        "        if self._state is _State.RECOVERING:\n",
        "        if False:\n",
        f"{CALLS}::test_calls_are_accepted_from_recovery_until_the_server_stops",
    ),
    Mutant(
        "a requested flush joins the running one",
        "Flushes.flush",
        "        task = self._next.get(table)\n",
        "        task = self._next.get(table) or self._running.get(table)\n",
        f"{FLUSHES}::test_calls_that_come_while_a_flush_runs_share_the_next_one",
    ),
    Mutant(
        "an error without a code of its own is sent as a server bug",
        "error_message",
        "        code=next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES),\n",
        "        code=_CODES.get(type(error), 'INTERNAL'),\n",
        f"{FAILURES}::test_an_error_that_the_table_does_not_know_travels_under_the_code_of_its_parent",
    ),
]
