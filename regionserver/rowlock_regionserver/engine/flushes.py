"""Flushes on request: one at a time for each table, shared by the calls that arrive while another flush runs.

A flush takes as long as the disk does, and clients that time out send the call again. If each call held a thread, none
would remain for other tables. So a call that arrives during a flush of its table joins the next one. That begins later,
and so writes everything that was acknowledged before any of the joined calls was sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

from rowlock_regionserver.region.flush import FlushResult


class Flushes:
    """Runs and shares flushes. Used on the event loop."""

    def __init__(self, flush: Callable[[str], FlushResult], pool: Executor) -> None:
        """`flush` writes a table's memstores and blocks; it is called in the pool."""
        self._flush = flush
        self._pool = pool
        # By table:
        self._running: dict[str, asyncio.Task[FlushResult]] = {}
        self._next: dict[str, asyncio.Task[FlushResult]] = {}

    async def flush(self, table: str) -> FlushResult:
        """Waits for a flush that begins after this call. Cancelling the caller does not cancel the flush."""
        task = self._next.get(table)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._run(table, self._running.get(table)))
            task.add_done_callback(_retrieve_exception)
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


def _retrieve_exception(task: asyncio.Task[FlushResult]) -> None:
    """Keeps asyncio from logging an error whose callers are all gone."""
    if not task.cancelled():
        task.exception()
