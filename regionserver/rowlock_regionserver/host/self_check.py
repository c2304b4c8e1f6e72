"""ROWLOCK_VERIFY=1: a server checks the invariants of its structures while it serves, and ends at the first breach.

For tests and debugging. A pass costs O(cells in memory), and writes to a segment wait while it is checked, so there is
a pause between two passes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from rowlock_regionserver.host.region_server import RegionServer

PAUSE_S = 0.2


def check(server: RegionServer) -> None:
    """Asserts the invariants, while reads and writes are active. Blocks; O(cells in memory)."""
    server.ledger._check()
    server._log._check()
    server._shared.cache._check()
    server._shared.open_files._check()
    for region in list(server._regions.values()):
        region._check()


class SelfCheck:
    """Checks a server repeatedly, in a thread, until it is stopped or a check fails."""

    def __init__(self, server: RegionServer, on_breach: Callable[[BaseException], None]) -> None:
        """`on_breach` is called once, by the thread, with the error of a check."""
        self._server = server
        self._on_breach = on_breach
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="self-check", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after its current pass. Blocks."""
        self._is_stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._is_stopping.wait(PAUSE_S):
                check(self._server)
        except BaseException as error:
            self._on_breach(error)
