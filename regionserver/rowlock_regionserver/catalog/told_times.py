"""Times of the server's clock, for clients that write with timestamps of their own: a job that may be repeated, say.

1. A time for a table is not below a stamp that was given in it, so what is written with it hides behind nothing that
   was there. Whatever is stamped there afterwards is later, so it hides nothing of that either. That holds also for the
   milliseconds after it that were reserved, and after a restart.
2. A time for no table in particular is the clock's, and asking for it moves nothing. Milliseconds that are reserved by
   a client that names no table concern all tables.
3. What is announced lies less than a block ahead of the clock, unless the table's own stamps lie further ahead. So a
   table whose stamps do, or a clock that was wrong, moves no other table.
4. Every time that is announced is one that the table takes (Numbering.timestamp_max).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.region.stamps import ToldTime


class ToldTimes:
    """Thread-safe. `lock` is held while a region begins to be served."""

    def __init__(self, clock: Clock, block_ms: int) -> None:
        self._clock = clock
        self._block_ms = block_ms
        self.lock = threading.Lock()
        # Guarded by self.lock:
        self._reserved_until = 0  # by clients that named no table

    def of_table(self, regions: Sequence[Region], reserve_ms: int) -> ToldTime:
        """A time for a table with these regions. The caller holds the lock. Raises StoppingError."""
        newest = max((region.newest_stamp for region in regions), default=0)
        return self._told(regions, newest, reserve_ms)

    def of_all(self, regions: Sequence[Region], reserve_ms: int) -> ToldTime:
        """A time for no table in particular; these are all regions. The caller holds the lock. Raises StoppingError."""
        if not reserve_ms:
            return ToldTime(self._clock.now_ms(), 0)
        # What lies further ahead was stamped or reserved by a clock that has been set back since.
        ahead_max = self._ahead_max()
        newest = [self._reserved_until, *(region.newest_stamp for region in regions)]
        told = self._told(regions, max([stamp for stamp in newest if stamp <= ahead_max], default=0), reserve_ms)
        self._reserved_until = told.now_ms + told.reserved_ms
        return told

    def _told(self, regions: Sequence[Region], newest: int, reserve_ms: int) -> ToldTime:
        ahead_max = self._ahead_max()
        if reserve_ms and newest != ahead_max:
            newest += 1  # Two jobs have no millisecond in common, as far as the block reaches.
        now_ms = max(self._clock.now_ms(), newest)
        reserved_ms = max(0, min(reserve_ms, ahead_max - now_ms))
        for region in regions:
            region.stamp_later_than(now_ms + reserved_ms, is_reserved=reserve_ms > 0)
        return ToldTime(now_ms, reserved_ms)

    def begin(self, region: Region, before: Region | None) -> None:
        """The region takes the place of another one, whose times were told for it too. The caller holds the lock."""
        told_ms = self._reserved_until if before is None else max(self._reserved_until, before.newest_stamp)
        region.stamp_later_than(min(told_ms, self._ahead_max()), is_reserved=before is not None)

    def _ahead_max(self) -> int:
        return self._clock.now_ms() + self._block_ms - 1
