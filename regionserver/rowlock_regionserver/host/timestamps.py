"""Ranges of timestamps for clients that set their own: a Spark job, whose tasks may run twice, writes with one.

1. A range for a table begins no earlier than any stamp of the table, so existing cells do not hide writes with the
   range. Every later stamp of the table is later than the whole range, so the range hides no later write. For the
   reserved part of a range this holds across a restart too.
2. Without a table, the range is the clock's time, and the request changes nothing. Old clients reserve a range without
   naming a table; such a range applies to all tables.
3. A range ends less than a block ahead of the clock, unless the table's own stamps are further ahead. So neither a
   table whose stamps are ahead nor a clock that was wrong affects other tables.
4. A table accepts every range that the server allocates for it (Numbering.timestamp_max).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.region.region import Region


@dataclass(frozen=True, slots=True)
class TimestampRange:
    """The milliseconds from `now_ms` to `now_ms + reserved_ms`, both inclusive."""

    now_ms: int
    reserved_ms: int


class Timestamps:
    """Allocates ranges of timestamps. Callers hold `lock`, also while they put a region into service."""

    def __init__(self, clock: Clock, block_ms: int) -> None:
        self._clock = clock
        self._block_ms = block_ms
        self.lock = threading.Lock()
        # Guarded by self.lock:
        self._reserved_until = 0  # for all tables

    def of_table(self, regions: Sequence[Region], reserve_ms: int) -> TimestampRange:
        """Allocates a range for the table of these regions. The caller holds the lock. Raises StoppingError."""
        newest = max((region.newest_stamp for region in regions), default=0)
        return self._range(regions, newest, reserve_ms)

    def of_all(self, regions: Sequence[Region], reserve_ms: int) -> TimestampRange:
        """Allocates a range for all tables, given all regions. The caller holds the lock. Raises StoppingError."""
        if not reserve_ms:
            return TimestampRange(self._clock.now_ms(), 0)
        # Anything further ahead comes from a clock that has been set back since.
        ahead_max = self._ahead_max()
        newest = [self._reserved_until, *(region.newest_stamp for region in regions)]
        allocated = self._range(regions, max([stamp for stamp in newest if stamp <= ahead_max], default=0), reserve_ms)
        self._reserved_until = allocated.now_ms + allocated.reserved_ms
        return allocated

    def _range(self, regions: Sequence[Region], newest: int, reserve_ms: int) -> TimestampRange:
        ahead_max = self._ahead_max()
        if reserve_ms and newest != ahead_max:
            newest += 1  # Two ranges share no millisecond, as far as the block reaches.
        now_ms = max(self._clock.now_ms(), newest)
        reserved_ms = max(0, min(reserve_ms, ahead_max - now_ms))
        for region in regions:
            region.stamp_later_than(now_ms + reserved_ms, is_reserved=reserve_ms > 0)
        return TimestampRange(now_ms, reserved_ms)

    def begin(self, region: Region, replaced: Region | None) -> None:
        """Applies the reserved ranges of all tables, and of the region that it replaces, to a new region.

        The caller holds the lock.
        """
        newest = self._reserved_until if replaced is None else max(self._reserved_until, replaced.newest_stamp)
        region.stamp_later_than(min(newest, self._ahead_max()), is_reserved=replaced is not None)

    def _ahead_max(self) -> int:
        return self._clock.now_ms() + self._block_ms - 1
