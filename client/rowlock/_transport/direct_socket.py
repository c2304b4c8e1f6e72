"""Opens the socket of a direct connection and exchanges the first frames; blocks, with a deadline."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
import time

from rowlock_proto.direct_frames import ANSWERS_SLACK_BYTES, SHORT_BODY_BYTES_MAX, FrameReader
from rowlock_proto.tcp_keepalive import keep_alive
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
from rowlock._transport.channels import KEEPALIVE_MS, silent_s_max

SCRATCH_BYTES = 64 * 1024
# The system probes an idle server when gRPC would send it a ping, and reports it as lost when gRPC would.
_PROBED_S = KEEPALIVE_MS // 1000
_SILENT_S_MAX = int(silent_s_max())
# Of a Unix socket for bulk batches: the server takes one part while the next one is copied.
_UNIX_BUFFER_BYTES = 2 << 20


def set_tcp_options(connected: socket.socket) -> None:
    """Makes a TCP socket send at once, and find that the server's machine is gone."""
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A server that has no memory for a bulk batch may leave it unread for longer.
    keep_alive(connected, _PROBED_S, _SILENT_S_MAX, bounds_unread=False)


def widen(connected: socket.socket) -> None:
    """Makes a Unix socket take more at once. Over TCP the system finds the size."""
    if connected.family == socket.AF_UNIX:
        with contextlib.suppress(OSError):
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNIX_BUFFER_BYTES)


class OpenSocket:
    """A socket whose server has welcomed the client. It does not block. body_bytes_max: the server's limit."""

    __slots__ = ("body_bytes_max", "reader", "socket")

    def __init__(self, connected: socket.socket, reader: FrameReader, body_bytes_max: int) -> None:
        self.socket = connected
        self.reader = reader
        self.body_bytes_max = body_bytes_max


def open_socket(
    target: str, announcement: Announcement, deadline: float, purpose: Purpose = Purpose.POINTS
) -> OpenSocket:
    """Connects to the target, `unix:PATH` or `host:port`, and checks that the announced server is there.

    deadline: on time.monotonic(). Raises OSError, and DirectUnusableError if another server is there, or none of
    rowlock.
    """
    connected = _connected(target, deadline)
    try:
        connected.settimeout(_remaining(deadline))
        connected.sendall(hello(purpose))
        reader = FrameReader(SHORT_BODY_BYTES_MAX, memoryview(bytearray(SCRATCH_BYTES)))
        while (found := reader.next()) is None:
            if reader.error is not None:
                raise DirectUnusableError(str(reader.error))
            connected.settimeout(_remaining(deadline))
            count = connected.recv_into(reader.room())
            if not count:
                raise DirectUnusableError("it closed the connection without a welcome")
            reader.received(count)
        body_bytes_max = body_bytes_max_of(*found, announcement, purpose)
        reader.set_body_bytes_max(body_bytes_max + ANSWERS_SLACK_BYTES)
        connected.setblocking(False)
    except BaseException:
        connected.close()
        raise
    return OpenSocket(connected, reader, body_bytes_max)


def peeked(connected: socket.socket) -> bytes | None:
    """Returns the next byte that waits to be received; none after the end of the connection, or an error.

    None: nothing has come. It does not block.
    """
    try:
        return connected.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _remaining(deadline: float) -> float:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError("it did not answer in time")
    return remaining


def _connected(target: str, deadline: float) -> socket.socket:
    if target.startswith(PREFIX):
        with contextlib.closing(socket_name(target)) as name:
            return _connect(socket.AF_UNIX, name.path, deadline)
    failure: OSError | None = None
    for family, where in resolved(target, _remaining(deadline)):
        try:
            connected = _connect(family, where, deadline)
        except OSError as error:
            failure = error
            continue
        set_tcp_options(connected)
        return connected
    raise failure or OSError(f"no address is known for {target}")


def _connect(family: int, where: object, deadline: float) -> socket.socket:
    # Python makes sockets close-on-exec.
    connecting = socket.socket(family, socket.SOCK_STREAM)
    try:
        connecting.settimeout(_remaining(deadline))
        connecting.connect(where)  # type: ignore[arg-type]  # as getaddrinfo returned it
    except BaseException:
        connecting.close()
        raise
    return connecting


def resolved(target: str, timeout_s: float) -> list[tuple[int, object]]:
    """Returns the families and socket addresses of host:port. Raises OSError, also if the look-up takes too long."""
    host, port = host_and_port(target)
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return _looked_up(host, port, timeout_s)
    return numeric_addresses(host, port)


def numeric_addresses(host: str, port: str) -> list[tuple[int, object]]:
    """Returns the family and socket address of an IP address; of a name too, but blocks for its look-up."""
    return [(found[0], found[4]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def _looked_up(host: str, port: str, timeout_s: float) -> list[tuple[int, object]]:
    """Looks a name up in a thread of its own, because the system's look-up has no deadline."""
    found: list[tuple[int, object]] = []
    failures: list[OSError] = []

    def look_up() -> None:
        try:
            found.extend(numeric_addresses(host, port))
        except OSError as error:
            failures.append(error)

    looking = threading.Thread(target=look_up, name="rowlock look-up", daemon=True)
    looking.start()
    looking.join(timeout_s)
    if failures:
        raise failures[0]
    if looking.is_alive():
        raise TimeoutError(f"the host name {host!r} did not resolve in time")
    return found
