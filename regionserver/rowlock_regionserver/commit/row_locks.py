"""Row locks: one writer a row, first come first served, never held for a client between calls.

A writer takes the locks of all its rows in ascending order of row, so that there is no deadlock. A released lock passes
directly to the writer that waits longest: a new writer can't overtake it. An uncontended lock costs two dictionary
operations.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from rowlock_proto.shown_names import row_text

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.commit.wait_queue import WaitQueue, seconds_text
from rowlock_regionserver.errors import DeadlineError


@dataclass(frozen=True, slots=True)
class RowLockStatistics:
    """The locks that are held, and the writers that wait for one."""

    held: int
    waiting: int


class RowLocks:
    """The row locks of one region. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # Guarded by self._lock: the locked rows, each with the writers that wait for it; None: none has waited yet.
        self._queues: dict[bytes, WaitQueue | None] = {}

    def try_acquire(self, rows: Sequence[bytes]) -> bool:
        """Takes all the locks, or none if one of them is held. Rows ascend, without duplicates."""
        queues = self._queues
        with self._lock:
            for row in rows:
                if row in queues:
                    return False
            for row in rows:
                queues[row] = None
            return True

    def acquire(self, rows: Sequence[bytes], deadline: float) -> None:
        """Takes all the locks. Blocks, until `deadline` on the monotonic clock at most.

        Raises DeadlineError, with no lock taken. Rows ascend, without duplicates.
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
            if row not in self._queues:
                self._queues[row] = None
                return
            queue = self._queues[row]
            if queue is None:
                queue = self._queues[row] = WaitQueue(self._lock, self._clock)
            queue.wait(deadline, partial(_timed_out, row))

    def release(self, rows: Sequence[bytes]) -> None:
        """Releases the locks; each passes to the writer that waits longest for it."""
        with self._lock:
            for row in rows:
                queue = self._queues[row]
                if queue is None or not queue.hand_over():
                    del self._queues[row]

    def statistics(self) -> RowLockStatistics:
        with self._lock:
            return RowLockStatistics(len(self._queues), sum(len(queue) for queue in self._queues.values() if queue))


def _timed_out(row: bytes, seconds: float) -> DeadlineError:
    return DeadlineError(
        f"timed out after {seconds_text(seconds)} waiting for the lock of row {row_text(row)}: other writers held it; "
        "retry, or set a longer timeout",
        row=row,
    )
