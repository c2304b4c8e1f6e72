"""Completions: passes callbacks from other threads to the event loop, many with one wake-up.

Waking a loop costs a system call on either side, and a group commit finishes many requests of many streams at once.
So all callbacks go into one deque, and the loop is woken only when it is not about to drain it anyway.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable

logger = logging.getLogger(__name__)


class Completions:
    """Runs callbacks on the event loop, in the order in which they were posted."""

    def __init__(self, loop: asyncio.AbstractEventLoop, expected_count: Callable[[], int]) -> None:
        self._loop = loop
        self._expected_count = expected_count
        self._posted: deque[Callable[[], None]] = deque()
        self._is_scheduled = False
        # Used on the loop: what to do when all posted callbacks have run; None: none runs now.
        self._afterwards: list[Callable[[], None]] | None = None

    def post(self, callback: Callable[[], None]) -> None:
        """Runs the callback on the loop, soon. From any thread; never blocks. Does nothing when the loop is closed."""
        # No lock: the loop clears the flag before it drains, so a thread that finds it set is in time for that drain.
        self._posted.append(callback)
        if not self._is_scheduled:
            self._is_scheduled = True
            with contextlib.suppress(RuntimeError):  # The loop is closed.
                self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        if len(self._posted) >= self._expected_count():
            self._drain()
            return
        # The posting thread lost the interpreter while it woke the loop. One more iteration of the loop lets it
        # continue first, so that all completions of its group commit are drained together. (If one callback is for many
        # requests, the delay does not matter.)
        self._loop.call_soon(self._drain)

    def soon(self, callback: Callable[[], None]) -> None:
        """Runs the callback soon; on the loop. While posted callbacks run: when all of them have run.

        So a connection sends in one go what they answer, without another iteration of the loop.
        """
        if self._afterwards is None:
            self._loop.call_soon(callback)
        else:
            self._afterwards.append(callback)

    def _drain(self) -> None:
        self._is_scheduled = False
        afterwards: list[Callable[[], None]] = []
        self._afterwards = afterwards
        _run_all(self._posted)
        self._afterwards = None
        _run_all(deque(afterwards))


def _run_all(callbacks: deque[Callable[[], None]]) -> None:
    while callbacks:
        try:
            callbacks.popleft()()
        except Exception:
            # A bug in one answer must not stop the answers after it.
            logger.exception("unexpected error while answering")
