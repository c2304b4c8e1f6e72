"""Write numbers and stamps that a restart never hands out again.

Both are reserved in leaps in the log, ahead of their use: a write may be seen by a reader and then be lost with the
machine (durability below fsync), and its number or stamp must not come back with another meaning.
"""

from __future__ import annotations

from rowlock_regionserver.config import Config
from rowlock_regionserver.region.mvcc import Mvcc
from rowlock_regionserver.region.stamps import Stamps
from rowlock_regionserver.wal.log import Log


class Numbering:
    """One region's write numbers and stamps, with their reservations."""

    def __init__(self, region_id: int, mvcc: Mvcc, stamps: Stamps, log: Log, config: Config) -> None:
        self._region_id = region_id
        self._mvcc = mvcc
        self._stamps = stamps
        self._log = log
        self._numbers_per_leap = config.write_numbers_per_leap
        self._stamp_leap_ms = config.stamp_leap_ms
        # Guarded by the log's order lock:
        self._numbers_until = 0
        self._stamps_until = 0

    def next_stamp(self) -> int:
        """4 STAMP. Who writes with it holds the row's lock."""
        return self._stamps.next()

    def begin(self) -> int:
        """5 BEGIN: the next write number. The caller holds the log's order lock and appends with it at once."""
        if self._mvcc.last >= self._numbers_until or self._stamps.last >= self._stamps_until:
            self.reserve()
        return self._mvcc.begin()

    def reserve(self) -> None:
        """Logs the next leap. The caller holds the log's order lock."""
        self._numbers_until = self._mvcc.last + self._numbers_per_leap
        self._stamps_until = self._stamps.last + self._stamp_leap_ms
        self._log.reserve(self._region_id, self._numbers_until, self._stamps_until)
