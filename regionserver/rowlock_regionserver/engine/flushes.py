"""Flushes that clients ask for: of each table one at a time, shared by those that ask while another one runs.

A flush takes as long as the disk does, and clients that gave up waiting ask again. Each of them would hold a thread,
until none is left for other tables. So a call that comes while a flush of its table runs joins the next one, which
begins after it and thus writes everything that was acknowledged before any of them was sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

from rowlock_regionserver.region.flush import FlushResult


class Flushes:
    """Used on the event loop."""

    def __init__(self, flush: Callable[[str], FlushResult], pool: Executor) -> None:
        """`flush` writes a table's memstores and blocks; it is called in the pool."""
        self._flush = flush
        self._pool = pool
        # By table:
        self._running: dict[str, asyncio.Task[FlushResult]] = {}
        self._next: dict[str, asyncio.Task[FlushResult]] = {}

    async def flush(self, table: str) -> FlushResult:
        """Waits for a flush that begins from now on. A caller that stops waiting stops nothing."""
        task = self._next.get(table)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._run(table, self._running.get(table)))
            task.add_done_callback(_look_at)
            self._next[table] = task
        await asyncio.wait((task,))
        return task.result()

    async def _run(self, table: str, before: asyncio.Task[FlushResult] | None) -> FlushResult:
        if before is not None:
            await asyncio.wait((before,))
        task = self._running[table] = self._next.pop(table)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._flush, table)
        finally:
            if self._running[table] is task:
                del self._running[table]


def _look_at(task: asyncio.Task[FlushResult]) -> None:
    """An error that nobody waits for any more is not worth a word in the log."""
    if not task.cancelled():
        task.exception()
