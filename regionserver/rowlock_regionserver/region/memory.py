"""The memory of all memstores of a server: when to flush, and when to refuse writes until a flush has freed memory.

Above half of the bound there is memory pressure, and regions are flushed until it is over. So writers hit the bound
only if they outpace all flushes long enough to fill the other half. Then writes are refused with a retry delay,
estimated from the rate of the last flushes.
"""

from __future__ import annotations

from collections.abc import Callable

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.ledger import Account

# The bounds of the retry delay, as multiples of retry_after_ms.
_DELAY_FACTOR_MIN, _DELAY_FACTOR_MAX = 1 / 4, 10
# The weight of the newest flush in the moving average of the flush rate.
_NEWEST_SHARE = 0.3


class MemoryGauge:
    """Counts the bytes that the memstores of all regions hold. Thread-safe."""

    def __init__(self, account: Account, config: Config, clock: Clock, on_growth: Callable[[], None]) -> None:
        """`on_growth` is called after each growth by a sixteenth of a flush; it must not block."""
        self._account = account
        self._clock = clock
        self._on_growth = on_growth
        self._step = max(1, min(config.memstore_flush_bytes, config.memstore_bytes_max) // 16)
        self._retry_after_ms = config.retry_after_ms
        # Several threads may change these at once; then a wake-up comes one step late, or the rate is slightly off.
        self._notify_at = self._step
        self._freed_at = clock.monotonic()
        self._freed_per_second = 0.0

    @property
    def bytes_held(self) -> int:
        return self._account.bytes_held

    @property
    def is_under_pressure(self) -> bool:
        """Whether more than half of the bound is held, so that regions must be flushed."""
        return self.bytes_held > self.pressure_bytes

    @property
    def pressure_bytes(self) -> int:
        return self._account.bytes_max // 2

    def add(self, byte_count: int) -> None:
        """Counts bytes taken, or bytes freed if negative."""
        self._account.add(byte_count)
        held = self._account.bytes_held
        if byte_count < 0:
            self._notify_at = held + self._step
        elif held >= self._notify_at:
            self._notify_at = held + self._step
            self._on_growth()

    def flushed(self, byte_count: int) -> None:
        """Counts the bytes that a flush has freed, and updates the flush rate."""
        now = self._clock.monotonic()
        seconds, self._freed_at = max(now - self._freed_at, 1e-3), now
        rate = byte_count / seconds
        self._freed_per_second += (rate - self._freed_per_second) * (_NEWEST_SHARE if self._freed_per_second else 1.0)
        self.add(-byte_count)

    def check(self, byte_count: int) -> None:
        """Raises RegionTooBusyError if `byte_count` more bytes would exceed the bound. Part of CHECK."""
        if not self._account.has_room(byte_count):
            raise self._account.refusal(byte_count, self._delay_ms(byte_count))

    def _delay_ms(self, byte_count: int) -> int:
        """Estimates how long it takes until flushes have freed enough memory."""
        if not self._freed_per_second:
            return self._retry_after_ms
        excess = self.bytes_held + byte_count - self._account.bytes_max
        delay_ms = 1000 * max(0, excess) / self._freed_per_second
        delay_ms_max = self._retry_after_ms * _DELAY_FACTOR_MAX
        delay_ms_min = self._retry_after_ms * _DELAY_FACTOR_MIN
        return int(max(delay_ms_min, min(delay_ms_max, delay_ms)))
