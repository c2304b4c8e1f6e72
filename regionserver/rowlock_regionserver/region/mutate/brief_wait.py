"""A brief wait: a lone caller's thread stays for its outcome for some milliseconds, and then goes without it.

    wait = BriefWait(done)
    begin(wait.told)        # `told` comes once, from any thread, perhaps before this returns
    wait.end()              # `done` was called in this thread, or will be in the one that tells

A caller that is served alone pays for being woken by its event loop as much as for the sync itself. So it waits for the
log's thread directly, but never for longer than WAIT_SECONDS: a disk that hangs must not hold up whoever comes next.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Outcome = TypeVar("Outcome")

# A few quick syncs: long enough for nearly each one, and short enough for everybody else.
WAIT_SECONDS = 0.005


class BriefWait(Generic[Outcome]):
    """For one outcome. `told` is called once, from any thread; `end` once, by the thread that waits."""

    __slots__ = ("_came", "_done", "_is_over", "_lock", "_outcomes")

    def __init__(self, done: Callable[[Outcome], None]) -> None:
        self._done = done
        self._came = threading.Lock()
        self._came.acquire()
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._outcomes: list[Outcome] = []
        self._is_over = False

    def told(self, outcome: Outcome) -> None:
        """Takes the outcome to the thread that waits; when that has gone, `done` is called here."""
        with self._lock:
            if not self._is_over:
                self._outcomes.append(outcome)
                self._came.release()
                return
        self._done(outcome)

    def end(self) -> None:
        """Blocks until the outcome came, or for WAIT_SECONDS."""
        self._came.acquire(timeout=WAIT_SECONDS)
        with self._lock:
            self._is_over = True
        for outcome in self._outcomes:
            self._done(outcome)
