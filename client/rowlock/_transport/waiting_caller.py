"""Where a caller of a direct connection waits (threads)."""

from __future__ import annotations

import _thread


class WaitingCaller:
    """Where a caller that is not the reader waits. Guarded by the connection's lock, except for `lock` itself."""

    __slots__ = ("is_open", "lock")

    def __init__(self) -> None:
        self.lock = _thread.allocate_lock()
        self.lock.acquire()
        self.is_open = False

    def open(self) -> None:
        """Wakes the caller. Idempotent."""
        if not self.is_open:
            self.is_open = True
            self.lock.release()

    def shut(self) -> None:
        """Lets the caller wait again."""
        if self.is_open:
            self.is_open = False
            self.lock.acquire(False)


def wake_no_caller() -> None:
    """Wakes a caller that does not wait."""


# Where the reader waits, that is nowhere: it reads until its request is done, or has failed.
NOWHERE = WaitingCaller()
