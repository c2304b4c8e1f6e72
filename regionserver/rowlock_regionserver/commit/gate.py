"""The gate: a region's phase-fair shared/exclusive lock.

Row changes hold it shared, from LOCK to UNLOCK. A flush switch, a bulk batch, a row change of very many puts, a
snapshot, an alter and closing hold it exclusively, for moments; a split or a merge for some syncs of the disk. While a
thread holds it exclusively, no other write is between BEGIN and APPLY.

Shared and exclusive phases alternate (B. Brandenburg and J. Anderson, "Spin-based reader-writer synchronization for
multiprocessor real-time systems", Real-Time Systems 46, 2010; theirs spins, this one blocks):

1. A thread that wants the gate shared enters at once, unless another thread holds it exclusively or waits to.
2. An exclusive phase begins when the last thread of a shared phase leaves. It has one thread; these are served in order
   of arrival.
3. When it ends, a shared phase begins with all threads that wait for one, and only these if another thread waits for
   the gate exclusively.

So a thread that wants the gate shared waits for one exclusive phase at most, and the first thread that wants it
exclusively for one shared phase at most, however many threads arrive. (Without that, loaders whose batches overlapped
delayed single puts for seconds.)

A closed gate refuses all threads that arrive or wait, with NotServingRegionError. So a caller that found the region
serving a moment ago can't write to it after it was dropped, split or merged.
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
    """The threads that wait now."""

    shared_waiting: int
    exclusive_waiting: int


class Gate:
    """Thread-safe; not reentrant."""

    def __init__(self, region_id: int, clock: Clock) -> None:
        self._region_id = region_id
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._shared = 0  # threads that hold it shared
        self._is_exclusive = False
        self._is_closed = False
        # The gate is held exclusively, or a thread waits for that, or it is closed: a thread that arrives must wait.
        # One flag, so that entering makes one check only.
        self._is_barred = False
        self._shared_queue = WaitQueue(self._lock, clock)
        self._exclusive_queue = WaitQueue(self._lock, clock)

    def try_enter(self) -> bool:
        """Takes the gate shared if that needs no wait. Raises NotServingRegionError when the gate is closed."""
        with self._lock:
            if self._is_barred:
                self._check_open()
                return False
            self._shared += 1
            return True

    def enter(self, deadline: float) -> None:
        """Takes the gate shared. Blocks, until `deadline` on the monotonic clock at most.

        Raises DeadlineError, and NotServingRegionError when the gate is closed.
        """
        with self._lock:
            if not self._is_barred:
                self._shared += 1
            else:
                self._check_open()
                self._shared_queue.wait(deadline, self._timed_out)

    def leave(self) -> None:
        """Releases the gate that was taken by `try_enter` or `enter`."""
        with self._lock:
            assert self._shared > 0, self._shared
            self._shared -= 1
            if self._is_barred and not self._shared:
                self._is_exclusive = self._exclusive_queue.hand_over()

    @contextlib.contextmanager
    def shared(self, deadline: float) -> Iterator[None]:
        """Holds the gate shared; see `enter`."""
        self.enter(deadline)
        try:
            yield
        finally:
            self.leave()

    @contextlib.contextmanager
    def exclusive(self, deadline: float = math.inf) -> Iterator[None]:
        """Holds the gate exclusively; see `enter_exclusive`."""
        self.enter_exclusive(deadline)
        try:
            yield
        finally:
            self.leave_exclusive()

    def enter_exclusive(self, deadline: float = math.inf) -> None:
        """Takes the gate exclusively. Waits for the shared holders, which never wait for anything but row locks.

        Raises DeadlineError at `deadline`, and NotServingRegionError when the gate is closed.
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
                    self._begin_shared_phase()  # The waiting threads waited only for this one.
                raise

    def leave_exclusive(self) -> None:
        """Releases the gate that was taken by `enter_exclusive`."""
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
        """Hands the gate to all threads that wait for it shared. The caller holds the lock."""
        self._is_exclusive = False
        self._is_barred = bool(self._exclusive_queue)
        self._shared += self._shared_queue.hand_over_to_all()

    def close(self) -> None:
        """Waits for all holders, and refuses all later threads."""
        if not self._is_closed:
            with self.exclusive(), self._lock:
                self._is_closed = True

    def close_held(self) -> None:
        """Closes the gate that the caller holds exclusively. Waiting threads are refused when the caller leaves it."""
        with self._lock:
            assert self._is_exclusive
            self._is_closed = True

    @contextlib.contextmanager
    def closing(self) -> Iterator[None]:
        """Closes the gate, and opens it again if the block raises."""
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
        holders = (
            "a flush switch, bulk batch, large row change, snapshot or table change"
            if self._is_exclusive
            else "changes of rows"
        )
        return DeadlineError(
            f"timed out after {seconds_text(seconds)} waiting for region {self._region_id}: {holders} held it; retry"
        )
