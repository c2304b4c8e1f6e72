"""Opening a client: `connect` to servers that run, `open` a private server on a folder (asyncio)."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType

import grpc
from rowlock_proto.v1 import catalog_pb2

from rowlock._core.retry import repeated_for_s
from rowlock._core.search import Search
from rowlock._core.view import checked_timeout
from rowlock._transport import methods
from rowlock._transport.channels import given_addresses
from rowlock.aio._transport.servers import Servers
from rowlock.aio._unfinished import Unfinished
from rowlock.aio.client import Client
from rowlock.connecting import folder_search, given_folder, reached_server


class Connecting(Unfinished):
    """A connection being made: `await` it, or use it with `async with`, which closes the client at the end."""

    what = "a connection that is being made"

    def __init__(self, connect: Callable[[], Awaitable[Client]]) -> None:
        self._connect = connect
        self._client: Client | None = None

    def __await__(self) -> Generator[object, None, Client]:
        return self._connect().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self._connect()
        return self._client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.close()


def connect(server: str | None = None, *, timeout: float = 10) -> Connecting:
    """As rowlock.connect: `db = await rowlock.aio.connect(...)`, or `async with rowlock.aio.connect(...) as db`."""
    addresses = given_addresses(server)
    seconds = checked_timeout(timeout)
    return Connecting(lambda: _connected(Servers(addresses), seconds, Search(addresses, time.monotonic(), seconds)))


def open(folder: str | os.PathLike[str], *, timeout: float = 10) -> Connecting:
    """As rowlock.open: `db = await rowlock.aio.open(folder)`, or `async with rowlock.aio.open(folder) as db`."""
    path = given_folder(folder)
    seconds = checked_timeout(timeout)

    async def opened() -> Client:
        # Starting a process and waiting for it would hold up the loop.
        server = await asyncio.to_thread(reached_server, path, seconds)
        servers = Servers((server.address,), is_held_open=True, folder_id=server.folder_id)
        return await _connected(servers, seconds, folder_search(server, seconds))

    return Connecting(opened)


async def _connected(servers: Servers, timeout_s: float, search: Search) -> Client:
    try:
        await _find(servers, search)
    except BaseException:
        await servers.close()
        raise
    return Client(servers, timeout_s)


async def _find(servers: Servers, search: Search) -> None:
    """Asks each address until one answers as a rowlock server does."""
    while True:
        for address in servers.addresses:
            share = search.share_s(time.monotonic())
            try:
                info = await servers.call_once(address, methods.SERVER_INFO, catalog_pb2.ServerInfoRequest(), share)
            except grpc.aio.AioRpcError as failed:
                search.failed(address, servers.judged(failed, address))
                continue
            if search.answered(address, info):
                servers.choose(address)
                servers.repeated_for_s = repeated_for_s(info.request_ids_remembered_ms)
                servers.request_bytes_max = info.limits.request_bytes_max or servers.request_bytes_max
                return
        await asyncio.sleep(search.pause_s(time.monotonic(), random.random()))
