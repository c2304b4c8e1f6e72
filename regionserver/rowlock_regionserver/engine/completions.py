"""How what other threads finish gets to the event loop: all that is finished together with one wake-up.

Waking a loop costs a system call on either side, and a group commit finishes many requests of many streams at once.
So whatever is posted goes to one deque, and the loop is woken only when it is not about to look there anyhow.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable

logger = logging.getLogger(__name__)


class Completions:
    """Callbacks to be run on the event loop, in the order in which they were posted."""

    def __init__(self, loop: asyncio.AbstractEventLoop, expected_count: Callable[[], int]) -> None:
        self._loop = loop
        self._expected_count = expected_count
        self._posted: deque[Callable[[], None]] = deque()
        self._is_scheduled = False

    def post(self, callback: Callable[[], None]) -> None:
        """Has the callback run on the loop, soon. From any thread; never blocks. Dropped once the loop is closed."""
        # No lock: the loop lowers the flag before it drains, so whoever finds it raised was in time for that drain.
        self._posted.append(callback)
        if not self._is_scheduled:
            self._is_scheduled = True
            with contextlib.suppress(RuntimeError):  # The loop is closed: nobody is there to be told.
                self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        if len(self._posted) >= self._expected_count():
            self._drain()
            return
        # The poster lost the interpreter while it woke the loop. One more turn of the loop lets it go on first, so
        # that the rest of its group commit is drained together with its first completion. (Or one callback is for
        # many requests, and then the turn is hardly felt.)
        self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        self._is_scheduled = False
        posted = self._posted
        while posted:
            try:
                posted.popleft()()
            except Exception:
                # A bug in one answer must not keep those behind it from going out.
                logger.exception("unexpected error while answering")
