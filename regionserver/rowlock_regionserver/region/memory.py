"""The server's memstores together, against their bound: when to flush, and when writes are refused until some is done.

From half of the bound on there is pressure, and regions are flushed until it is over. So writers meet the bound only
when they are faster than all flushes for as long as it takes to fill the other half; then they are told to come back
when, at the pace of the last flushes, there will be room.
"""

from __future__ import annotations

from collections.abc import Callable

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.ledger import Account

# A pause that is told lies between these parts of retry_after_ms.
_PAUSE_LEAST, _PAUSE_MOST = 1 / 4, 10
# Of the pace of flushes that is remembered, what the newest ones say.
_NEWEST_SHARE = 0.3


class MemoryGauge:
    """What the memstores of all regions hold. Thread-safe."""

    def __init__(self, account: Account, config: Config, clock: Clock, on_growth: Callable[[], None]) -> None:
        """`on_growth` is called whenever another sixteenth of a flush has come; it must not block."""
        self._account = account
        self._clock = clock
        self._on_growth = on_growth
        self._step = max(1, min(config.memstore_flush_bytes, config.memstore_bytes_max) // 16)
        self._retry_after_ms = config.retry_after_ms
        # Several threads may change these at once; then a wake-up comes a step late, or a pace is not quite right.
        self._notify_at = self._step
        self._freed_at = clock.monotonic()
        self._freed_per_second = 0.0

    @property
    def bytes_held(self) -> int:
        return self._account.bytes_held

    @property
    def is_under_pressure(self) -> bool:
        """More than half of the bound is held: flush."""
        return self.bytes_held > self.pressure_bytes

    @property
    def pressure_bytes(self) -> int:
        return self._account.bytes_max // 2

    def add(self, byte_count: int) -> None:
        """Counts bytes taken, or given back when negative."""
        self._account.add(byte_count)
        held = self._account.bytes_held
        if byte_count < 0:
            self._notify_at = held + self._step
        elif held >= self._notify_at:
            self._notify_at = held + self._step
            self._on_growth()

    def flushed(self, byte_count: int) -> None:
        """Gives back what a flush has freed."""
        now = self._clock.monotonic()
        seconds, self._freed_at = max(now - self._freed_at, 1e-3), now
        pace = byte_count / seconds
        self._freed_per_second += (pace - self._freed_per_second) * (_NEWEST_SHARE if self._freed_per_second else 1.0)
        self.add(-byte_count)

    def check(self, byte_count: int) -> None:
        """Raises RegionTooBusyError when so much more would pass the bound. CHECK, so nothing is changed yet."""
        if not self._account.has_room(byte_count):
            raise self._account.refusal(byte_count, self._pause_ms(byte_count))

    def _pause_ms(self, byte_count: int) -> int:
        """How long it takes until there is room, as far as that can be known."""
        if not self._freed_per_second:
            return self._retry_after_ms
        too_much = self.bytes_held + byte_count - self._account.bytes_max
        pause_ms = 1000 * max(0, too_much) / self._freed_per_second
        most, least = self._retry_after_ms * _PAUSE_MOST, self._retry_after_ms * _PAUSE_LEAST
        return int(max(least, min(most, pause_ms)))
