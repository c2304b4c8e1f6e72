"""Opens a direct connection (asyncio)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from rowlock_proto.unix_sockets import PREFIX, SocketName

from rowlock._core.direct import Announcement, DirectUnusableError
from rowlock._core.sequences import Sequences
from rowlock.aio._transport.direct import DirectConnection


async def open_direct(
    server: str, target: str, announcement: Announcement, timeout_s: float, sequences: Sequences
) -> DirectConnection:
    """Connects to the target, `unix:PATH` or `host:port`, and checks that the announced server is there.

    server: its address for gRPC, for messages. Raises OSError, and DirectUnusableError if another server is there, or
    none of rowlock.
    """
    async with asyncio.timeout(max(0.0, timeout_s)):
        connection = await _connected(target, lambda: DirectConnection(server, target, announcement, sequences))
        await connection.welcomed()
    return connection


async def _connected(target: str, protocol: Callable[[], DirectConnection]) -> DirectConnection:
    loop = asyncio.get_running_loop()
    if not target.startswith(PREFIX):
        host, _, port = target.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        _, connection = await loop.create_connection(protocol, host, int(port))
        return connection
    try:
        name = SocketName(target.removeprefix(PREFIX))
    except ValueError as error:
        raise DirectUnusableError(str(error)) from None
    with contextlib.closing(name):
        _, connection = await loop.create_unix_connection(protocol, name.path)
    return connection
