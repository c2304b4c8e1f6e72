"""What connections have sent and nobody has read yet, and an end for those that send too much.

gRPC gathers a message in memory before anybody hears of it, and each stream may bring one of request_bytes_max: it has
no bound for all of them together. So the process is watched. When it holds nearly as much as it may, the connections
that brought most of what was not handed to us are closed, until the rest fits. The system knows how much has come by
each connection, and we know how much of that came to us as messages. A client that was cut off connects again, and
sends again what was not answered.

Only Linux tells these things, and of Unix sockets not how much has come by each. There connections are closed, the
newest first, when what the process holds and nobody counts is a large share of `memory`. On other systems nothing is
watched.
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

# Of `memory`, what the process may hold beyond its own before connections are closed.
_HELD_SHARE_MAX = 15 / 16
# How often it is looked at, and when more than half of it is held.
_LOOK_AGAIN_SECONDS, _SOON_SECONDS = 0.05, 0.005
# Less of one connection is ordinary. What is not ours to read (frames, headers): a share, and so much a message.
_UNREAD_LEAST = 1 * MIB
_FRAMES_SHARE, _MESSAGE_OVERHEAD = 1.02, 512
# On a Unix socket: the share of `memory` that must be held and not counted before connections are closed.
_UNCOUNTED_SHARE_LEAST = 1 / 4
_FAMILIES = (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)
# Linux's struct tcp_info: where tcpi_bytes_received stands (since 4.1).
_TCP_INFO_BYTES, _BYTES_RECEIVED = 192, struct.Struct("<Q")
_BYTES_RECEIVED_AT = 128


@dataclass(frozen=True, slots=True)
class Sender:
    """A connection, and what it sent that was not read."""

    peer: str
    unread_bytes: int
    descriptor: int

    def end(self) -> None:
        """Ends the connection, at both ends, if it is still this one."""
        with _socket(self.descriptor) as connected:
            if connected is not None and _peer(connected) == self.peer:
                with contextlib.suppress(OSError):  # It has ended.
                    connected.shutdown(socket.SHUT_RDWR)


def senders(port: int, connections: Connections) -> list[Sender]:
    """The connections that were accepted on the port, and have much unread. Some microseconds for each open file."""
    found: list[Sender] = []
    for descriptor in _descriptors():
        with _socket(descriptor) as connected:
            if connected is None or _port(connected) != port:
                continue
            peer, received = _peer(connected), _bytes_received(connected)
        if peer is None or received is None:
            continue  # A listening one has no other end.
        connection = connections.of(peer)
        read_bytes = 0.0
        if connection is not None:
            read_bytes = _FRAMES_SHARE * connection.message_bytes + _MESSAGE_OVERHEAD * connection.message_count
        unread_bytes = int(received - read_bytes)
        if unread_bytes > _UNREAD_LEAST:
            found.append(Sender(peer, unread_bytes, descriptor))
    return found


def unix_senders(path: str, ledger: Ledger, measure: Callable[[], int] = anonymous_bytes) -> list[Sender]:
    """The connections that were accepted on a Unix socket, the newest first, each with an equal part of what came.

    What came is what the process holds and nobody counts; none are given while that is little of `memory`.
    """
    uncounted_bytes = measure() - ledger.own_bytes - ledger.bytes_held
    if uncounted_bytes < _UNCOUNTED_SHARE_LEAST * ledger.bytes_max:
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
        self._ended: set[str] = set()  # their memory is perhaps not freed yet
        self._bytes_max = int(_HELD_SHARE_MAX * ledger.bytes_max)
        self._own_bytes = ledger.own_bytes
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="receive-watch", daemon=True)

    def start(self) -> None:
        """Where the system tells nothing there is nothing to watch."""
        if self._measure():
            self._thread.start()

    def stop(self) -> None:
        """Ends the thread."""
        self._is_stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._is_stopping.wait(self._pause_seconds()):
            self.look()

    def _pause_seconds(self) -> float:
        """Short when it may soon be too late."""
        return _SOON_SECONDS if 2 * self.held() > self._bytes_max else _LOOK_AGAIN_SECONDS

    def held(self) -> int:
        """What the process holds beyond its own."""
        return self._measure() - self._own_bytes

    def look(self) -> None:
        """Closes the connections that brought most, if too much is held: as many as make up for what is too much."""
        if self.held() <= self._bytes_max:
            self._ended.clear()
            return
        if not self._senders():
            return  # It is held by something else.
        self._give_back()  # What was freed already is not held by anybody.
        senders = sorted(self._senders(), key=lambda sender: sender.unread_bytes, reverse=True)
        being_freed = sum(sender.unread_bytes for sender in senders if sender.peer in self._ended)
        too_much = self.held() - self._bytes_max - being_freed
        closed: list[Sender] = []
        for sender in senders:
            if too_much > 0 and sender.peer not in self._ended:
                too_much -= sender.unread_bytes
                sender.end()
                self._ended.add(sender.peer)
                closed.append(sender)
        if closed:
            logger.warning(
                "memory is full: closed %d of the connections (the first is %s), which had sent %d MiB that could not "
                "be taken yet",
                len(closed),
                closed[0].peer,
                sum(sender.unread_bytes for sender in closed) // MIB,
            )


def _descriptors() -> list[int]:
    """All that this process has open."""
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return []


@contextlib.contextmanager
def _socket(descriptor: int) -> Iterator[socket.socket | None]:
    """A way to ask a socket that is gRPC's, by its own descriptor; None: it is none that clients connect to.

    Never by a copy: gRPC would close its own and still hear of the connection, and then it hears of nothing any more.
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
    """Of this end; 0 when there is none."""
    if connected.family == socket.AF_UNIX:
        return 0
    try:
        port: int = connected.getsockname()[1]
    except OSError:
        return 0
    return port


def _path(connected: socket.socket) -> str | None:
    """Of a Unix socket's own end; None when there is none."""
    try:
        name: object = connected.getsockname()
    except OSError:
        return None
    return name if isinstance(name, str) and name else None


def _peer(connected: socket.socket) -> str | None:
    """The other end, as gRPC names it; of a Unix socket, where it names none, this one. None: there is none."""
    try:
        name = connected.getpeername()
        if connected.family == socket.AF_UNIX:
            return f"unix:{os.fstat(connected.fileno()).st_ino}"
    except OSError:
        return None
    host, port = name[:2]
    return peer_name(host, port)


def peer_name(host: str, port: int) -> str:
    """What gRPC calls the other end at this address."""
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
