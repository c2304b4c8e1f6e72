"""A condition variable that tells who waits on it: for tests of what a thread does before it is woken."""

from __future__ import annotations

import threading


class Watched(threading.Condition):
    def __init__(self, lock: threading.Lock | threading.RLock) -> None:
        super().__init__(lock)
        # Guarded by the lock:
        self.waiting_count = 0
        self.notified_count = 0
        self.timeouts: list[float | None] = []  # of every wait there was
        self.is_interrupted = False

    def wait(self, timeout: float | None = None) -> bool:
        self.timeouts.append(timeout)
        if self.is_interrupted:
            raise KeyboardInterrupt
        self.waiting_count += 1
        try:
            return super().wait(timeout)
        finally:
            self.waiting_count -= 1

    def notify(self, n: int = 1) -> None:
        self.notified_count += 1
        super().notify(n)
