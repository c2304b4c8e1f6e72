"""Calls that take locks: the event loop waits for the locks, and then a worker runs the operation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import TypeVar

from rowlock_regionserver.host.client_state import ClientState
from rowlock_regionserver.locks.lock_matrix import Operation
from rowlock_regionserver.locks.table_locks import Caller

R = TypeVar("R")


async def run_locked(
    clients: ClientState,
    pool: Executor,
    operation: Operation,
    table: str,
    caller: Caller,
    work: Callable[[Caller], R],
    region_ids: Sequence[int] = (),
) -> R:
    """Takes the locks of the operation, then calls `work` with them in a worker; returns what it returns.

    The locks are released when the worker is done, also if the call is cancelled before.
    """
    locked = await clients.take_for(operation, table, caller, region_ids)
    request = locked.held
    assert request is not None
    try:
        working = pool.submit(work, locked)
    except BaseException:
        clients.locks.release(request)
        raise
    working.add_done_callback(lambda _: clients.locks.release(request))
    return await asyncio.wrap_future(working)
