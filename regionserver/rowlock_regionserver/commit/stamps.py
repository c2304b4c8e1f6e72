"""Stamps: the timestamps that a region gives to cells without one.

1. A stamp is the clock's millisecond, and never below an earlier stamp, whatever the clock does. That holds across a
   restart too: the log reserves stamps in blocks, and a region that is opened again continues after its last block.
2. Two calls in different milliseconds of the clock get different stamps. While stamps are ahead of the clock, the next
   stamp is the last one plus 1. Calls in one millisecond may share a stamp.
3. Stamps get ahead of the clock by a crash, by a timestamp range that a client reserves (`pass_over`), and when the
   clock is set back; in the first two cases by less than a block. Timestamps that clients send or changes read never
   move them.
4. Stamps return to the clock even if there is a call in each millisecond: while they are ahead, every sixteenth
   millisecond of the clock gives none, and callers wait for the next one without holding a lock. To make up for
   1,000 ms takes 16 s.

    clock            100   101   102 ... 111   112   113     112 is a multiple of 16
    stamps, ahead    140   141   142 ... 151    -    152     40 ahead, then 39

Earlier versions also used timestamps that a change had read as stamps, and spread them to all tables. A reservation of
theirs that is further ahead than a block counts only as far as cells confirm it, and a little beyond, where clients may
have ranges without a cell yet (`stamps_after_restart`). A region without such cells returns to the clock at once. A
region with such cells stamps by the clock too, but a call whose stamp is not later than all cells (`cells_until`) reads
each row before it changes the row: new cells must not be older than the row's existing ones. The call's own stamp
decides, because stamps may pass the cells while the call is active.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from rowlock_regionserver.clock import Clock

# While stamps are ahead of the clock, one of this many milliseconds gives none.
LEFT_OUT_EVERY_MS = 16
# A reservation counts up to this far beyond the newest cell: much more than ranges and restarts add, yet not hours.
_BEYOND_CELLS_BLOCKS = 60


class Stamps:
    """The stamps of one region. Thread-safe."""

    def __init__(self, clock: Clock, block_ms: int, last: int = 0, cells_until: int = 0) -> None:
        """`last`: the region may have used stamps up to it. `cells_until`: its cells may have stamps up to it."""
        self._clock = clock
        self._block_ms = block_ms
        self._lock = threading.Lock()
        # Guarded by self._lock; the public ones are read without it:
        self._last = last
        # The latest stamp that an existing cell may have, even if `_last` is earlier. Never goes back.
        self.cells_until = cells_until
        # The greatest stamp that a cell has or that lies in a timestamp range of a client.
        self.newest = max(last, cells_until)
        # The clock's millisecond in which a call got the newest stamp; 0: no call did.
        self.given_at = 0

    def next(self) -> int | None:
        """Returns a stamp in milliseconds. The caller holds the locks of the rows that it changes.

        None: this millisecond gives none. Release all locks, and call again after `Clock.wait_for_next_ms`.
        """
        with self._lock:
            now_ms = self._clock.now_ms()
            if now_ms > self.newest:
                self._last = self.newest = now_ms
            elif now_ms != self.given_at:
                if now_ms % LEFT_OUT_EVERY_MS == 0 or self._last + 1 - now_ms == self._block_ms:
                    return None
                self._last = max(now_ms, self._last + 1)
                self.newest = max(self._last, self.cells_until)
            self.given_at = now_ms
            return self._last

    def pass_over(self, timestamp: int) -> None:
        """Makes all further stamps later than this timestamp."""
        with self._lock:
            if timestamp >= self._last:
                self._last = timestamp
                self.given_at = 0
                self.newest = max(timestamp, self.cells_until)

    def extend_cells(self, timestamp: int) -> None:
        """Notes a cell with this timestamp. It is ahead of the stamps because its row has another such cell."""
        with self._lock:
            self.cells_until = max(self.cells_until, timestamp)
            self.newest = max(self._last, self.cells_until)

    def pass_over_cells(self) -> int | None:
        """Makes all further stamps later than existing cells. Returns the newest of these; None: they were later."""
        with self._lock:
            if self._last > self.cells_until:
                return None
            self._last = self.cells_until
            self.given_at = 0
            return self._last

    def bound(self) -> int:
        """Returns the bound to reserve up to: a block ahead of the clock, and later than `newest`."""
        bound = self._clock.now_ms() + self._block_ms
        newest = self.newest
        if newest < bound:
            return bound
        # The clock was set back. A restart must not add a whole block to that each time.
        return newest + max(1, self._block_ms // LEFT_OUT_EVERY_MS)


def stamps_after_restart(
    clock: Clock, block_ms: int, reserved_until: int, *, is_own: bool, newest_cell: Callable[[], int]
) -> Stamps:
    """Returns the stamps of a region that is opened and whose log reserved stamps below `reserved_until`.

    `is_own`: only stamps of this region have moved the bound. Otherwise `newest_cell` may be called, which returns the
    newest timestamp of the region's cells and reads all that is in memory.
    """
    ahead_max = clock.now_ms() + block_ms
    if is_own or reserved_until <= ahead_max:
        return Stamps(clock, block_ms, max(0, reserved_until - 1))
    stamped_until = newest_cell()
    if reserved_until <= stamped_until + _BEYOND_CELLS_BLOCKS * block_ms:
        stamped_until = reserved_until - 1  # A client may have a range without a cell yet.
    stamped_until = min(stamped_until, reserved_until - 1)
    if stamped_until < ahead_max:
        return Stamps(clock, block_ms, stamped_until)
    return Stamps(clock, block_ms, cells_until=stamped_until)
