"""A fair semaphore: a fixed number of permits for background work, granted in order of arrival."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.commit.wait_queue import WaitQueue, seconds_text
from rowlock_regionserver.errors import DeadlineError


@dataclass(frozen=True, slots=True)
class SemaphoreStatistics:
    """How many permits are free, and how many threads wait for one."""

    free: int
    waiting: int


class FairSemaphore:
    """Thread-safe."""

    def __init__(self, count: int, clock: Clock) -> None:
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._free = count
        self._queue = WaitQueue(self._lock, clock)

    def acquire(self, deadline: float = math.inf) -> None:
        """Takes a permit. Blocks until `deadline` on the monotonic clock; then raises DeadlineError."""
        with self._lock:
            if self._free:
                self._free -= 1
            else:
                self._queue.wait(deadline, _timed_out)

    def release(self) -> None:
        """Returns a permit; it passes to the thread that has waited longest."""
        with self._lock:
            if not self._queue.hand_over():
                self._free += 1

    def statistics(self) -> SemaphoreStatistics:
        with self._lock:
            return SemaphoreStatistics(self._free, len(self._queue))


def _timed_out(seconds: float) -> DeadlineError:
    return DeadlineError(
        f"timed out after {seconds_text(seconds)} waiting for a permit for background work: other bulk batches and "
        "flushes held them all; nothing was changed, retry"
    )
