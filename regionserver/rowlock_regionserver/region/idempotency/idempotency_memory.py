"""The memory of the saved answers of all regions, and its bound."""

from __future__ import annotations

import threading
from typing import Protocol

# Beyond the bound, one step frees 1/256 of it: a caller waits for it.
_FREED_AT_ONCE_PART = 256


class AnswerHolder(Protocol):
    """The saved answers of one region. Thread-safe."""

    @property
    def bytes_held(self) -> int: ...

    def free(self, byte_count: int) -> bool:
        """Frees about `byte_count` bytes of answers, the oldest first. Returns False if it can free nothing."""


class IdempotencyMemory:
    """Counts the bytes of the saved answers of all regions, and keeps them below the bound. Thread-safe."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._lock = threading.Lock()
        self._freeing = threading.Lock()
        # Guarded by self._lock:
        self._bytes_held = 0
        self._holders: set[AnswerHolder] = set()

    @property
    def bytes_held(self) -> int:
        """Bytes that all regions hold now, in Python's memory."""
        return self._bytes_held

    @property
    def is_half_full(self) -> bool:
        return 2 * self._bytes_held > self.bytes_max

    def register(self, holder: AnswerHolder) -> None:
        """Registers a holder, whose answers `free_excess` may free."""
        with self._lock:
            self._holders.add(holder)

    def unregister(self, holder: AnswerHolder) -> None:
        """Removes a holder. The caller subtracts what it held by `add`."""
        with self._lock:
            self._holders.discard(holder)

    def add(self, byte_count: int) -> None:
        """Counts bytes taken, or bytes freed if negative."""
        with self._lock:
            self._bytes_held += byte_count

    def free_excess(self) -> None:
        """Frees what exceeds the bound, from the region that holds the most. The caller holds no lock of a holder."""
        if self._bytes_held <= self.bytes_max or not self._freeing.acquire(blocking=False):
            return
        try:
            while self._bytes_held > self.bytes_max:
                with self._lock:
                    holders = tuple(self._holders)
                largest = max(holders, key=lambda holder: holder.bytes_held, default=None)
                if largest is None or not largest.free(max(1, self.bytes_max // _FREED_AT_ONCE_PART)):
                    return
        finally:
            self._freeing.release()
