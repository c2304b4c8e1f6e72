"""A clock that also runs while the machine is suspended, as a server's on another machine does."""

from __future__ import annotations

import time

# Linux has a clock of its own for this; elsewhere the monotonic clock of the system is one (Python's may not be).
_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def uptime_s() -> float:
    """Seconds from an arbitrary start; never goes back."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)
