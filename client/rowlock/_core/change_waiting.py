"""When a change feed that has read all looks for further changes, without I/O.

A look costs the server little, but to read few new changes it may have to pass all that is in memory. So a feed waits
in proportion to the time that its reading took, and leaves the server most of its time.
"""

from __future__ import annotations

import math

from rowlock.errors import InvalidArgumentError

# Between two looks, at least and at most; and after a reading, this many times its duration.
_PAUSE_S_MIN, _PAUSE_S_MAX = 0.2, 5.0
_SHARE = 4


class ChangeWaiting:
    """The waiting of one feed. Times are seconds on one monotonic clock. Used by one thread or task at a time."""

    def __init__(self, follow_s: float) -> None:
        """follow_s: for how long to wait for a change; 0: not at all. Raises InvalidArgumentError and TypeError."""
        if isinstance(follow_s, bool) or not isinstance(follow_s, int | float):
            raise TypeError(f"follow_s must be a number of seconds, or math.inf, not {follow_s!r}")
        if math.isnan(follow_s) or follow_s < 0:
            raise InvalidArgumentError(f"follow_s must be 0 seconds or more, or math.inf, not {follow_s}")
        self._follow_s = follow_s
        self._ends_at = 0.0
        self._has_ended = False
        self._read_s = 0.0

    def has_read(self, seconds: float) -> None:
        """Notes that an answer with changes took this long."""
        self._read_s += seconds

    def begin(self, now: float) -> None:
        """Begins to wait: all was read."""
        self._ends_at = now + self._follow_s

    def pause_s(self, now: float) -> float | None:
        """Returns how long to wait before the next look; None, from then on, if the feed ends.

        The last look is at the end.
        """
        if self._has_ended or now >= self._ends_at:
            self._has_ended = True
            return None
        pause = min(max(_PAUSE_S_MIN, _SHARE * self._read_s), _PAUSE_S_MAX)
        self._read_s = 0.0
        return min(pause, self._ends_at - now)
