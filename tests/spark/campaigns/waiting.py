"""Waiting for a state that another process brings about."""

from __future__ import annotations

import time
from collections.abc import Callable

_WAIT_S_MAX = 600.0


def until(is_so: Callable[[], object]) -> None:
    """Returns when it is so; AssertionError when it does not come to be."""
    stop = time.monotonic() + _WAIT_S_MAX
    while not is_so():
        assert time.monotonic() < stop, "waited in vain"
        time.sleep(0.02)
