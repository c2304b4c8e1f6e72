"""A queue of threads that wait for a lock: first come, first served, each with a deadline.

The owner of the queue has a mutex and the state of the lock. The queue only blocks and wakes threads:

    with mutex:
        if is_held:
            queue.wait(deadline, timed_out)     # Releases the mutex while it blocks.
        else:
            is_held = True
    ...
    with mutex:
        is_held = queue.hand_over()             # To the thread that waits longest: the lock stays held.

The thread that hands over also changes the owner's state for the thread that gets the lock. So no other thread can
overtake that one before it runs, and it need not check the state again.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.errors import DeadlineError, RegionServerError

# Makes the error for a thread that has waited this many seconds, until its deadline.
TimedOut = Callable[[float], DeadlineError]


class _Waiter:
    """One thread. `woken` is locked until the lock is handed to the thread, or the thread is refused."""

    __slots__ = ("refusal", "woken")

    def __init__(self) -> None:
        self.woken = threading.Lock()
        self.woken.acquire()
        self.refusal: RegionServerError | None = None


class WaitQueue:
    """Guarded by the owner's mutex: the caller of each method holds it."""

    __slots__ = ("_clock", "_mutex", "_waiters")

    def __init__(self, mutex: threading.Lock, clock: Clock) -> None:
        self._mutex = mutex
        self._clock = clock
        self._waiters: deque[_Waiter] = deque()

    def __len__(self) -> int:
        return len(self._waiters)

    def wait(self, deadline: float, timed_out: TimedOut) -> None:
        """Blocks until the lock is handed to the caller. `deadline`: on the monotonic clock; math.inf: none.

        Raises the error of `timed_out`, or that of `refuse_all`; then the caller is not in the queue and has no lock.
        """
        begun = self._clock.monotonic()
        waiter = _Waiter()
        self._waiters.append(waiter)
        self._mutex.release()
        try:
            waiter.woken.acquire(timeout=_timeout(deadline - begun))
        finally:
            self._mutex.acquire()
            is_waiting = waiter in self._waiters
            if is_waiting:
                self._waiters.remove(waiter)
        if is_waiting:
            raise timed_out(self._clock.monotonic() - begun)
        if waiter.refusal is not None:
            raise waiter.refusal

    def hand_over(self) -> bool:
        """Hands the lock to the thread that waits longest. Returns False if none waits."""
        if not self._waiters:
            return False
        self._waiters.popleft().woken.release()
        return True

    def hand_over_to_all(self) -> int:
        """Hands the lock to all threads that wait; returns their number."""
        count = len(self._waiters)
        while self.hand_over():
            pass
        return count

    def refuse_all(self, error: Callable[[], RegionServerError]) -> None:
        """Makes each thread that waits now raise an error of its own."""
        for waiter in self._waiters:
            waiter.refusal = error()
        self.hand_over_to_all()


def seconds_text(seconds: float) -> str:
    """Formats a duration for messages: `10 s`, `0.25 s`."""
    return f"{round(seconds, 2):g} s"


def _timeout(seconds: float) -> float:
    """The timeout for Lock.acquire; -1: none."""
    return -1 if seconds == math.inf else min(max(seconds, 0.0), threading.TIMEOUT_MAX)
