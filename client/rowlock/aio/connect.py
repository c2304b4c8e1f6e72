"""Opening a client: `connect` to servers that run, `open` a private server on a folder (asyncio)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType

import grpc
from rowlock_proto.v1 import catalog_pb2

from rowlock import methods
from rowlock.aio.client import Client
from rowlock.aio.servers import Servers
from rowlock.aio.unfinished import Unfinished
from rowlock.channels import given_addresses
from rowlock.connecting import check_protocol, given_folder, nobody_answers, reached_server
from rowlock.errors import RowlockError
from rowlock.view import checked_timeout


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
    return Connecting(lambda: _connected(Servers(addresses), seconds))


def open(folder: str | os.PathLike[str], *, timeout: float = 10) -> Connecting:
    """As rowlock.open: `db = await rowlock.aio.open(folder)`, or `async with rowlock.aio.open(folder) as db`."""
    path = given_folder(folder)
    seconds = checked_timeout(timeout)

    async def opened() -> Client:
        # Starting a process and waiting for it would hold up the loop.
        address = await asyncio.to_thread(reached_server, path, seconds)
        return await _connected(Servers((address,), is_held_open=True), seconds)

    return Connecting(opened)


async def _connected(servers: Servers, timeout_s: float) -> Client:
    try:
        await _verify(servers, timeout_s)
    except BaseException:
        await servers.close()
        raise
    return Client(servers, timeout_s)


async def _verify(servers: Servers, timeout_s: float) -> None:
    """Asks each address until one answers as a rowlock server does."""
    deadline = time.monotonic() + timeout_s
    met: list[RowlockError] = []
    for count, address in enumerate(servers.addresses):
        share = (deadline - time.monotonic()) / (len(servers.addresses) - count)
        try:
            info = await servers.call_once(address, methods.SERVER_INFO, catalog_pb2.ServerInfoRequest(), share)
        except grpc.aio.AioRpcError as failed:
            met.append(servers.judged(failed, address))
            continue
        check_protocol(info, address)
        servers.choose(address)
        servers.request_bytes_max = info.limits.request_bytes_max or servers.request_bytes_max
        return
    raise nobody_answers(servers.addresses, met)
