"""The server's memstores together, in bytes as Python holds them, against their bound."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import RegionTooBusyError


class MemoryGauge:
    """Counts what the memstores of all regions hold. Thread-safe."""

    def __init__(self, config: Config, on_growth: Callable[[], None]) -> None:
        """`on_growth` is called whenever another sixteenth of a flush has come; it must not block."""
        self._on_growth = on_growth
        self._step = max(1, config.memstore_flush_bytes // 16)
        self._bytes_max = config.memstore_bytes_max
        self._retry_after_ms = config.retry_after_ms
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._bytes_held = 0
        self._tell_at = self._step

    @property
    def bytes_held(self) -> int:
        return self._bytes_held

    @property
    def is_under_pressure(self) -> bool:
        """More than half of the bound is held: flush the largest region."""
        return self._bytes_held * 2 > self._bytes_max

    def add(self, byte_count: int) -> None:
        """Counts bytes taken, or given back when negative."""
        with self._lock:
            self._bytes_held += byte_count
            has_grown = self._bytes_held >= self._tell_at
            if has_grown or byte_count < 0:
                self._tell_at = self._bytes_held + self._step
        if has_grown:
            self._on_growth()

    def check(self, byte_count: int) -> None:
        """Raises RegionTooBusyError when so much more would pass the bound. CHECK, so nothing is changed yet."""
        if self._bytes_held + byte_count > self._bytes_max:
            raise RegionTooBusyError(
                f"the memstores hold {self._bytes_held} bytes of memstore_bytes_max = {self._bytes_max}, and a flush "
                "is under way; nothing was changed, try again a little later",
                retry_after_ms=self._retry_after_ms,
            )
