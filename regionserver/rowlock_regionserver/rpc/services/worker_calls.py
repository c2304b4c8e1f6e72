"""Calls that a worker runs. The event loop waits for the locks of those that take some."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import TypeVar

from google.protobuf.message import Message

from rowlock_regionserver.host.client_state import ClientState
from rowlock_regionserver.locks.lock_matrix import Operation
from rowlock_regionserver.locks.table_locks import Caller
from rowlock_regionserver.rpc.grpc.calls import Context, Method

R = TypeVar("R")


def in_worker(pool: Executor, answer: Callable[[bytes], Message]) -> Method:
    """Returns a method that a worker answers."""

    async def method(data: bytes, _: Context) -> bytes:
        message = await asyncio.get_running_loop().run_in_executor(pool, answer, data)
        return message.SerializeToString()

    return method


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
