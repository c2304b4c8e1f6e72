"""The selector of the server's event loop knows how long the loop was idle."""

from __future__ import annotations

import asyncio
import time

from rowlock_regionserver.rpc.direct import ready_selector
from rowlock_regionserver.rpc.direct.ready_selector import ReadySelector

_SECONDS = 0.02


def test_the_time_in_which_the_loop_waits_is_idle_and_the_time_in_which_it_works_is_not() -> None:
    async def serve(selector: ReadySelector) -> None:
        before = selector.idle_seconds()
        await asyncio.sleep(_SECONDS)
        waited = selector.idle_seconds()
        assert waited - before > 0.9 * _SECONDS
        time.sleep(_SECONDS)  # The loop works.
        assert selector.idle_seconds() == waited

    ready_selector.run(serve)


def test_a_wait_that_has_not_ended_counts_too() -> None:
    def grows(selector: ReadySelector) -> bool:
        time.sleep(_SECONDS)  # The loop has begun to wait.
        before = selector.idle_seconds()
        time.sleep(_SECONDS)
        return selector.idle_seconds() - before > 0.9 * _SECONDS

    async def serve(selector: ReadySelector) -> None:
        assert await asyncio.get_running_loop().run_in_executor(None, grows, selector)

    ready_selector.run(serve)
