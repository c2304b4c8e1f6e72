"""A watch over waits that can't keep a deadline themselves: reading the next message of a grpc stream blocks for ever.

    with watch.limit(seconds, call.cancel) as limit:
        message = next(call)
    # limit.has_struck: the call was cancelled because the time was over

One thread for all waits of a client, started at the first.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Limit:
    """One wait under watch."""

    __slots__ = ("_strike", "has_struck", "is_over")

    def __init__(self, strike: Callable[[], object]) -> None:
        self._strike = strike
        # Guarded by the watch's condition:
        self.has_struck = False
        self.is_over = False

    def strike(self) -> None:
        if not self.is_over:
            self.has_struck = True
            self._strike()


class Watch:
    """Thread-safe. Its thread never ends by itself; it is a daemon and sleeps while nothing is watched."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._count = itertools.count()
        # Guarded by self._condition:
        self._limits: list[tuple[float, int, Limit]] = []  # a heap
        self._over_count = 0  # of them, those whose wait is over
        self._thread: threading.Thread | None = None

    @contextmanager
    def limit(self, seconds: float, strike: Callable[[], object]) -> Iterator[Limit]:
        """Calls `strike` once from the watch's thread if the block takes longer. `strike` must not block."""
        limit = Limit(strike)
        entry = (time.monotonic() + seconds, next(self._count), limit)
        with self._condition:
            heapq.heappush(self._limits, entry)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="rowlock watch", daemon=True)
                self._thread.start()
            elif self._limits[0] is entry:
                self._condition.notify()
        try:
            yield limit
        finally:
            with self._condition:
                limit.is_over = True
                if not limit.has_struck:
                    self._over_count += 1
                    # Waits end long before their limits as a rule. What is over is removed together, once it is more
                    # than half: a constant cost for each wait, wherever in the heap it stands.
                    if 2 * self._over_count > len(self._limits):
                        self._limits = [entry for entry in self._limits if not entry[2].is_over]
                        heapq.heapify(self._limits)
                        self._over_count = 0

    def __len__(self) -> int:
        """How many limits it keeps: at most two for each wait that is not over."""
        return len(self._limits)

    def _run(self) -> None:
        with self._condition:
            while True:
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
                limit.strike()
