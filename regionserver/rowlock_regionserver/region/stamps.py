"""Stamps: the timestamps a region gives to cells that came without one.

A region's stamps never go back, whatever the clock does. Over a restart too: they are reserved in leaps in the log, and
a region that is opened again begins at the end of the last leap.
"""

from __future__ import annotations

import threading

from rowlock_regionserver.clock import Clock


class Stamps:
    """The stamps of one region. Thread-safe."""

    def __init__(self, clock: Clock, at_least_ms: int) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._last = at_least_ms

    @property
    def last(self) -> int:
        """The newest stamp that was given."""
        return self._last

    def next(self) -> int:
        """A stamp in milliseconds, not below any that was given before. The caller holds the row's lock."""
        now_ms = self._clock.now_ms()
        with self._lock:
            if now_ms > self._last:
                self._last = now_ms
            return self._last
