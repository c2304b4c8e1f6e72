"""A clock that keeps running while the machine is suspended, as the clock of a server on another machine does."""

from __future__ import annotations

import time

# On Linux CLOCK_BOOTTIME is such a clock; elsewhere CLOCK_MONOTONIC is (time.monotonic() may not be).
_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def uptime_s() -> float:
    """Returns seconds since an arbitrary start; never goes back."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)
