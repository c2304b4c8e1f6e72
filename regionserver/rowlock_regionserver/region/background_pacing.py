"""Long work beside short requests: bulk batches and what a flush reads and writes take turns then, with pauses.

A get or put is some hundred microseconds of computing in six threads on either side, each of which waits behind
whatever computes on its core, and for the interpreter. So as long as there are gets and puts, only as much long work
runs at once as leaves one core to others, and after each piece nobody has the turn for as long as the piece took. A
flush makes no pauses while memory is scarce. Without requests, long work runs as if this module were not there.

Turns beside requests are permits (permits.py), given in order of arrival. No turn is kept while a sync or a gate is
waited for: one of them that hangs would hold up the flushes of all regions.

    with pacing.permit() as permit:
        for piece in work:
            piece()
            permit.yield_now()
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator
from types import TracebackType

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.process import YIELD_SECONDS
from rowlock_regionserver.region.memory import MemoryGauge
from rowlock_regionserver.region.permits import Permits

# Requests that are further apart are spared nothing: long work runs as if there were none.
_ACTIVE_REQUEST_SECONDS = 0.1
_PAUSE_SECONDS_MAX = 0.1


def permits_of_this_machine() -> int:
    """How many may have a turn at once: one core fewer than there are."""
    return max(1, (os.cpu_count() or 1) - 1)


class BackgroundPacing:
    """One a server. Thread-safe."""

    def __init__(
        self,
        pause_percent: int,
        memory: MemoryGauge,
        clock: Clock,
        permit_count: int,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`pause_percent`: how long it pauses beside requests, of the time that it worked; 0: never."""
        self.pause_share = pause_percent / 100
        self.memory = memory
        self.clock = clock
        self.permits = Permits(permit_count, clock)  # a turn beside requests has one
        self.begun_count = 0  # turns that were waited for; changed by who has one, and about right if several do
        self.sleep = sleep
        self.requested_at = -math.inf

    def note_request(self) -> None:
        """A get or a put has come."""
        self.requested_at = self.clock.monotonic()

    def has_active_requests(self) -> bool:
        """There are requests to give way to."""
        return self.pause_share > 0 and self.clock.monotonic() - self.requested_at <= _ACTIVE_REQUEST_SECONDS

    def permit(self, *, frees_memory: bool = False, deadline: float = math.inf) -> Permit:
        """A context: entering it may wait for a turn. Not to be entered by who holds a gate, nor held to wait for one.

        `frees_memory`: no pauses are made while memory is scarce. `deadline`: on the monotonic clock; entering it, and
        leaving `released`, raise DeadlineError when no turn came until then.
        """
        return Permit(self, frees_memory, deadline)


class Permit:
    """One piece of long work, or several with `yield_now` between them. Used by one thread."""

    def __init__(self, pacing: BackgroundPacing, frees_memory: bool, deadline: float) -> None:
        self._pacing = pacing
        self._frees_memory = frees_memory
        self._deadline = deadline
        self._is_held = False
        self._begun = 0.0
        self._worked = 0.0  # before that, and without a pause for it since

    def __enter__(self) -> Permit:
        self._begin(self._deadline)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def yield_now(self) -> None:
        """Lets whoever waits have the interpreter, the core, or the turn."""
        self._end()
        self._pacing.sleep(YIELD_SECONDS)
        self._begin()

    @contextlib.contextmanager
    def released(self) -> Iterator[None]:
        """Others may have the turn while this one waits for a disk. If none had, the wait counts as a pause."""
        pacing = self._pacing
        since = pacing.clock.monotonic()
        self._worked += since - self._begun
        begun_count = pacing.begun_count
        self._release()
        try:
            yield
        finally:
            self._begun = pacing.clock.monotonic()
            if pacing.begun_count == begun_count:
                self._worked = max(0.0, self._worked - (self._begun - since))
        self._begin(self._deadline)  # Not after an error, which must get on.

    def _begin(self, deadline: float = math.inf) -> None:
        pacing = self._pacing
        if pacing.has_active_requests():
            pacing.permits.acquire(deadline)
            self._is_held = True
            pacing.begun_count += 1
        self._begun = pacing.clock.monotonic()

    def _end(self) -> None:
        """Gives the turn back, after a pause in which nobody has it."""
        pacing = self._pacing
        worked, self._worked = self._worked + pacing.clock.monotonic() - self._begun, 0.0
        is_urgent = self._frees_memory and pacing.memory.is_under_pressure
        if pacing.has_active_requests() and not is_urgent:
            pacing.sleep(min(worked * pacing.pause_share, _PAUSE_SECONDS_MAX))
        self._release()

    def _release(self) -> None:
        if self._is_held:
            self._is_held = False
            self._pacing.permits.release()
