"""What a call that works in bulk says while it waits for a server: one line of the log every ten seconds."""

from __future__ import annotations

import logging

from rowlock.errors import RowlockError

_log = logging.getLogger("rowlock")

EVERY_S = 10.0


class Waiting:
    """Notes since when a call waits. Times are seconds on time.monotonic(). Not thread-safe."""

    __slots__ = ("_say_at", "_since", "_what")

    def __init__(self, what: str) -> None:
        """what: who waits, as a line of the log begins."""
        self._what = what
        self._since: float | None = None
        self._say_at = 0.0

    def met(self, error: RowlockError, server: str, now: float, given_up_at: float) -> None:
        """Something that is waited out. server: which, empty where that is not known."""
        if self._since is None:
            self._since, self._say_at = now, now + EVERY_S
        if now < self._say_at:
            return
        self._say_at = now + EVERY_S
        _log.warning(
            "%s has waited %.0f s for the server%s, and waits %.0f s more at most: %s",
            self._what,
            now - self._since,
            f" at {server}" if server else "",
            max(0.0, given_up_at - now),
            error.message,
        )

    def over(self) -> None:
        """The call has made progress; the next wait is counted from its own start."""
        self._since = None
