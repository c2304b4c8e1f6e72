"""Stamps: the timestamps that a region gives to cells which came without one.

1. A stamp is the clock's millisecond, and never below an earlier stamp, whatever the clock does. That holds over a
   restart too: stamps are reserved in blocks in the log, and a region that is opened again begins behind its last
   block.
2. Two calls in different milliseconds of the clock get different stamps. While stamps are ahead of the clock, the next
   stamp is the last one plus 1. Calls within one millisecond may share a stamp.
3. Only a restart, a time that was announced to a job (`pass_over`) and a clock that was set back put stamps ahead of
   the clock; the first two by less than a block. Explicit timestamps and timestamps that a change reads never move
   them.
4. Stamps come back to the clock, also when there is a call in every millisecond: while they are ahead, every sixteenth
   millisecond of the clock gives none, and callers wait for the next one without holding a lock. So 1,000 ms come back
   in 16 s.

    clock            100   101   102 ... 111   112   113     112 is a multiple of 16
    stamps, ahead    140   141   142 ... 151    -    152     40 ahead, then 39

Earlier versions also took timestamps that a change had read for stamps, and spread them over all tables. What they
reserved further ahead of the clock than a block is believed only as far as cells show it (`stamps_after_restart`). A
region without such cells is back at the clock. One that has them stamps by the clock, but reads each row before it
changes it: the new cells of a row must not lie behind its old ones (`cells_until`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from rowlock_regionserver.clock import Clock

# While stamps are ahead of the clock, one of so many milliseconds gives none.
LEFT_OUT_EVERY_MS = 16


@dataclass(frozen=True, slots=True)
class ToldTime:
    """Milliseconds to write with: `now_ms`, and `reserved_ms` more after it."""

    now_ms: int
    reserved_ms: int


class Stamps:
    """The stamps of one region. Thread-safe."""

    def __init__(self, clock: Clock, block_ms: int, last: int = 0, cells_until: int = 0) -> None:
        """`last`: stamps up to it may have been given. `cells_until`: so may cells be stamped, whatever `last` says."""
        self._clock = clock
        self._block_ms = block_ms
        self._lock = threading.Lock()
        # Guarded by self._lock; the public ones are read without it:
        self._last = last
        self._cells_until = cells_until
        # No cell that the region has stamped is later, and no time that was announced.
        self.newest = max(last, cells_until)
        # Cells that the region has stamped may be later than its next stamp.
        self.reads_rows = cells_until > last
        # The clock's millisecond in which the newest stamp was given; 0: it was given to nobody.
        self.given_at = 0

    def next(self) -> int | None:
        """A stamp in milliseconds. Who writes with it holds the row's lock.

        None: this millisecond gives none. Let all locks go, and ask again after `Clock.wait_for_next_ms`.
        """
        now_ms = self._clock.now_ms()
        with self._lock:
            if now_ms > self.newest:
                self._last = self.newest = now_ms
                self.reads_rows = False
            elif now_ms != self.given_at:
                if now_ms % LEFT_OUT_EVERY_MS == 0 or self._last + 1 - now_ms == self._block_ms:
                    return None
                self._last = max(now_ms, self._last + 1)
                self._settle()
            self.given_at = now_ms
            return self._last

    def pass_over(self, told_ms: int) -> None:
        """Every stamp from here on is later than this time."""
        with self._lock:
            if told_ms >= self._last:
                self._last = told_ms
                self.given_at = 0
                self._settle()

    def extend_cells(self, timestamp: int) -> None:
        """A cell is stamped with this time, which lies ahead of the stamps: its row has another one there."""
        with self._lock:
            self._cells_until = max(self._cells_until, timestamp)
            self._settle()

    def _settle(self) -> None:
        self.newest = max(self._last, self._cells_until)
        self.reads_rows = self._cells_until > self._last

    def bound(self) -> int:
        """What to reserve: later than every stamp and stamped cell, and else a block ahead of the clock."""
        bound = self._clock.now_ms() + self._block_ms
        newest = self.newest
        if newest < bound:
            return bound
        # The clock was set back. A restart must not add a whole block to that each time.
        return newest + max(1, self._block_ms // LEFT_OUT_EVERY_MS)


def stamps_after_restart(
    clock: Clock, block_ms: int, reserved_until: int, *, is_own: bool, newest_cell: Callable[[], int]
) -> Stamps:
    """The stamps of a region that is opened, for which the log has reserved stamps up to a bound.

    `is_own`: stamps of this region alone moved the bound. `newest_cell` gives the newest timestamp of the region's
    cells; it may read all that is in memory, so it is asked only where that is not so.
    """
    ahead_max = clock.now_ms() + block_ms
    if is_own or reserved_until <= ahead_max:
        return Stamps(clock, block_ms, max(0, reserved_until - 1))
    stamped_until = min(reserved_until - 1, newest_cell())
    if stamped_until < ahead_max:
        return Stamps(clock, block_ms, stamped_until)
    return Stamps(clock, block_ms, cells_until=stamped_until)
