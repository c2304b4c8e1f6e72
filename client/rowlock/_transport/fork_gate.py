"""A gate that keeps calls and forks apart: no call runs while a thread forks, and every wait ends.

    a thread that calls:   with gate: ...                  one call, or one wait inside a call
    a thread that forks:   gate.close(quiesce) ... fork ... gate.open()

1. The first thread that forks closes the gate and quiesces the process, see `close`. Threads that want to fork
   meanwhile wait for that, then fork concurrently. The last one opens the gate. So ten forks at once cost as much as
   one.
2. A thread that wants to fork when the process has been quiescent for _JOIN_S_MAX waits until the gate was open
   again. Calls that wait for the gate pass it before any later fork. So calls and forks can't starve each other.
3. A thread may fork during its own call, in a signal handler for instance. It does not deadlock on itself, because all
   waits for calls have a time limit.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

# How long calls in flight may take to end. Calls that take longer are cut off and retried.
_END_S_MAX = 0.2
# How long calls that must not be retried may take to end: a change of a table has an unknown outcome if it is cut off.
_UNREPEATABLE_END_S_MAX = 2.0
# How long calls that were cut off may take to return.
_CUT_S_MAX = 1.0
# How long after the process became quiescent another thread may join the fork; later ones wait for the gate to open.
_JOIN_S_MAX = 0.2


class ForkGate:
    """A context manager for calls. Thread-safe.

    A call passes the open gate without a lock. Appending to a deque and popping from it are atomic; a call appends
    first and then looks at the gate, and a fork closes the gate first and then counts the calls.

    If Ctrl-C comes while a call enters or leaves the gate, the call may stay counted. Each later fork then waits 1.2 s
    for it, and continues. No count in Python is exact here, because KeyboardInterrupt may come at the first instruction
    of `__exit__`, too. To block SIGINT in every call (_uninterrupted.py) would cost two system calls each time.
    """

    def __init__(
        self,
        *,
        end_s_max: float = _END_S_MAX,
        unrepeatable_end_s_max: float = _UNREPEATABLE_END_S_MAX,
        cut_s_max: float = _CUT_S_MAX,
        join_s_max: float = _JOIN_S_MAX,
        condition: threading.Condition | None = None,
    ) -> None:
        """condition: what threads wait on; None: one of its own.

        Its lock must be reentrant, because a signal handler may fork while its thread holds the lock.
        """
        self._end_s_max = end_s_max
        self._unrepeatable_end_s_max = unrepeatable_end_s_max
        self._cut_s_max = cut_s_max
        self._join_s_max = join_s_max
        self._condition = condition or threading.Condition(threading.RLock())
        # One entry per call.
        self._under_way: deque[None] = deque()
        self._unrepeatable: deque[None] = deque()
        # Written under the condition, read without it.
        self._is_closed = False
        # Guarded by self._condition:
        self._waiting = 0  # calls that wait for the gate to open
        self._opened = 0  # how often it was opened
        self._forking: dict[int, int] = {}  # threads between `close` and `open`, and their nesting depth
        self._is_quiescent = False
        self._join_until = 0.0

    # Calls

    def __enter__(self) -> None:
        self._under_way.append(None)
        if self._is_closed:
            self._wait_for_open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._under_way.pop()
        if self._is_closed:
            with self._condition:
                self._condition.notify_all()

    @contextmanager
    def unrepeatable(self) -> Iterator[None]:
        """A context manager for a call that must not be retried after it was sent; else like `with gate`."""
        with self:
            self._unrepeatable.append(None)
            try:
                yield
            finally:
                self._unrepeatable.pop()

    def _wait_for_open(self) -> None:
        """Leaves the count of calls and waits for the gate to open, which counts all waiting calls again."""
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

    def close(self, quiesce: Callable[[], None]) -> None:
        """Closes the gate. Returns when no call is in flight, or after the time limits.

        The first thread that forks gives calls a moment to end, then calls `quiesce`, which cuts off the others.
        """
        me = threading.get_ident()
        with self._condition:
            if me in self._forking:
                self._forking[me] += 1  # A signal handler forks while its thread is about to fork.
                return
            while self._forking and self._is_quiescent and time.monotonic() > self._join_until:
                self._condition.wait()
            self._forking[me] = 1
            if len(self._forking) > 1:
                while not self._is_quiescent:
                    self._condition.wait()
                return
            self._is_closed = True
        try:
            self._quiesce(quiesce)
        finally:
            with self._condition:
                self._is_quiescent = True
                self._join_until = time.monotonic() + self._join_s_max
                self._condition.notify_all()

    def _quiesce(self, quiesce: Callable[[], None]) -> None:
        with self._condition:
            self._condition.wait_for(lambda: not self._under_way, self._end_s_max)
            self._condition.wait_for(lambda: not self._unrepeatable, self._unrepeatable_end_s_max)
        quiesce()
        with self._condition:
            self._condition.wait_for(lambda: not self._under_way, self._cut_s_max)

    def open(self, when_open: Callable[[], None]) -> None:
        """Ends this thread's fork. The last thread that forks opens the gate, and then calls `when_open`."""
        me = threading.get_ident()
        with self._condition:
            depth = self._forking.pop(me, 0)
            if depth > 1:
                self._forking[me] = depth - 1
            if self._forking or not self._is_closed:
                return
            self._is_closed = self._is_quiescent = False
            # They count as calls from here on, even if the next fork closes the gate before they wake.
            self._under_way.extend([None] * self._waiting)
            self._waiting = 0
            self._opened += 1
            self._condition.notify_all()
        when_open()
