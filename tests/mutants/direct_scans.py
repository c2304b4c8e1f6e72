"""Broken builds of scans on direct connections of their own: the client's side."""

from __future__ import annotations

from .broken_build import CLIENT, Mutant

THREADS = "unit/client/test_direct_scan.py"
TASKS = "unit/client/test_direct_scan_of_tasks.py"
LINKS = "unit/client/blocking/test_links.py"
CHOICE = "unit/client/test_direct_choice.py"
REAL = "end_to_end/test_direct_scans.py"

DIRECT_SCANS = [
    Mutant(name, where, passage, replacement, caught_by, CLIENT)
    for name, where, passage, replacement, caught_by in (
        (
            "a thread that cancels a direct scan closes the socket of another one",
            "rowlock/_transport/direct_scan.py:DirectScan.cancel",
            "                if not self._is_in_use:\n",
            "                if True:\n",
            f"{THREADS}::test_the_thread_that_*_closes_the_socket_of_a_scan_that_is_cancelled",
        ),
    )
]
