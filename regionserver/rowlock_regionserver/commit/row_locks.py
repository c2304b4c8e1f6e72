"""Row locks: one writer a row, first come first served, never held for a client between calls.

A writer takes the locks of all its rows in ascending order of row, so that two writers never wait for each other
in a circle. A lock that is released with somebody waiting passes to the first of them directly: a newcomer can't
overtake. Uncontended, a lock costs two dictionary operations.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.errors import DeadlineError


@dataclass(frozen=True, slots=True)
class RowLockStatistics:
    """How many locks are held, and how many writers wait for one."""

    held: int
    waiting: int


class RowLocks:
    """The row locks of one region. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # Guarded by self._lock: a locked row, and who waits for it in order of arrival.
        self._queues: dict[bytes, deque[threading.Event]] = {}

    def try_acquire(self, rows: Sequence[bytes]) -> bool:
        """Takes all the locks, or none when one of them would have to be waited for. Rows ascend, no duplicates."""
        queues = self._queues
        with self._lock:
            for row in rows:
                if row in queues:
                    return False
            for row in rows:
                queues[row] = deque()
            return True

    def acquire(self, rows: Sequence[bytes], deadline: float) -> None:
        """Takes all the locks, waiting until `deadline` on the monotonic clock; else DeadlineError, with none taken.

        Rows ascend, no duplicates.
        """
        taken = 0
        try:
            for row in rows:
                self._acquire_one(row, deadline)
                taken += 1
        except BaseException:
            self.release(rows[:taken])
            raise

    def _acquire_one(self, row: bytes, deadline: float) -> None:
        with self._lock:
            queue = self._queues.get(row)
            if queue is None:
                self._queues[row] = deque()
                return
            granted = threading.Event()
            queue.append(granted)
        if granted.wait(max(0.0, deadline - self._clock.monotonic())):
            return
        with self._lock:
            if granted.is_set():
                return  # It was passed on to us in the last moment.
            self._queues[row].remove(granted)
        raise DeadlineError(
            f"gave up waiting for the lock of row {row!r}: other writers held it until the call's deadline; "
            "try again, or with a longer timeout",
            row=row,
        )

    def release(self, rows: Sequence[bytes]) -> None:
        """Gives the locks back; each passes to the first who waits for it."""
        with self._lock:
            for row in rows:
                queue = self._queues[row]
                if queue:
                    queue.popleft().set()
                else:
                    del self._queues[row]

    def statistics(self) -> RowLockStatistics:
        with self._lock:
            return RowLockStatistics(len(self._queues), sum(len(queue) for queue in self._queues.values()))
