"""Long work beside short requests: bulk batches and what a flush reads and writes take turns then, with pauses.

A get or put is some hundred microseconds of computing in six threads on either side, each of which waits behind
whatever computes on its core, and for the interpreter. So as long as there are gets and puts, only as much long work
runs at once as leaves one core to others, and after each piece nobody has the turn for as long as the piece took,
unless memory gets scarce. Without them, long work runs as if this module were not there.

    with long_work.turn() as turn:
        for piece in work:
            piece()
            turn.give_way()
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.process import GIVE_WAY_SECONDS
from rowlock_regionserver.region.memory import MemoryGauge

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
        self.turns = threading.Semaphore(turn_count)
        self.sleep = sleep
        self.requested_at = -math.inf

    def meet_request(self) -> None:
        """A get or a put has come."""
        self.requested_at = self.clock.monotonic()

    def is_to_pause(self) -> bool:
        """There are requests to pause for, and memory for what comes meanwhile."""
        is_beside_requests = self.clock.monotonic() - self.requested_at <= _BESIDE_REQUESTS_SECONDS
        return is_beside_requests and self.pause_share > 0 and not self.memory.is_under_pressure

    def turn(self) -> Turn:
        """A context: entering it may wait for a turn. Not to be entered by who holds a gate."""
        return Turn(self)


class Turn:
    """One piece of long work, or several with `give_way` between them. Used by one thread."""

    def __init__(self, long_work: LongWork) -> None:
        self._long_work = long_work
        self._is_held = False
        self._begun = 0.0
        self._worked = 0.0  # before that, and without a pause for it since

    def __enter__(self) -> Turn:
        self._begin()
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
        """Waiting for a disk counts as a pause."""
        clock = self._long_work.clock
        since = clock.monotonic()
        self._worked += since - self._begun
        try:
            yield
        finally:
            self._begun = clock.monotonic()
            self._worked = max(0.0, self._worked - (self._begun - since))

    def _begin(self) -> None:
        long_work = self._long_work
        if long_work.is_to_pause():
            long_work.turns.acquire()
            self._is_held = True
        self._begun = long_work.clock.monotonic()

    def _end(self) -> None:
        """Gives the turn back, after a pause in which nobody has it."""
        long_work = self._long_work
        worked, self._worked = self._worked + long_work.clock.monotonic() - self._begun, 0.0
        if long_work.is_to_pause():
            long_work.sleep(min(worked * long_work.pause_share, _PAUSE_SECONDS_MAX))
        if self._is_held:
            self._is_held = False
            long_work.turns.release()
