"""The server's event loop, which knows how many files were ready in its current iteration."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from functools import partial


class ReadySelector(selectors.DefaultSelector):
    """A selector of the system. `ready_count`: how many files the last `select` found ready."""

    ready_count = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(timeout)
        self.ready_count = len(ready)
        return ready


def run(serve: Callable[[Callable[[], int]], Coroutine[None, None, None]]) -> None:
    """Runs serve(ready_count) in a new event loop. `ready_count` returns how many files its iteration found ready."""
    selector = ReadySelector()
    with asyncio.Runner(loop_factory=partial(asyncio.SelectorEventLoop, selector)) as runner:
        runner.run(serve(lambda: selector.ready_count))
