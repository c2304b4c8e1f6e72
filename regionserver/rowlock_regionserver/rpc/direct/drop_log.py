"""The log lines of refused and dropped connections: one a second at most, however many there are."""

from __future__ import annotations

import logging

from rowlock_regionserver.clock import Clock

logger = logging.getLogger("rowlock_regionserver.rpc.direct")

_SECONDS_MIN = 1.0


class DropLog:
    """Used on the event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next_at = 0.0
        self._skipped_count = 0
        self.count = 0

    def dropped(self, peer: str, reason: str) -> None:
        """Logs that a connection was refused or dropped, unless there was a line within the last second."""
        self.count += 1
        now = self._clock.monotonic()
        if now < self._next_at:
            self._skipped_count += 1
            return
        self._next_at = now + _SECONDS_MIN
        skipped, self._skipped_count = self._skipped_count, 0
        others = f" (and {skipped} other connections since the last line)" if skipped else ""
        logger.warning("closed the direct connection of %s: %s%s", peer, reason, others)
