"""Runs a test on an event loop of its own, and reports errors of callbacks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.waiting import WAIT_S


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Runs the coroutine. Fails also for an error in a callback, which asyncio only logs."""
    lost: list[dict[str, Any]] = []

    async def on_loop() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))
        async with asyncio.timeout(WAIT_S):
            await test()

    asyncio.run(on_loop())
    assert lost == []


async def until(holds: Callable[[], bool]) -> None:
    """Runs the loop until the condition holds."""
    while not holds():
        await asyncio.sleep(0)
