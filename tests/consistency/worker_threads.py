"""The threads of a campaign, which run until they are stopped; their failures are recorded."""

from __future__ import annotations

import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from types import TracebackType

from tests.crash.account import Account

JOIN_SECONDS = 120.0


class WorkerThreads:
    """A context: leaving it stops and joins all threads. Their counts and problems then stand in the account.

    What a thread raises is a problem, and stops the others. `count`, `problem` and `has_work` are thread-safe.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self._threads: list[threading.Thread] = []
        self._stop = threading.Event()
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._counts: Counter[str] = Counter()
        self._problems: list[str] = []

    @property
    def has_work(self) -> bool:
        """Whether the threads should continue."""
        return not self._stop.is_set()

    def start(self, name: str, work: Callable[[], None]) -> None:
        """Starts a thread that runs the work once; the work must watch `has_work`."""
        thread = threading.Thread(target=self._run, args=(name, work), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def repeat(self, name: str, turn: Callable[[], None]) -> None:
        """Starts a thread that runs one turn after the other while `has_work`."""

        def work() -> None:
            while self.has_work:
                turn()

        self.start(name, work)

    def count(self, what: str, amount: int = 1) -> None:
        with self._lock:
            self._counts[what] += amount

    def counted(self, what: str) -> int:
        with self._lock:
            return self._counts[what]

    def problem(self, text: str) -> None:
        """Records a broken promise."""
        with self._lock:
            self._problems.append(text)

    def wait(self, seconds: float) -> bool:
        """Waits while the threads work, at most `seconds`; returns False when one failed before."""
        return not self._stop.wait(seconds)

    def wait_until(self, is_enough: Callable[[], bool], seconds_max: float) -> None:
        """Waits until the condition holds, at most `seconds_max`."""
        deadline = time.monotonic() + seconds_max
        while not is_enough() and time.monotonic() < deadline and self.wait(0.02):
            pass

    def stop(self) -> None:
        """Stops the threads, and waits until they have ended."""
        self._stop.set()
        deadline = time.monotonic() + JOIN_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                self.problem(f"thread {thread.name} did not end within {JOIN_SECONDS:.0f} s")
        self._threads.clear()

    def __enter__(self) -> WorkerThreads:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._account.counts.update(self._counts)
        self._account.problems += self._problems

    def _run(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException:
            self.problem(f"thread {name} failed: {traceback.format_exc()}")
            self._stop.set()
