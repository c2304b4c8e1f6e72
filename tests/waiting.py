"""How long a test waits for something that has to happen."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

# Long enough for a loaded machine. Broken builds wait less: there, the end of the wait is the expected result.
WAIT_S = float(os.environ.get("ROWLOCK_TEST_WAIT_S", "120"))
# Between two looks.
_LOOK_S = 0.002


def wait_until(holds: Callable[[], bool], seconds: float = WAIT_S) -> None:
    """Blocks until the condition holds, for states without a notification. Raises AssertionError if it is too late."""
    ends_at = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends_at, "it did not come to that"
        threading.Event().wait(_LOOK_S)
