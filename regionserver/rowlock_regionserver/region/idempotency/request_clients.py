"""The clients that a region knows, roughly in the order in which it last heard of them.

A request only records the time. A client enters a queue once; when `oldest` finds it at the front and the region has
heard of it since, it moves the client to the end. Not thread-safe.
"""

from __future__ import annotations

from collections import deque

from rowlock_regionserver.region.idempotency.answer import Answer

# A client's bytes in memory without its answers, measured.
CLIENT_BYTES = 265
# After moving this many clients `oldest` returns the next one, whenever the region heard of it.
_LOOKED_AT_MAX = 256


class Client:
    """One client's answers and floor."""

    __slots__ = ("answers", "floor", "last_heard", "name", "queued")

    def __init__(self, name: bytes, now: float) -> None:
        self.name = name
        self.answers: list[Answer] = []  # by sequence; none below the floor
        self.floor = 0
        # On the monotonic clock: when the region last heard of it, as of now and as of its entry into the queue.
        self.last_heard = self.queued = now


class Clients:
    """Clients by name."""

    def __init__(self) -> None:
        self._by_name: dict[bytes, Client] = {}
        self._queue: deque[Client] = deque()
        self.get = self._by_name.get

    def __len__(self) -> int:
        return len(self._by_name)

    def add(self, name: bytes, now: float) -> Client:
        client = self._by_name[name] = Client(name, now)
        self._queue.append(client)
        return client

    def names(self) -> list[bytes]:
        return list(self._by_name)

    def oldest(self) -> Client | None:
        """Returns the client that has been silent for longest, or nearly so; None if there is none."""
        queue = self._queue
        for _ in range(min(len(queue), _LOOKED_AT_MAX)):
            client = queue[0]
            if client.last_heard == client.queued:
                break
            client.queued = client.last_heard
            queue.rotate(-1)
        return queue[0] if queue else None

    def forget(self, oldest: Client) -> None:
        """Removes the client that `oldest` has just returned."""
        client = self._queue.popleft()
        assert client is oldest, "another client is at the front"
        del self._by_name[client.name]

    def clear(self) -> None:
        self._by_name.clear()
        self._queue.clear()
