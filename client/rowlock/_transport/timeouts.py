"""Time limits for blocking waits without a timeout of their own, such as reading the next message of a grpc stream.

    with timeouts.limit(seconds, call.cancel) as limit:
        message = next(call)
    # limit.has_expired: the call was cancelled because the time was over

One thread serves all waits of a client. It starts at the first wait, and ends when the client is closed.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Limit:
    """The time limit of one wait."""

    __slots__ = ("_on_expiry", "has_expired", "is_over")

    def __init__(self, on_expiry: Callable[[], object]) -> None:
        self._on_expiry = on_expiry
        # Guarded by the condition of Timeouts:
        self.has_expired = False
        self.is_over = False

    def expire(self) -> None:
        """Calls `on_expiry`, unless the wait is over."""
        if not self.is_over:
            self.has_expired = True
            self._on_expiry()


class Timeouts:
    """The time limits of a client's waits. Thread-safe. Its daemon thread sleeps without limits, until `close`."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._count = itertools.count()
        # Guarded by self._condition:
        self._limits: list[tuple[float, int, Limit]] = []  # a heap
        self._over_count = 0  # how many of them belong to waits that are over
        self._thread: threading.Thread | None = None
        self._is_closed = False

    @contextmanager
    def limit(self, seconds: float, on_expiry: Callable[[], object]) -> Iterator[Limit]:
        """Calls `on_expiry` once, in the daemon thread, if the block takes longer. `on_expiry` must not block."""
        limit = Limit(on_expiry)
        entry = (time.monotonic() + seconds, next(self._count), limit)
        with self._condition:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="rowlock timeouts", daemon=True)
                thread.start()  # Raises at the limit of threads; then the next wait tries again.
                self._thread = thread
            heapq.heappush(self._limits, entry)
            if self._limits[0] is entry:
                self._condition.notify()
        try:
            yield limit
        finally:
            with self._condition:
                limit.is_over = True
                if not limit.has_expired:
                    self._over_count += 1
                    # Most waits end long before their limits. Their entries are removed together when they are more
                    # than half of the heap: a constant cost per wait, wherever its entry is.
                    if 2 * self._over_count > len(self._limits):
                        self._limits = [entry for entry in self._limits if not entry[2].is_over]
                        heapq.heapify(self._limits)
                        self._over_count = 0
                if self._is_closed:
                    self._condition.notify()

    def close(self) -> None:
        """Ends the thread, but not before the waits are over. Does not block."""
        with self._condition:
            self._is_closed = True
            self._condition.notify()

    def __len__(self) -> int:
        """How many limits are in memory: at most two for each wait that is not over."""
        return len(self._limits)

    def _run(self) -> None:
        with self._condition:
            while not (self._is_closed and self._over_count == len(self._limits)):
                if not self._limits:
                    self._condition.wait()
                    continue
                moment, _, limit = self._limits[0]
                remaining = moment - time.monotonic()
                if remaining > 0:
                    self._condition.wait(remaining)
                    continue
                heapq.heappop(self._limits)
                if limit.is_over:
                    self._over_count -= 1
                limit.expire()
            self._thread = None
