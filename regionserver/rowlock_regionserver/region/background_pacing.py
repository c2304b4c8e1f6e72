"""Background pacing: bulk batches, flushes and compactions have limited concurrency and pause while requests come.

A get or put takes some hundred microseconds of computing in six threads on either side. Each of them waits for a core,
and for the interpreter lock. So while requests are active, background work runs in at most one thread fewer than there
are cores, and after each piece it pauses, still holding its permit, in proportion to the time that the piece took. A
flush does not pause while memory is scarce. Without active requests, background work runs at full speed.

Flushes and compactions pause for three times as long as they worked, unless other background work waits for the
permit, and also within their pieces, at each `yield_now` of their thread: every few milliseconds. Otherwise requests
would queue up during a piece, and the queue would not be gone before the next one.

A bulk batch pauses, for as long as it worked, between the pieces of its steps before the gate: after each column that
it sorts, say. It does not pause beyond its deadline, nor after it has the gate. A spill pauses as long, after each
block that it writes.

These are the shortest pauses. While the event loop is busy, a pause lasts until the loop has been idle for that time
since the last pause. So background work takes a part of the time that requests leave, and when requests queue up it
waits until the queue is empty. If the loop is never idle, a pause is four times as long as the work. It is six times as
long for a flush, because somebody may wait for it, and twenty times for a compaction, unless many files wait for it.

While requests are active, background work needs a permit (fair_semaphore.py); permits are granted in order of arrival.
A permit is released while its holder waits for a sync, and none is held while waiting for a gate: a disk or gate that
hangs would otherwise block the flushes of all regions.

    with pacing.permit(FLUSH) as permit:
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
from dataclasses import dataclass
from types import TracebackType

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.process import YIELD_SECONDS, set_pause
from rowlock_regionserver.region.fair_semaphore import FairSemaphore
from rowlock_regionserver.region.memory import MemoryGauge

# With a longer gap between requests, background work runs at full speed.
_ACTIVE_REQUEST_SECONDS = 0.1
_PAUSE_SECONDS_MAX = 0.1
_BUSY_PAUSE_SECONDS_MAX = 0.5
# The shortest sleep within a longer pause.
_SLEEP_SECONDS_MIN = 0.0005
# A shorter piece of a bulk batch is followed by the next one without a pause.
_PIECE_SECONDS_MIN = 0.001


@dataclass(frozen=True, slots=True)
class Pace:
    """How one kind of background work pauses.

    shortest, longest: of a pause, as multiples of the work before it; the longest is for a busy event loop.
    within_pieces: pauses at each `yield_now` of its thread, too. frees_memory: does not pause while memory is scarce.
    """

    shortest: int
    longest: int
    within_pieces: bool = False
    frees_memory: bool = False


# Of bulk batches. All work pauses so while other work waits for its permit.
BATCH = Pace(1, 4)
# Of spills: a batch waits for each.
SPILL = Pace(1, 4, within_pieces=True)
FLUSH = Pace(3, 6, within_pieces=True, frees_memory=True)
COMPACTION = Pace(3, 20, within_pieces=True)
# Of a compaction for which many files wait.
COMPACTION_BEHIND = Pace(3, 3, within_pieces=True)


def permits_of_this_machine() -> int:
    """Returns the number of permits: one fewer than there are cores, but at least one."""
    return max(1, (os.cpu_count() or 1) - 1)


class BackgroundPacing:
    """The pacing of all background work of a server. Thread-safe."""

    def __init__(
        self,
        pause_percent: int,
        memory: MemoryGauge,
        clock: Clock,
        permit_count: int,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`pause_percent`: the pause while requests are active, in percent of the time worked; 0: never pauses."""
        self.pause_share = pause_percent / 100
        self.memory = memory
        self.clock = clock
        self.permits = FairSemaphore(permit_count, clock)
        self.acquired_count = 0  # permits acquired; written by their holders without a lock, so only roughly right
        self.sleep = sleep
        self.requested_at = -math.inf
        # Returns how long the event loop has waited for files, in seconds. Without a loop, all the time.
        self.idle_seconds: Callable[[], float] = clock.monotonic
        self._sync_seconds = 0.0  # for which the event loop has waited for syncs; written by its thread

    def note_request(self) -> None:
        """Records that a get or a put has arrived."""
        self.requested_at = self.clock.monotonic()

    def note_sync_wait(self, seconds: float) -> None:
        """Records that the event loop has waited this long for a sync: it was idle."""
        self._sync_seconds += seconds

    def idle(self) -> float:
        """Returns how long the event loop has been idle, in seconds. From any thread."""
        return self.idle_seconds() + self._sync_seconds

    def has_active_requests(self) -> bool:
        """Whether a request arrived recently, so that background work must be paced."""
        return self.pause_share > 0 and self.clock.monotonic() - self.requested_at <= _ACTIVE_REQUEST_SECONDS

    def permit(self, pace: Pace, deadline: float = math.inf) -> Permit:
        """Returns a context for background work. Entering it may wait for a permit.

        The caller must not hold a gate when it enters, nor wait for one inside. `deadline`: on the monotonic clock;
        entering, and leaving `released`, raise DeadlineError if no permit was free until then.
        """
        return Permit(self, pace, deadline)


class Permit:
    """A context for pieces of background work, with `yield_now` between them. Used by one thread.

    Holds a permit of the semaphore only if requests were active when the piece began.
    """

    def __init__(self, pacing: BackgroundPacing, pace: Pace, deadline: float) -> None:
        self._pacing = pacing
        self._pace = pace
        self._deadline = deadline
        self._is_held = False
        self._begun = 0.0
        self._worked = 0.0  # seconds of work before that, for which it has not paused yet
        self._idle_before = 0.0  # seconds for which the event loop was idle up to then, or up to the last pause

    def __enter__(self) -> Permit:
        self._begin(self._deadline)
        if self._pace.within_pieces:
            set_pause(self._pause_within)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._pace.within_pieces:
            set_pause(None)
        self._end()

    def yield_now(self) -> None:
        """Pauses, releases the permit, yields the interpreter and the core to other threads, and begins again."""
        self._end()
        self._pacing.sleep(YIELD_SECONDS)
        self._begin()

    def pause(self) -> None:
        """Pauses for the work since the last pause, unless it is short, and keeps the permit.

        Unlike `yield_now` it takes no time without active requests.
        """
        if self._worked + self._pacing.clock.monotonic() - self._begun >= _PIECE_SECONDS_MIN:
            self._pause()
            self._begun = self._pacing.clock.monotonic()

    @contextlib.contextmanager
    def released(self) -> Iterator[None]:
        """Releases the permit while the caller waits for a disk.

        If no other work acquired a permit meanwhile, the wait counts as a pause.
        """
        pacing = self._pacing
        since = pacing.clock.monotonic()
        self._worked += since - self._begun
        acquired_count = pacing.acquired_count
        self._release()
        try:
            yield
        finally:
            self._begun = pacing.clock.monotonic()
            if pacing.acquired_count == acquired_count:
                self._worked = max(0.0, self._worked - (self._begun - since))
        self._begin(self._deadline)  # Not after an error, which must not wait.

    def _begin(self, deadline: float = math.inf) -> None:
        pacing = self._pacing
        if pacing.has_active_requests():
            pacing.permits.acquire(deadline)
            self._is_held = True
            pacing.acquired_count += 1
        self._begun = pacing.clock.monotonic()
        self._idle_before = pacing.idle()

    def _end(self) -> None:
        self._pause()
        self._release()

    def _pause_within(self) -> None:
        """Pauses within a piece, and yields the interpreter."""
        self._pause()
        self._pacing.sleep(YIELD_SECONDS)
        self._begun = self._pacing.clock.monotonic()

    def _pause(self) -> None:
        """Pauses for the work since the last pause, while it still holds the permit, so that no other work runs."""
        pacing = self._pacing
        worked, self._worked = self._worked + pacing.clock.monotonic() - self._begun, 0.0
        if pacing.has_active_requests() and not self._is_urgent():
            self._sleep(worked * pacing.pause_share)
        self._idle_before = pacing.idle()

    def _sleep(self, pause: float) -> None:
        """Sleeps for a multiple of `pause`, in seconds, and then until the event loop has been idle for that time.

        The loop's idle time since the last pause counts. The sleep ends early if the work becomes urgent, and is
        shorter while other work waits for the permit.
        """
        pacing = self._pacing
        seconds_left = max(0.0, self._deadline - pacing.clock.monotonic())
        slept = min(self._current_pace().shortest * pause, _PAUSE_SECONDS_MAX, seconds_left)
        idle_until = self._idle_before + slept
        pacing.sleep(slept)
        while (lacking := idle_until - pacing.idle()) > 0 and not self._is_urgent():
            left = min(self._current_pace().longest * pause, _BUSY_PAUSE_SECONDS_MAX, seconds_left) - slept
            if left <= 0:
                return
            more = min(max(lacking, _SLEEP_SECONDS_MIN), left)
            pacing.sleep(more)
            slept += more

    def _is_urgent(self) -> bool:
        return self._pace.frees_memory and self._pacing.memory.is_under_pressure

    def _current_pace(self) -> Pace:
        return BATCH if self._pacing.permits.statistics().waiting else self._pace

    def _release(self) -> None:
        if self._is_held:
            self._is_held = False
            self._pacing.permits.release()
