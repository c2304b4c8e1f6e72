"""Bounds the bytes that gRPC has received but not delivered, by closing the connections that sent the most.

gRPC assembles a message in memory before the server sees it, and each stream may bring one of request_bytes_max; gRPC
has no bound for all of them together. So a thread watches the memory of the process. When it is nearly at its limit,
the connections with the most undelivered bytes are closed until the rest fits. The kernel knows how many bytes each
connection has received, and the server counts how many of those were delivered as messages. A disconnected client
connects again, and repeats its unanswered requests.

Only Linux reports these counts, and not the bytes of each Unix socket. On a Unix socket, connections are closed, the
newest first, when the memory that the process holds and the ledger does not count is a large share of `memory`. On
other systems nothing is watched.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import stat
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rowlock_regionserver.config import MIB
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.process import give_back
from rowlock_regionserver.resident import anonymous_bytes
from rowlock_regionserver.rpc.grpc.connections import Connections

logger = logging.getLogger(__name__)

# The share of `memory` that the process may hold, beyond its own bytes, before connections are closed.
_HELD_SHARE_MAX = 15 / 16
# The interval between two looks at the memory, and the shorter one while more than half of that share is held.
_INTERVAL_SECONDS, _SHORT_INTERVAL_SECONDS = 0.05, 0.005
# A connection with fewer undelivered bytes is normal. Frames and headers are never delivered: they are estimated as a
# factor on the message bytes, and as bytes for each message.
_UNREAD_BYTES_MIN = 1 * MIB
_FRAMES_FACTOR, _MESSAGE_OVERHEAD = 1.02, 512
# On a Unix socket: the share of `memory` that must be held and not counted before connections are closed.
_UNCOUNTED_SHARE_MIN = 1 / 4
_FAMILIES = (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)
# Linux's struct tcp_info: the offset of tcpi_bytes_received (since 4.1).
_TCP_INFO_BYTES, _BYTES_RECEIVED = 192, struct.Struct("<Q")
_BYTES_RECEIVED_AT = 128


@dataclass(frozen=True, slots=True)
class Sender:
    """A connection, and how many of its bytes were received but not delivered."""

    peer: str
    unread_bytes: int
    descriptor: int

    def end(self) -> None:
        """Shuts the connection down in both directions, if the descriptor still belongs to it."""
        with _socket(self.descriptor) as connected:
            if connected is not None and _peer(connected) == self.peer:
                with contextlib.suppress(OSError):  # It has ended already.
                    connected.shutdown(socket.SHUT_RDWR)


def senders(port: int, connections: Connections) -> list[Sender]:
    """Returns connections accepted on the port with many undelivered bytes. Some microseconds for each open file."""
    found: list[Sender] = []
    for descriptor in _descriptors():
        with _socket(descriptor) as connected:
            if connected is None or _port(connected) != port:
                continue
            peer, received = _peer(connected), _bytes_received(connected)
        if peer is None or received is None:
            continue  # A listening socket has no peer.
        connection = connections.of(peer)
        read_bytes = 0.0
        if connection is not None:
            read_bytes = _FRAMES_FACTOR * connection.message_bytes + _MESSAGE_OVERHEAD * connection.message_count
        unread_bytes = int(received - read_bytes)
        if unread_bytes > _UNREAD_BYTES_MIN:
            found.append(Sender(peer, unread_bytes, descriptor))
    return found


def unix_senders(path: str, ledger: Ledger, measure: Callable[[], int] = anonymous_bytes) -> list[Sender]:
    """Returns the connections accepted on a Unix socket, the newest first, each with an equal part of the bytes.

    The undelivered bytes are estimated as what the process holds and the ledger does not count. Returns none while that
    is a small share of `memory`.
    """
    uncounted_bytes = measure() - ledger.own_bytes - ledger.bytes_held
    if uncounted_bytes < _UNCOUNTED_SHARE_MIN * ledger.bytes_max:
        return []
    found: list[tuple[str, int]] = []
    for descriptor in sorted(_descriptors(), reverse=True):
        with _socket(descriptor) as connected:
            if connected is None or _path(connected) != path:
                continue
            peer = _peer(connected)
        if peer is not None:
            found.append((peer, descriptor))
    return [Sender(peer, uncounted_bytes // len(found), descriptor) for peer, descriptor in found]


class ReceiveWatch:
    """Watches the process's memory while clients send, on a thread of its own."""

    def __init__(
        self,
        ledger: Ledger,
        senders: Callable[[], Sequence[Sender]],
        measure: Callable[[], int] = anonymous_bytes,
        give_back: Callable[[], None] = give_back,
    ) -> None:
        self._senders = senders
        self._measure = measure
        self._give_back = give_back
        self._ended: set[str] = set()  # closed peers, whose memory may not be freed yet
        self._bytes_max = int(_HELD_SHARE_MAX * ledger.bytes_max)
        self._own_bytes = ledger.own_bytes
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="receive-watch", daemon=True)

    def start(self) -> None:
        """Starts the thread, unless the system does not report the memory of the process."""
        if self._measure():
            self._thread.start()

    def stop(self) -> None:
        """Ends the thread."""
        self._is_stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._is_stopping.wait(self._interval_seconds()):
            self.look()

    def _interval_seconds(self) -> float:
        """The time to the next look; shorter when memory may soon be full."""
        return _SHORT_INTERVAL_SECONDS if 2 * self.held() > self._bytes_max else _INTERVAL_SECONDS

    def held(self) -> int:
        """Returns the bytes that the process holds beyond its own."""
        return self._measure() - self._own_bytes

    def look(self) -> None:
        """If too much memory is held, closes the connections with the most undelivered bytes, as many as needed."""
        if self.held() <= self._bytes_max:
            self._ended.clear()
            return
        if not self._senders():
            return  # Something other than received bytes holds the memory.
        self._give_back()  # Returns freed memory to the system, so that it is not measured.
        senders = sorted(self._senders(), key=lambda sender: sender.unread_bytes, reverse=True)
        being_freed = sum(sender.unread_bytes for sender in senders if sender.peer in self._ended)
        excess = self.held() - self._bytes_max - being_freed
        closed: list[Sender] = []
        for sender in senders:
            if excess > 0 and sender.peer not in self._ended:
                excess -= sender.unread_bytes
                sender.end()
                self._ended.add(sender.peer)
                closed.append(sender)
        if closed:
            logger.warning(
                "memory is full: closed %d connections (the first is %s), which had sent %d MiB that the server could "
                "not accept yet",
                len(closed),
                closed[0].peer,
                sum(sender.unread_bytes for sender in closed) // MIB,
            )


def _descriptors() -> list[int]:
    """Returns the open descriptors of this process."""
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return []


@contextlib.contextmanager
def _socket(descriptor: int) -> Iterator[socket.socket | None]:
    """Yields a socket object for a descriptor that gRPC owns; None if it is not a stream socket for clients.

    Uses the descriptor itself, never a duplicate: with a duplicate open, gRPC would close its own and still get events
    for the connection, and after that it gets no events at all.
    """
    connected: socket.socket | None = None
    try:
        if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            connected = socket.socket(fileno=descriptor)
    except OSError:
        connected = None  # It was closed meanwhile.
    try:
        is_stream = connected is not None and connected.family in _FAMILIES and connected.type == socket.SOCK_STREAM
        yield connected if is_stream else None
    finally:
        if connected is not None:
            connected.detach()


def _port(connected: socket.socket) -> int:
    """Returns the local port; 0 if there is none."""
    if connected.family == socket.AF_UNIX:
        return 0
    try:
        port: int = connected.getsockname()[1]
    except OSError:
        return 0
    return port


def _path(connected: socket.socket) -> str | None:
    """Returns the local path of a Unix socket; None if there is none."""
    try:
        name: object = connected.getsockname()
    except OSError:
        return None
    return name if isinstance(name, str) and name else None


def _peer(connected: socket.socket) -> str | None:
    """Returns the peer's name in gRPC, or for a Unix socket, which has none in gRPC, a name by its inode.

    None if the socket has no peer.
    """
    try:
        name = connected.getpeername()
        if connected.family == socket.AF_UNIX:
            return f"unix:{os.fstat(connected.fileno()).st_ino}"
    except OSError:
        return None
    host, port = name[:2]
    return peer_name(host, port)


def peer_name(host: str, port: int) -> str:
    """Returns gRPC's name for the peer at this address."""
    if ":" not in host:
        return f"ipv4:{host}:{port}"
    mapped = host.removeprefix("::ffff:")
    return f"ipv4:{mapped}:{port}" if "." in mapped else f"ipv6:%5B{host}%5D:{port}"


def _bytes_received(connected: socket.socket) -> int | None:
    try:
        info = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        (count,) = _BYTES_RECEIVED.unpack_from(info, _BYTES_RECEIVED_AT)
    except (OSError, AttributeError, struct.error):
        return None
    assert isinstance(count, int)
    return count
