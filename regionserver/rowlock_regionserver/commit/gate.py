"""The gate: a region's shared/exclusive lock.

Row operations pass it shared, from LOCK to APPLY. Flush switch, alter, bulk commit, split and close take it
exclusively, for moments. Whoever holds it exclusively knows that no write is between taking its write number and
being applied. A waiting exclusive holder keeps newcomers out, so it waits only for those already inside. When it
leaves, those who were kept out until then go first, and the next exclusive holder after them: each kind waits for one
turn of the other, however many come. (Without that, loaders whose batches overlapped held up single puts for seconds.)

Entering a closed gate, or waiting for it, raises NotServingRegionError. So a caller that found the region serving a
moment ago can't write to it after it was dropped.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.errors import DeadlineError, NotServingRegionError


@dataclass(frozen=True, slots=True)
class GateStatistics:
    """Who waits now."""

    shared_waiting: int
    exclusive_waiting: int


class Gate:
    """Thread-safe; not reentrant."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        # Guarded by self._lock:
        self._shared = 0
        self._is_exclusive = False  # True for good once it is closed, so that entering looks at one thing only
        self._exclusive_waiting = 0
        self._shared_waiting = 0
        self._turn = 0  # how often it was held alone
        self._let_in = 0  # who waited until the last turn ended, and has not come in yet
        self._is_closed = False

    def try_enter(self) -> bool:
        """Enters shared, unless that would have to wait. NotServingRegionError once it is closed."""
        with self._lock:
            if self._is_exclusive or self._exclusive_waiting:
                self._check_open()
                return False
            self._shared += 1
            return True

    def enter(self, deadline: float) -> None:
        """Enters shared, waiting until `deadline` on the monotonic clock; else DeadlineError.

        NotServingRegionError once it is closed.
        """
        with self._lock:
            if self._is_exclusive or self._exclusive_waiting:
                self._wait_for_turn(deadline)
            self._shared += 1

    def _wait_for_turn(self, deadline: float) -> None:
        """Waits until nobody holds or wants the gate alone, or until who holds it leaves. The caller holds the lock."""
        turn = self._turn
        self._shared_waiting += 1
        try:
            while self._is_exclusive or (self._exclusive_waiting and self._turn == turn):
                self._wait(deadline)
        except BaseException:
            self._changed.notify_all()  # Somebody may wait for this one to come in.
            raise
        finally:
            if self._turn == turn:
                self._shared_waiting -= 1
            else:
                self._let_in -= 1

    def leave(self) -> None:
        """Ends a shared stay."""
        with self._lock:
            assert self._shared > 0, self._shared
            self._shared -= 1
            if not self._shared and self._exclusive_waiting:
                self._changed.notify_all()

    @contextlib.contextmanager
    def exclusive(self, deadline: float | None = None) -> Iterator[None]:
        """Holds the gate alone; see `enter_alone`."""
        self.enter_alone(deadline)
        try:
            yield
        finally:
            self.leave_alone()

    def enter_alone(self, deadline: float | None = None) -> None:
        """Takes the gate alone. Waits for those inside, who never wait for anything but row locks.

        DeadlineError when that takes longer than until `deadline`; NotServingRegionError once it is closed.
        """
        with self._lock:
            self._exclusive_waiting += 1
            try:
                while self._is_exclusive or self._shared or self._let_in:
                    self._wait(deadline)
            except BaseException:
                self._exclusive_waiting -= 1
                self._changed.notify_all()
                raise
            self._exclusive_waiting -= 1
            self._is_exclusive = True

    def leave_alone(self) -> None:
        """Ends what `enter_alone` began."""
        with self._lock:
            assert self._is_exclusive
            self._is_exclusive = self._is_closed
            self._turn += 1
            self._let_in, self._shared_waiting = self._shared_waiting, 0
            self._changed.notify_all()

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
                self._is_closed = self._is_exclusive = False
                self._changed.notify_all()
            raise

    def statistics(self) -> GateStatistics:
        with self._lock:
            return GateStatistics(self._shared_waiting, self._exclusive_waiting)

    def _wait(self, deadline: float | None) -> None:
        """Waits for a change. The caller holds self._lock, and looks again."""
        self._check_open()
        if not self._changed.wait(None if deadline is None else deadline - self._clock.monotonic()):
            raise DeadlineError("gave up waiting for the region's gate, which others hold; try again")

    def _check_open(self) -> None:
        if self._is_closed:
            raise NotServingRegionError("the region was closed a moment ago; look it up again")
