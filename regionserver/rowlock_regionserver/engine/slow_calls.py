"""Slow calls: a line in the log for each that took longer than slow_call_ms, one a second at most."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import RegionServerError

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN_LINES = 1.0


class SlowCalls:
    """Used from any thread: two lines at one moment do no harm."""

    def __init__(self, table_of: Callable[[int], str], config: Config, clock: Clock) -> None:
        """`table_of`: returns the name of a region's table, or raises NotServingRegionError."""
        self._table_of = table_of
        self._clock = clock
        self._seconds_max = config.slow_call_ms / 1000 or math.inf
        self._next_line_at = -math.inf
        self._skipped_count = 0

    def is_slow(self, began: float) -> bool:
        """Whether a call that began at this time of the clock, and ends now, was slow."""
        return self._clock.monotonic() - began > self._seconds_max

    def log(self, began: float, what: str, region_id: int, row_count: int = 0) -> None:
        """Logs a slow call that ends now, unless there was a line within the last second. row_count: 0: unknown."""
        now = self._clock.monotonic()
        if now < self._next_line_at:
            self._skipped_count += 1
            return
        self._next_line_at = now + _SECONDS_BETWEEN_LINES
        skipped, self._skipped_count = self._skipped_count, 0
        try:
            table = f" of table {self._table_of(region_id)!r}"
        except RegionServerError:
            table = ""
        rows = f" of {row_count} row{'s' if row_count > 1 else ''}" if row_count else ""
        others = f" (and {skipped} other slow calls since the last line)" if skipped else ""
        logger.warning("slow %s%s in region %d%s: %.1f s%s", what, rows, region_id, table, now - began, others)
