"""Log lines of a bulk call that waits for a server: one every ten seconds."""

from __future__ import annotations

import logging

from rowlock.errors import RowlockError

_log = logging.getLogger("rowlock")

EVERY_S = 10.0


class Waiting:
    """Measures and logs the wait of one call. Times are seconds on time.monotonic(). Not thread-safe."""

    __slots__ = ("_log_at", "_since", "_what")

    def __init__(self, what: str) -> None:
        """what: names the call, at the start of each log line."""
        self._what = what
        self._since: float | None = None
        self._log_at = 0.0

    def failed(self, error: RowlockError, server: str, now: float, ends_at: float) -> None:
        """Records a failure; the call waits until ends_at at most. server: its address; empty if unknown."""
        if self._since is None:
            self._since, self._log_at = now, now + EVERY_S
        if now < self._log_at:
            return
        self._log_at = now + EVERY_S
        _log.warning(
            "%s has waited %.0f s for the server%s and will wait at most %.0f s more: %s",
            self._what,
            now - self._since,
            f" at {server}" if server else "",
            max(0.0, ends_at - now),
            error.message,
        )

    def progressed(self) -> None:
        """Ends the wait, because the call has made progress."""
        self._since = None
