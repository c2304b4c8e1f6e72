"""How many bytes open scans may hold for clients that have not taken them yet."""

from __future__ import annotations

import threading

from rowlock_regionserver.errors import RegionTooBusyError


class ScanMemory:
    """Counts what all open scans hold. Thread-safe; never waits for anything but its own lock.

    A scan is let in as long as the bound is not reached, before anybody knows how much it will hold; so the bound may
    be passed by what the scans that begin at the same moment hold, one for each worker thread.
    """

    def __init__(self, bytes_max: int, retry_after_ms: int) -> None:
        self._bytes_max = bytes_max
        self._retry_after_ms = retry_after_ms
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._held = 0

    @property
    def held(self) -> int:
        """Bytes held now."""
        return self._held

    def admit(self) -> None:
        """Raises RegionTooBusyError when no other scan should begin now."""
        if self._held >= self._bytes_max:
            raise RegionTooBusyError(
                f"open scans hold {self._held} bytes that their clients have not taken, which is beyond "
                f"scan_bytes_held_max = {self._bytes_max}; read on or close those you leave, and try again",
                retry_after_ms=self._retry_after_ms,
            )

    def change(self, byte_count: int) -> None:
        """A scan holds so many bytes more, or less when negative."""
        with self._lock:
            self._held += byte_count
            assert self._held >= 0, self._held
