"""How many bytes of large requests may be in the server at once."""

from __future__ import annotations

from rowlock_regionserver.errors import RegionTooBusyError


class ByteBudget:
    """Counts bytes taken and given back. Used on the event loop only; never waits."""

    def __init__(self, bytes_max: int, retry_after_ms: int) -> None:
        self._bytes_max = bytes_max
        self._retry_after_ms = retry_after_ms
        self._taken = 0

    @property
    def taken(self) -> int:
        """Bytes in the server now."""
        return self._taken

    def take(self, byte_count: int) -> RegionTooBusyError | None:
        """Takes the bytes; or, when they are too many beside what is there, takes none and says so."""
        if self._taken and self._taken + byte_count > self._bytes_max:
            return RegionTooBusyError(
                f"{self._taken} bytes of large requests are in flight, and {byte_count} more would be beyond "
                f"request_bytes_in_flight_max = {self._bytes_max}; try again",
                retry_after_ms=self._retry_after_ms,
            )
        self._taken += byte_count
        return None

    def give(self, byte_count: int) -> None:
        """Gives back what was taken."""
        assert self._taken >= byte_count, (self._taken, byte_count)
        self._taken -= byte_count
