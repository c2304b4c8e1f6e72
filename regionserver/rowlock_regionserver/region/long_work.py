"""Long work beside short requests: bulk batches and what a flush reads and writes take turns then, with pauses.

A get or put is some hundred microseconds of computing in six threads on either side, each of which waits behind
whatever computes on its core, and for the interpreter. So as long as there are gets and puts, only as much long work
runs at once as leaves one core to others, and after each piece nobody has the turn for as long as the piece took. A
flush makes no pauses while memory is scarce. Without requests, long work runs as if this module were not there.

Turns beside requests are permits (permits.py), given in order of arrival. No turn is kept while a sync or a gate is
waited for: one of them that hangs would hold up the flushes of all regions.

    with long_work.turn() as turn:
        for piece in work:
            piece()
            turn.give_way()
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator
from types import TracebackType

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.process import GIVE_WAY_SECONDS
from rowlock_regionserver.region.memory import MemoryGauge
from rowlock_regionserver.region.permits import Permits

# Requests that are further apart are spared nothing: long work runs as if there were none.
_BESIDE_REQUESTS_SECONDS = 0.1
_PAUSE_SECONDS_MAX = 0.1


def turn_count_of_this_machine() -> int:
    """How many may have a turn at once: one core fewer than there are."""
    return max(1, (os.cpu_count() or 1) - 1)


class LongWork:
    """One a server. Thread-safe."""

    def __init__(
        self,
        pause_percent: int,
        memory: MemoryGauge,
        clock: Clock,
        turn_count: int,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`pause_percent`: how long it pauses beside requests, of the time that it worked; 0: never."""
        self.pause_share = pause_percent / 100
        self.memory = memory
        self.clock = clock
        self.permits = Permits(turn_count, clock)  # a turn beside requests has one
        self.begun_count = 0  # turns that were waited for; changed by who has one, and about right if several do
        self.sleep = sleep
        self.requested_at = -math.inf

    def meet_request(self) -> None:
        """A get or a put has come."""
        self.requested_at = self.clock.monotonic()

    def is_beside_requests(self) -> bool:
        """There are requests to give way to."""
        return self.pause_share > 0 and self.clock.monotonic() - self.requested_at <= _BESIDE_REQUESTS_SECONDS

    def turn(self, *, frees_memory: bool = False, deadline: float = math.inf) -> Turn:
        """A context: entering it may wait for a turn. Not to be entered by who holds a gate, nor held to wait for one.

        `frees_memory`: no pauses are made while memory is scarce. `deadline`: on the monotonic clock; entering it, and
        leaving `set_down`, raise DeadlineError when no turn came until then.
        """
        return Turn(self, frees_memory, deadline)


class Turn:
    """One piece of long work, or several with `give_way` between them. Used by one thread."""

    def __init__(self, long_work: LongWork, frees_memory: bool, deadline: float) -> None:
        self._long_work = long_work
        self._frees_memory = frees_memory
        self._deadline = deadline
        self._is_held = False
        self._begun = 0.0
        self._worked = 0.0  # before that, and without a pause for it since

    def __enter__(self) -> Turn:
        self._begin(self._deadline)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def give_way(self) -> None:
        """Lets whoever waits have the interpreter, the core, or the turn."""
        self._end()
        self._long_work.sleep(GIVE_WAY_SECONDS)
        self._begin()

    @contextlib.contextmanager
    def set_down(self) -> Iterator[None]:
        """Others may have the turn while this one waits for a disk. If none had, the wait counts as a pause."""
        long_work = self._long_work
        since = long_work.clock.monotonic()
        self._worked += since - self._begun
        begun_count = long_work.begun_count
        self._let_go()
        try:
            yield
        finally:
            self._begun = long_work.clock.monotonic()
            if long_work.begun_count == begun_count:
                self._worked = max(0.0, self._worked - (self._begun - since))
        self._begin(self._deadline)  # Not after an error, which must get on.

    def _begin(self, deadline: float = math.inf) -> None:
        long_work = self._long_work
        if long_work.is_beside_requests():
            long_work.permits.acquire(deadline)
            self._is_held = True
            long_work.begun_count += 1
        self._begun = long_work.clock.monotonic()

    def _end(self) -> None:
        """Gives the turn back, after a pause in which nobody has it."""
        long_work = self._long_work
        worked, self._worked = self._worked + long_work.clock.monotonic() - self._begun, 0.0
        is_urgent = self._frees_memory and long_work.memory.is_under_pressure
        if long_work.is_beside_requests() and not is_urgent:
            long_work.sleep(min(worked * long_work.pause_share, _PAUSE_SECONDS_MAX))
        self._let_go()

    def _let_go(self) -> None:
        if self._is_held:
            self._is_held = False
            self._long_work.permits.release()
