"""The connections that have calls under way: how many there may be, and how much each has brought."""

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

    def met(self, message: bytes) -> bytes:
        """A message of it has come to us."""
        self.message_bytes += len(message)
        self.message_count += 1
        return message


class Connections:
    """Counts calls by their connection. Used on the event loop, except where a method says otherwise."""

    def __init__(self, count_max: int, retry_after_ms: int) -> None:
        self._count_max = count_max
        self._retry_after_ms = retry_after_ms
        self._by_peer: dict[str, Connection] = {}
        # Without a call at the moment, the oldest first: gRPC does not say when a connection ends.
        self._resting: OrderedDict[str, Connection] = OrderedDict()

    @property
    def count(self) -> int:
        """Connections with a call under way. From any thread."""
        return len(self._by_peer)

    def of(self, peer: str) -> Connection | None:
        """The connection of that name, as gRPC gives it. From any thread."""
        return self._by_peer.get(peer) or self._resting.get(peer)

    def enter(self, peer: str) -> Connection:
        """A call begins; `leave` must follow."""
        connection = self._by_peer.get(peer)
        if connection is None:
            connection = self._resting.pop(peer) if peer in self._resting else Connection()
            self._by_peer[peer] = connection
        connection.call_count += 1
        return connection

    def check(self) -> None:
        """Raises RegionTooBusyError when the call that has entered is the first of one connection too many."""
        if len(self._by_peer) > self._count_max:
            raise RegionTooBusyError(
                f"{self._count_max} connections have calls under way, as many as connections_max allows; close some, "
                "or try again later",
                retry_after_ms=self._retry_after_ms,
            )

    def leave(self, peer: str) -> None:
        """A call has ended, or was refused."""
        connection = self._by_peer[peer]
        connection.call_count -= 1
        if not connection.call_count:
            self._resting[peer] = self._by_peer.pop(peer)
            while len(self._resting) > self._count_max:
                self._resting.popitem(last=False)
