"""The connections with calls in progress: limits their number, and counts the bytes that each has sent."""

from __future__ import annotations

from collections import OrderedDict

from rowlock_regionserver.errors import RegionTooBusyError


class Connection:
    """One client's connection. Changed on the event loop, read from any thread."""

    __slots__ = ("call_count", "message_bytes", "message_count")

    def __init__(self) -> None:
        self.call_count = 0
        self.message_bytes = 0
        self.message_count = 0

    def count_message(self, message: bytes) -> None:
        """Counts a message that was read from the connection."""
        self.message_bytes += len(message)
        self.message_count += 1


class Connections:
    """Counts calls by their connection. Used on the event loop, except where a method says otherwise."""

    def __init__(self, count_max: int, retry_after_ms: int) -> None:
        self._count_max = count_max
        self._retry_after_ms = retry_after_ms
        self._by_peer: dict[str, Connection] = {}
        # Connections without a call, the oldest first: gRPC does not report the end of a connection.
        self._idle: OrderedDict[str, Connection] = OrderedDict()

    @property
    def count(self) -> int:
        """The number of connections with a call in progress. From any thread."""
        return len(self._by_peer)

    def of(self, peer: str) -> Connection | None:
        """Returns the connection of a peer, named as gRPC names it; None if it is unknown. From any thread."""
        return self._by_peer.get(peer) or self._idle.get(peer)

    def enter(self, peer: str) -> Connection:
        """Counts a call that begins; `leave` must follow."""
        connection = self._by_peer.get(peer)
        if connection is None:
            connection = self._idle.pop(peer) if peer in self._idle else Connection()
            self._by_peer[peer] = connection
        connection.call_count += 1
        return connection

    def check(self) -> None:
        """Raises RegionTooBusyError if the entered call is on one connection too many."""
        if len(self._by_peer) > self._count_max:
            raise RegionTooBusyError(
                f"{self._count_max} connections have calls in progress, as many as connections_max allows; close some, "
                "or retry later",
                retry_after_ms=self._retry_after_ms,
            )

    def leave(self, peer: str) -> None:
        """Counts a call that has ended, or was refused."""
        connection = self._by_peer[peer]
        connection.call_count -= 1
        if not connection.call_count:
            self._idle[peer] = self._by_peer.pop(peer)
            while len(self._idle) > self._count_max:
                self._idle.popitem(last=False)
