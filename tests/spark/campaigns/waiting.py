"""Waits for a state of another process."""

from __future__ import annotations

import time
from collections.abc import Callable

_WAIT_S_MAX = 600.0


def until(condition: Callable[[], object]) -> None:
    """Returns when the condition is true. Raises AssertionError after ten minutes."""
    stop = time.monotonic() + _WAIT_S_MAX
    while not condition():
        assert time.monotonic() < stop, f"the condition was not true within {_WAIT_S_MAX:g} s"
        time.sleep(0.02)
