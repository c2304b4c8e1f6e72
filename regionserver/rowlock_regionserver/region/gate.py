"""The gate: a region's shared/exclusive lock.

Row operations pass it shared, from LOCK to APPLY. Flush switch, alter, bulk commit, split and close take it
exclusively, for moments. Whoever holds it exclusively knows that no write is between taking its write number and
being applied. A waiting exclusive holder keeps newcomers out, so it waits only for those already inside.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.errors import DeadlineError


class Gate:
    """Thread-safe; not reentrant."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        # Guarded by self._lock:
        self._shared = 0
        self._is_exclusive = False
        self._exclusive_waiting = 0

    def try_enter(self) -> bool:
        """Enters shared, unless that would have to wait."""
        with self._lock:
            if self._is_exclusive or self._exclusive_waiting:
                return False
            self._shared += 1
            return True

    def enter(self, deadline: float) -> None:
        """Enters shared, waiting until `deadline` on the monotonic clock; else DeadlineError."""
        with self._lock:
            while self._is_exclusive or self._exclusive_waiting:
                if not self._changed.wait(deadline - self._clock.monotonic()):
                    raise DeadlineError(
                        "gave up waiting for the region's gate, which a flush or alter holds; try again"
                    )
            self._shared += 1

    def leave(self) -> None:
        """Ends a shared stay."""
        with self._lock:
            assert self._shared > 0, self._shared
            self._shared -= 1
            if not self._shared and self._exclusive_waiting:
                self._changed.notify_all()

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Holds the gate alone. Waits for those inside, who never wait for anything but row locks."""
        with self._lock:
            self._exclusive_waiting += 1
            while self._is_exclusive or self._shared:
                self._changed.wait()
            self._exclusive_waiting -= 1
            self._is_exclusive = True
        try:
            yield
        finally:
            with self._lock:
                self._is_exclusive = False
                self._changed.notify_all()
