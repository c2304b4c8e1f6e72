"""How many connections may have calls under way: each costs memory and a file, whatever it asks for."""

from __future__ import annotations

from rowlock_regionserver.errors import RegionTooBusyError


class Connections:
    """Counts calls by their connection. Used on the event loop."""

    def __init__(self, count_max: int, retry_after_ms: int) -> None:
        self._count_max = count_max
        self._retry_after_ms = retry_after_ms
        self._calls: dict[str, int] = {}

    @property
    def count(self) -> int:
        """Connections with a call under way."""
        return len(self._calls)

    def enter(self, peer: str) -> None:
        """A call begins. RegionTooBusyError: it would be the first of one connection too many; `leave` must follow."""
        self._calls[peer] = self._calls.get(peer, 0) + 1
        if len(self._calls) > self._count_max:
            raise RegionTooBusyError(
                f"{self._count_max} connections have calls under way, as many as connections_max allows; close some, "
                "or try again later",
                retry_after_ms=self._retry_after_ms,
            )

    def leave(self, peer: str) -> None:
        """A call has ended, or was refused."""
        count = self._calls[peer] - 1
        if count:
            self._calls[peer] = count
        else:
            del self._calls[peer]
