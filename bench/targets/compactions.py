"""Compactions of a server: tables that compact on request only, and the wait until automatic ones are idle."""

from __future__ import annotations

import time

import rowlock

ONLY_ON_REQUEST = {"compaction.automatic": False}
# A store is looked at every second, and after each flush and each compaction.
_IDLE_AFTER_S = 3.0
_POLL_S = 0.1


class Idle:
    """Says when no compaction of a table is queued, working, or about to be. Used by one thread."""

    def __init__(self, client: rowlock.Client, table: str) -> None:
        self._client = client
        self._table = table
        self._begun = self._busy_at = time.perf_counter()

    def look(self) -> bool:
        """Whether it is idle by now."""
        if is_compacting(self._client, self._table):
            self._busy_at = time.perf_counter()
        return time.perf_counter() - self._busy_at > _IDLE_AFTER_S

    @property
    def seconds_busy(self) -> float:
        """From the creation of this object to the last moment at which a compaction was seen."""
        return self._busy_at - self._begun


def is_compacting(client: rowlock.Client, table: str) -> bool:
    """Whether a compaction of the table is queued or working."""
    return any(not job.is_over for job in client.compactions(table))


def wait_until_idle(client: rowlock.Client, table: str) -> float:
    """Blocks until no compaction of the table is due; returns the seconds until the last one had ended."""
    idle = Idle(client, table)
    while not idle.look():
        time.sleep(_POLL_S)
    return idle.seconds_busy


def store_bytes(client: rowlock.Client, table: str) -> int:
    """Returns the size of a table's store files."""
    return sum(region.store_file_bytes for region in client.describe(table).regions)


def store_files(client: rowlock.Client, table: str) -> int:
    """Returns the number of a table's store files."""
    return sum(region.store_file_count for region in client.describe(table).regions)
