"""Opens a client: `connect` to running servers, or `open` a private server on a folder (asyncio)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping

from rowlock._core.lock_requests import (
    RETRIES_DEFAULT,
    RETRY_S_MAX_DEFAULT,
    WAIT_S_DEFAULT,
    LockPolicy,
)
from rowlock._core.search import Search
from rowlock._core.view import checked_timeout
from rowlock._transport.channels import given_addresses
from rowlock.aio._transport.finding import find_server
from rowlock.aio._transport.servers import Servers
from rowlock.aio._unfinished import Unfinished
from rowlock.aio.client import Client
from rowlock.connecting import folder_search, given_folder, given_settings, reached_server


class Connecting(Unfinished[Client]):
    """A connection in the making: `await` it, or use it with `async with`, which closes the client at the end."""

    what = "a connection that is being made"


def connect(
    server: str | None = None,
    *,
    timeout: float = 10,
    lock_wait_s: float = WAIT_S_DEFAULT,
    lock_retries: int = RETRIES_DEFAULT,
    lock_retry_s_max: float = RETRY_S_MAX_DEFAULT,
) -> Connecting:
    """Connects to servers at `host:port` or `unix:PATH`; see rowlock.connect for arguments and errors.

    Use `db = await rowlock.aio.connect(...)`, or `async with rowlock.aio.connect(...) as db`.
    """
    addresses = given_addresses(server)
    seconds = checked_timeout(timeout)
    policy = LockPolicy(lock_wait_s, lock_retries, lock_retry_s_max)
    return Connecting(
        lambda: _connected(Servers(addresses), seconds, Search(addresses, time.monotonic(), seconds), policy)
    )


def open(
    folder: str | os.PathLike[str],
    *,
    timeout: float = 10,
    lock_wait_s: float = WAIT_S_DEFAULT,
    lock_retries: int = RETRIES_DEFAULT,
    lock_retry_s_max: float = RETRY_S_MAX_DEFAULT,
    settings: Mapping[str, int | str] | None = None,
) -> Connecting:
    """Opens the private server on a folder; see rowlock.open for arguments and errors.

    Use `db = await rowlock.aio.open(folder)`, or `async with rowlock.aio.open(folder) as db`.
    """
    path, given = given_folder(folder), given_settings(settings)
    seconds = checked_timeout(timeout)
    policy = LockPolicy(lock_wait_s, lock_retries, lock_retry_s_max)

    async def opened() -> Client:
        # In a thread: starting a process and waiting for it would block the event loop.
        server = await asyncio.to_thread(reached_server, path, seconds, given)
        servers = Servers((server.address,), is_held_open=True, folder_id=server.folder_id)
        return await _connected(servers, seconds, folder_search(server, seconds), policy)

    return Connecting(opened)


async def _connected(servers: Servers, timeout_s: float, search: Search, policy: LockPolicy) -> Client:
    await find_server(servers, search)
    return Client(servers, timeout_s, policy)
