"""The numbers of sessions and locks: each is greater than all before it, also over restarts.

Numbers are reserved in the catalog in blocks, ahead of their use. A start continues at the bound of the last block, so
no number is given twice. Reserving writes the catalog, and is done before a number is needed: taking one never waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

BLOCK_COUNT = 1 << 20
# `prepare` leaves at least this many: far more than calls that may run between it and `next`.
_LEFT_MIN = 1 << 17


class SessionNumbers:
    """Thread-safe."""

    def __init__(self, reserved_until: int, reserve: Callable[[int], None]) -> None:
        """Numbers below `reserved_until` may have been used. `reserve` makes a new bound durable; it may block."""
        self._reserve = reserve
        self._reserving = threading.Lock()
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._next = self._until = reserved_until

    def prepare(self) -> None:
        """Must precede `next`; reserves more numbers if few are left. May block. Raises the errors of `reserve`."""
        if self._until - self._next < _LEFT_MIN:
            with self._reserving:
                if self._until - self._next < _LEFT_MIN:
                    until = self._until + BLOCK_COUNT
                    self._reserve(until)
                    with self._lock:
                        self._until = until

    def next(self) -> int:
        """Returns the next number; never blocks."""
        with self._lock:
            assert self._next < self._until, "prepare() was not called"
            self._next += 1
            return self._next - 1

    def next_prepared(self) -> int:
        """Returns the next number; may block, as `prepare`."""
        self.prepare()
        return self.next()
