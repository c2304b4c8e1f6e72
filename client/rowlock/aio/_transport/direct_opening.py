"""Opens direct connections (asyncio)."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket

from rowlock_proto.direct_frames import SHORT_BODY_BYTES_MAX, FrameReader
from rowlock_proto.unix_sockets import PREFIX

from rowlock._core.direct import (
    Announcement,
    DirectUnusableError,
    Purpose,
    body_bytes_max_of,
    hello,
    host_and_port,
    socket_name,
)
from rowlock._core.sequences import Sequences
from rowlock._transport.direct_socket import SCRATCH_BYTES, OpenSocket, numeric_addresses, set_tcp_options
from rowlock.aio._transport.direct import DirectConnection


async def open_direct(
    server: str, target: str, announcement: Announcement, timeout_s: float, sequences: Sequences
) -> DirectConnection:
    """Connects to the target, `unix:PATH` or `host:port`, and checks that the announced server is there.

    server: its address for gRPC, for messages. Raises OSError, and DirectUnusableError if another server is there, or
    none of rowlock.
    """
    async with asyncio.timeout(max(0.0, timeout_s)):
        connected = await _connected(target)
        loop = asyncio.get_running_loop()
        create = loop.create_unix_connection if connected.family == socket.AF_UNIX else loop.create_connection
        try:
            _, connection = await create(
                lambda: DirectConnection(server, target, announcement, sequences), sock=connected
            )
        except BaseException:
            connected.close()
            raise
        await connection.welcomed()
    return connection


async def open_socket(target: str, announcement: Announcement, timeout_s: float, purpose: Purpose) -> OpenSocket:
    """Opens a connection for scans, or for bulk batches. Raises as open_direct."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(max(0.0, timeout_s)):
        connected = await _connected(target)
        try:
            await loop.sock_sendall(connected, hello(purpose))
            reader = FrameReader(SHORT_BODY_BYTES_MAX, memoryview(bytearray(SCRATCH_BYTES)))
            while (found := reader.next()) is None:
                if reader.error is not None:
                    raise DirectUnusableError(str(reader.error))
                count = await loop.sock_recv_into(connected, reader.room())
                if not count:
                    raise DirectUnusableError("it closed the connection without a welcome")
                reader.received(count)
            body_bytes_max = body_bytes_max_of(*found, announcement, purpose)
        except BaseException:
            connected.close()
            raise
    return OpenSocket(connected, reader, body_bytes_max)


async def _connected(target: str) -> socket.socket:
    if target.startswith(PREFIX):
        with contextlib.closing(socket_name(target)) as name:
            return await _connect(socket.AF_UNIX, name.path)
    failure: OSError | None = None
    for family, where in await _resolved(target):
        try:
            connected = await _connect(family, where)
        except OSError as error:
            failure = error
            continue
        set_tcp_options(connected)
        return connected
    raise failure or OSError(f"no address is known for {target}")


async def _resolved(target: str) -> list[tuple[int, object]]:
    host, port = host_and_port(target)
    try:
        ipaddress.ip_address(host)
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [(each[0], each[4]) for each in found]
    return numeric_addresses(host, port)  # Without a thread.


async def _connect(family: int, where: object) -> socket.socket:
    connecting = socket.socket(family, socket.SOCK_STREAM)
    connecting.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(connecting, where)  # type: ignore[arg-type]  # of getaddrinfo
    except BaseException:
        connecting.close()
        raise
    return connecting
