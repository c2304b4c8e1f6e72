"""The server's event loop, which knows how many files were ready in its current iteration, and how long it was idle."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from functools import partial


class ReadySelector(selectors.DefaultSelector):
    """A selector of the system. `ready_count`: how many files the last `select` found ready."""

    def __init__(self) -> None:
        super().__init__()
        self.ready_count = 0
        # The seconds of all calls of `select` that have ended, and since when one is waiting; replaced at once.
        self._waits: tuple[float, float | None] = 0.0, None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        waited, began = self._waits[0], time.monotonic()
        self._waits = waited, began
        ready = super().select(timeout)
        self._waits = waited + time.monotonic() - began, None
        self.ready_count = len(ready)
        return ready

    def idle_seconds(self) -> float:
        """Returns how long the event loop has had nothing to do, since it began. From any thread."""
        waited, since = self._waits
        return waited if since is None else waited + time.monotonic() - since


def run(serve: Callable[[ReadySelector], Coroutine[None, None, None]]) -> None:
    """Runs serve(selector) in a new event loop, which has this selector."""
    selector = ReadySelector()
    with asyncio.Runner(loop_factory=partial(asyncio.SelectorEventLoop, selector)) as runner:
        runner.run(serve(selector))
