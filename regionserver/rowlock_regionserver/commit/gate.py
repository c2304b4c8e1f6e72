"""The gate: a region's shared/exclusive lock, which is phase-fair.

Row changes hold it shared, from LOCK to APPLY. Flush switch, alter, bulk commit, snapshot and close hold it
exclusively, for moments. The thread that holds it exclusively knows that no write is between taking its write number
and being applied.

Shared and exclusive phases alternate (B. Brandenburg and J. Anderson, "Spin-based reader-writer synchronization for
multiprocessor real-time systems", Real-Time Systems 46, 2010; theirs spins, this one blocks):

1. A thread that wants the gate shared enters at once, unless another thread holds it exclusively or waits to.
2. An exclusive phase begins when the last thread of a shared phase leaves. It has one thread; these are served in order
   of arrival.
3. When it ends, a shared phase begins with all threads that wait for one, and only these if another thread waits for
   the gate exclusively.

So each side waits for one phase of the other at most, however many threads come. (Without that, loaders whose batches
overlapped held up single puts for seconds.)

A closed gate refuses all threads that come or wait, with NotServingRegionError. So a caller that found the region
serving a moment ago can't write to it after it was dropped.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.commit.wait_queue import WaitQueue, seconds_text
from rowlock_regionserver.errors import DeadlineError, NotServingRegionError


@dataclass(frozen=True, slots=True)
class GateStatistics:
    """How many threads wait now."""

    shared_waiting: int
    exclusive_waiting: int


class Gate:
    """Thread-safe; not reentrant."""

    def __init__(self, region_id: int, clock: Clock) -> None:
        self._region_id = region_id
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._shared = 0  # threads inside
        self._is_exclusive = False
        self._is_closed = False
        # Newcomers must wait: it is held exclusively, a thread waits for that, or it is closed. In one value, so that
        # entering looks at one thing only.
        self._is_barred = False
        self._shared_queue = WaitQueue(self._lock, clock)
        self._exclusive_queue = WaitQueue(self._lock, clock)

    def try_enter(self) -> bool:
        """Enters shared, unless that would have to wait. NotServingRegionError once it is closed."""
        with self._lock:
            if self._is_barred:
                self._check_open()
                return False
            self._shared += 1
            return True

    def enter(self, deadline: float) -> None:
        """Enters shared, waiting until `deadline` on the monotonic clock; else DeadlineError.

        NotServingRegionError once it is closed.
        """
        with self._lock:
            if not self._is_barred:
                self._shared += 1
            else:
                self._check_open()
                self._shared_queue.wait(deadline, self._timed_out)

    def leave(self) -> None:
        """Ends a shared stay."""
        with self._lock:
            assert self._shared > 0, self._shared
            self._shared -= 1
            if self._is_barred and not self._shared:
                self._is_exclusive = self._exclusive_queue.hand_over()

    @contextlib.contextmanager
    def exclusive(self, deadline: float = math.inf) -> Iterator[None]:
        """Holds the gate alone; see `enter_alone`."""
        self.enter_alone(deadline)
        try:
            yield
        finally:
            self.leave_alone()

    def enter_alone(self, deadline: float = math.inf) -> None:
        """Takes the gate alone. Waits for those inside, which never wait for anything but row locks.

        DeadlineError when that takes longer than until `deadline`; NotServingRegionError once it is closed.
        """
        with self._lock:
            if not self._is_barred and not self._shared:
                self._is_barred = self._is_exclusive = True
                return
            self._check_open()
            self._is_barred = True
            try:
                self._exclusive_queue.wait(deadline, self._timed_out)
            except BaseException:
                if not (self._is_exclusive or self._is_closed or self._exclusive_queue):
                    self._begin_shared_phase()  # They waited only for this thread.
                raise

    def leave_alone(self) -> None:
        """Ends what `enter_alone` began."""
        with self._lock:
            assert self._is_exclusive
            if self._is_closed:
                self._is_exclusive = False
                self._shared_queue.refuse_all(self._closed)
                self._exclusive_queue.refuse_all(self._closed)
            elif self._shared_queue:
                self._begin_shared_phase()
            else:
                self._is_exclusive = self._is_barred = self._exclusive_queue.hand_over()

    def _begin_shared_phase(self) -> None:
        """The threads that wait to enter are inside from now on. The caller holds the lock."""
        self._is_exclusive = False
        self._is_barred = bool(self._exclusive_queue)
        self._shared += self._shared_queue.hand_over_to_all()

    def close(self) -> None:
        """Waits for those inside, and lets nobody in any more."""
        if not self._is_closed:
            with self.exclusive(), self._lock:
                self._is_closed = True

    @contextlib.contextmanager
    def closing(self) -> Iterator[None]:
        """Closes the gate; opens it again if the block fails."""
        self.close()
        try:
            yield
        except BaseException:
            with self._lock:
                self._is_closed = self._is_barred = False
            raise

    def statistics(self) -> GateStatistics:
        with self._lock:
            return GateStatistics(len(self._shared_queue), len(self._exclusive_queue))

    def _check_open(self) -> None:
        if self._is_closed:
            raise self._closed()

    def _closed(self) -> NotServingRegionError:
        return NotServingRegionError(f"region {self._region_id} was closed a moment ago; look it up again")

    def _timed_out(self, seconds: float) -> DeadlineError:
        holders = "a flush switch, bulk batch, snapshot or table change" if self._is_exclusive else "changes of rows"
        return DeadlineError(
            f"timed out after {seconds_text(seconds)} waiting for region {self._region_id}: {holders} held it; retry"
        )
