"""Stamps: the timestamps a region gives to cells that came without one.

A region's stamps never go back, whatever the clock does. Over a restart too: they are reserved in leaps in the log, and
a region that is opened again begins at the end of the last leap.

A time that the server told somebody, to write with, is passed over: every stamp after it is later. So the stamps of a
server that is asked for its time, written to and asked again, all in one millisecond, run ahead of its clock by one
each time, until the clock has come up; and times that are reserved, for a job of Spark, are passed over at once. A time
that was told is not logged: after a restart the clock itself, which went on meanwhile, has to be beyond it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from rowlock_regionserver.clock import Clock


@dataclass(frozen=True, slots=True)
class ToldTime:
    """Milliseconds to write with: `now_ms`, and `reserved_ms` more after it."""

    now_ms: int
    reserved_ms: int


class Stamps:
    """The stamps of one region. Thread-safe."""

    def __init__(self, clock: Clock, at_least_ms: int) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._last = at_least_ms
        self._told = 0

    @property
    def last(self) -> int:
        """The newest stamp that was given."""
        return self._last

    def next(self) -> int:
        """A stamp in milliseconds, not below any that was given before. Who writes with it holds the row's lock."""
        now_ms = self._clock.now_ms()
        with self._lock:
            if now_ms > self._last:
                self._last = now_ms
            if self._told >= self._last:
                self._last = self._told + 1
            return self._last

    def pass_over(self, told_ms: int) -> None:
        """Every stamp from here on is later than this time."""
        with self._lock:
            self._told = max(self._told, told_ms)
