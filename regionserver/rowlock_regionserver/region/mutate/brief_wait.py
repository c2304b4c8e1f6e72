"""A brief wait: the event loop's thread waits for one outcome, but for a few milliseconds at most.

    wait = BriefWait(done)
    begin(wait.set_outcome)  # set_outcome is called once, from any thread, perhaps before this returns
    wait.end()               # done was called in this thread, or will be called by the thread that sets the outcome

For a single caller, waking the event loop costs as much as the sync itself. So the loop's thread waits for the log's
thread directly, but never for longer than WAIT_SECONDS: a disk that hangs must not delay the next caller.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Outcome = TypeVar("Outcome")

# The time of a few quick syncs: long enough for nearly every sync, and short enough for other callers.
WAIT_SECONDS = 0.005


class BriefWait(Generic[Outcome]):
    """Waits for one outcome. `set_outcome` is called once, from any thread; `end` once, by the thread that waits."""

    __slots__ = ("_arrived", "_done", "_has_ended", "_lock", "_outcomes")

    def __init__(self, done: Callable[[Outcome], None]) -> None:
        self._done = done
        self._arrived = threading.Lock()
        self._arrived.acquire()
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._outcomes: list[Outcome] = []
        self._has_ended = False

    def set_outcome(self, outcome: Outcome) -> None:
        """Hands the outcome to the waiting thread; calls `done` here if that thread no longer waits."""
        with self._lock:
            if not self._has_ended:
                self._outcomes.append(outcome)
                self._arrived.release()
                return
        self._done(outcome)

    def end(self) -> None:
        """Blocks until the outcome arrives, for WAIT_SECONDS at most."""
        self._arrived.acquire(timeout=WAIT_SECONDS)
        with self._lock:
            self._has_ended = True
        for outcome in self._outcomes:
            self._done(outcome)
