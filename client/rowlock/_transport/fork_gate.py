"""The gate between calls and forks: while threads fork no call is under way, and nobody waits for ever.

    thread that calls:   with gate: ...                    one call, or one wait inside a call
    thread that forks:   gate.close(quieten) ... fork ... gate.open()

1. The first thread that forks closes the gate and quietens the process, see `close`. Threads that fork meanwhile wait
   for that and fork then, side by side; the last one opens the gate. So ten forks at once cost as much as one.
2. A thread that comes to fork when the process has been quiet for _JOINED_S_MAX waits until the gate has been open
   again, and calls that wait for the gate pass it before any later fork. So neither kind holds back the other.
3. A thread that forks in the middle of its own call, in a signal handler say, does not wait for itself for ever: all
   waits for calls have an end.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

# How long calls that are under way may take to end by themselves. Those that take longer are cut off and tried again.
_END_S_MAX = 0.2
# The same for calls that must not be tried again: a change of a table that is cut off has an unknown outcome.
_UNREPEATABLE_END_S_MAX = 2.0
# How long calls that were cut off may take to notice.
_CUT_S_MAX = 1.0
# How long after it became quiet a thread may still fork without waiting for the gate to open in between.
_JOINED_S_MAX = 0.2


class ForkGate:
    """Thread-safe. Passing it open takes no lock, since every call does: adding to a deque and removing from it are
    atomic, and a call adds first and looks at the gate then, while a fork closes it first and counts then."""

    def __init__(
        self,
        *,
        end_s_max: float = _END_S_MAX,
        unrepeatable_end_s_max: float = _UNREPEATABLE_END_S_MAX,
        cut_s_max: float = _CUT_S_MAX,
        joined_s_max: float = _JOINED_S_MAX,
        condition: threading.Condition | None = None,
    ) -> None:
        """condition: what threads wait on; None: one of its own. Its lock must be reentrant, because a signal handler
        may fork while its thread is in here."""
        self._end_s_max = end_s_max
        self._unrepeatable_end_s_max = unrepeatable_end_s_max
        self._cut_s_max = cut_s_max
        self._joined_s_max = joined_s_max
        self._condition = condition or threading.Condition(threading.RLock())
        # One entry a call.
        self._under_way: deque[None] = deque()
        self._unrepeatable: deque[None] = deque()
        # Set with the condition held, read by anybody.
        self._is_closed = False
        # Guarded by self._condition:
        self._waiting = 0  # calls that wait for the gate to open
        self._opened = 0  # how often it was opened
        self._forking: dict[int, int] = {}  # threads between `close` and `open`, and how deep each is in there
        self._is_quiet = False
        self._joined_until = 0.0

    # Calls

    def __enter__(self) -> None:
        self._under_way.append(None)
        if self._is_closed:
            self._pass_later()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._under_way.pop()
        if self._is_closed:
            with self._condition:
                self._condition.notify_all()

    @contextmanager
    def unrepeatable(self) -> Iterator[None]:
        """As `with gate`, for a call that must not be tried again once it is sent."""
        with self:
            self._unrepeatable.append(None)
            try:
                yield
            finally:
                self._unrepeatable.pop()

    def _pass_later(self) -> None:
        """Steps back until the gate opens, which lets in all that wait."""
        with self._condition:
            if not self._is_closed:
                return
            self._under_way.pop()
            self._condition.notify_all()
            opened = self._opened
            self._waiting += 1
            try:
                while self._opened == opened:
                    self._condition.wait()
            except BaseException:
                if self._opened == opened:
                    self._waiting -= 1
                else:
                    self._under_way.pop()
                raise

    # Forks

    def close(self, quieten: Callable[[], None]) -> None:
        """Returns when no call is under way, or when waiting for those that are would take too long.

        The first of the threads that fork gives calls a moment to end, then calls `quieten`, which cuts off the rest.
        """
        me = threading.get_ident()
        with self._condition:
            if me in self._forking:
                self._forking[me] += 1  # A signal handler forks while its thread is about to.
                return
            while self._forking and self._is_quiet and time.monotonic() > self._joined_until:
                self._condition.wait()
            self._forking[me] = 1
            if len(self._forking) > 1:
                while not self._is_quiet:
                    self._condition.wait()
                return
            self._is_closed = True
        try:
            self._quieten(quieten)
        finally:
            with self._condition:
                self._is_quiet = True
                self._joined_until = time.monotonic() + self._joined_s_max
                self._condition.notify_all()

    def _quieten(self, quieten: Callable[[], None]) -> None:
        with self._condition:
            self._condition.wait_for(lambda: not self._under_way, self._end_s_max)
            self._condition.wait_for(lambda: not self._unrepeatable, self._unrepeatable_end_s_max)
        quieten()
        with self._condition:
            self._condition.wait_for(lambda: not self._under_way, self._cut_s_max)

    def open(self, when_open: Callable[[], None]) -> None:
        """This thread has forked. The last one of those that fork opens the gate, and calls `when_open` then."""
        me = threading.get_ident()
        with self._condition:
            depth = self._forking.pop(me, 0)
            if depth > 1:
                self._forking[me] = depth - 1
            if self._forking or not self._is_closed:
                return
            self._is_closed = self._is_quiet = False
            # They have passed from here on, also if the next fork closes the gate before they wake.
            self._under_way.extend([None] * self._waiting)
            self._waiting = 0
            self._opened += 1
            self._condition.notify_all()
        when_open()
