"""Write numbers and read points: which writes a read sees.

Invariants
1. Write numbers are allocated in order, without a gap, under the log's order lock: log order is their order.
2. The read point is the highest number r such that every write up to r has completed. It never goes back, and it
   never passes an incomplete write: a completed write after an incomplete one waits.
3. A reader registers its read point before it looks at any cell, and code that drops cells first calls
   `protected_read_points()`, and `oldest_now_ms()` if it drops expired cells. A cell stays while it may be visible at
   a registered read point, the current one or a later one, at the time of the reader.
4. A caller that waits for a number is notified after the read point has reached it, in the order of the numbers.

Example: three writers begin 5, 6 and 7; 6 completes first.

    begun      5 6 7
    completed    6          read point 4: 5 is still open
    completed  5 6          read point 6: 5 and 6 were published together
    completed  5 6 7        read point 7

The lock here is a leaf: its holder takes no other lock, and calls no waiter.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType

from rowlock_regionserver.cells import NEWEST, ProtectedReadPoints, ReadPoint, from_then_on
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.errors import DiskFullError, UnknownOutcomeError

logger = logging.getLogger(__name__)

# The time to drop cells is proportional to it.
PROTECTED_SPANS_MAX = 32

# How often a thread that waits for a number checks whether the log waits for space.
_CHECK_AGAIN_S = 1.0

# Called once: with None when the write is published, with the error when it never will be.
Waiter = Callable[[UnknownOutcomeError | None], None]


@dataclass(frozen=True, slots=True)
class MvccStatistics:
    """The counter and its readers at a moment."""

    last_write_number: int
    read_point: int
    open_writes: int  # begun and not yet published
    waiters: int
    registered_readers: int
    oldest_read_point: int


class Mvcc:
    """One region's write numbers. Thread-safe; only `wait_until_published` blocks for longer than its lock."""

    def __init__(self, last_write_number: int, clock: Clock) -> None:
        assert last_write_number >= 0, last_write_number
        self._clock = clock
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._last = last_write_number
        self._read_point = last_write_number
        self._completed: set[int] = set()  # beyond the read point
        self._waiters: dict[int, list[Waiter]] = {}
        self._readers: dict[ReadPoint, int] = {}
        self._retained_after = NEWEST  # written under the lock
        self._failure: UnknownOutcomeError | None = None

    @property
    def read_point(self) -> int:
        """The newest published write number at this moment."""
        return self._read_point

    @property
    def last(self) -> int:
        """The newest allocated write number."""
        return self._last

    def begin(self) -> int:
        """Allocates the next write number. The caller holds the log's order lock, and must complete the number."""
        with self._lock:
            self._last += 1
            return self._last

    def complete(self, write_number: int) -> None:
        """Completes a write that is as durable as requested, or empty; then notifies the waiters of all it publishes.

        Called once for each number, in any order. An exception of a waiter is logged and not raised.
        """
        with self._lock:
            assert self._read_point < write_number <= self._last, (self._read_point, write_number, self._last)
            published = write_number == self._read_point + 1
            if not published:
                assert write_number not in self._completed, write_number
                self._completed.add(write_number)
                return
            waiters = self._waiters.pop(write_number, [])
            while write_number + 1 in self._completed:
                write_number += 1
                self._completed.remove(write_number)
                waiters += self._waiters.pop(write_number, ())
            self._read_point = write_number
        _notify(waiters, None)

    def restore(self, write_number: int) -> None:
        """Publishes a write that recovery found in the log, and all before it. Numbers ascend."""
        with self._lock:
            assert self._last == self._read_point <= write_number, (self._last, self._read_point, write_number)
            self._last = self._read_point = write_number

    def when_published(self, write_number: int, waiter: Waiter) -> None:
        """Calls the waiter when the read point has reached the number: at once in this thread, or later in another."""
        with self._lock:
            failure = self._failure
            is_unpublished = self._read_point < write_number
            if is_unpublished and failure is None:
                assert write_number <= self._last, (write_number, self._last)
                self._waiters.setdefault(write_number, []).append(waiter)
                return
        waiter(failure if is_unpublished else None)

    def wait_until_published(self, write_number: int, log_waits_for_space: Callable[[], bool] = lambda: False) -> None:
        """Blocks until the read point has reached the number.

        Raises UnknownOutcomeError when it never will, and DiskFullError when it has not and the log waits for disk
        space, which is checked every second.
        """
        event = threading.Event()
        errors: list[UnknownOutcomeError] = []

        def notified(error: UnknownOutcomeError | None) -> None:
            if error is not None:
                errors.append(error)
            event.set()

        self.when_published(write_number, notified)
        while not event.is_set():
            if log_waits_for_space():
                self._withdraw(write_number, notified)
                raise DiskFullError(
                    "no disk space for the log, and changes of the region wait for it; free some disk space, and they "
                    "complete by themselves"
                )
            event.wait(_CHECK_AGAIN_S)
        if errors:
            raise errors[0]

    def _withdraw(self, write_number: int, waiter: Waiter) -> None:
        """Removes the waiter, if it was not notified already."""
        with self._lock:
            waiters = self._waiters.get(write_number, [])
            if waiter in waiters:
                waiters.remove(waiter)

    def fail(self, failure: UnknownOutcomeError) -> None:
        """Notifies all waiters, present and later ones, that nothing more will be published."""
        with self._lock:
            self._failure = failure
            waiters = [waiter for number in sorted(self._waiters) for waiter in self._waiters[number]]
            self._waiters.clear()
        _notify(waiters, failure)

    def reading(self) -> RegisteredReadPoint:
        """Returns a context that registers the current read point while it is entered."""
        return RegisteredReadPoint(self)

    def protected_read_points(self) -> ProtectedReadPoints:
        """The read points that a reader may have, now or later: the registered ones, and all from the current one on.

        With a change feed they are all from its horizon on. Returns PROTECTED_SPANS_MAX spans at most: of many
        registered read points, neighbours are merged into one span.
        """
        with self._lock:
            current = min(self._read_point, self._retained_after)
            registered = sorted({number for number, _ in self._readers}) if self._readers else []
        while registered and registered[-1] >= current:
            registered.pop()
        per_span = -(-len(registered) // (PROTECTED_SPANS_MAX - 1))
        groups = [registered[first : first + per_span] for first in range(0, len(registered), per_span or 1)]
        return (*((group[0], group[-1]) for group in groups), *from_then_on(current))

    @property
    def retained_after(self) -> int:
        """The horizon of the change feed: every cell of a greater write number is retained. NEWEST: there is none."""
        return self._retained_after

    def retain_after(self, write_number: int) -> None:
        """Moves the horizon of the change feed. NEWEST: only what readers need is retained."""
        with self._lock:
            self._retained_after = write_number

    def read_points_for_pruning(self) -> ProtectedReadPoints:
        """Returns `protected_read_points`; with a change feed those by which nothing is dropped.

        What is in memory is hardly ever older than what a feed retains.
        """
        return self.protected_read_points() if self._retained_after == NEWEST else from_then_on(0)

    def oldest_now_ms(self) -> int:
        """The least time at which a reader, a registered or a later one, judges which cells have expired.

        A later reader has an earlier time only if the system clock is set back.
        """
        with self._lock:
            return min([self._clock.now_ms(), *(now_ms for _, now_ms in self._readers)])

    def open_read_point(self) -> ReadPoint:
        """Takes and registers the current read point, in one step; `close_read_point` must follow."""
        with self._lock:
            read_point = ReadPoint(self._read_point, self._clock.now_ms())
            self._readers[read_point] = self._readers.get(read_point, 0) + 1
        return read_point

    def reopen_read_point(self, read_point: ReadPoint) -> None:
        """Registers a registered read point again, so it still sees all its cells; `close_read_point` must follow."""
        with self._lock:
            assert read_point in self._readers, f"{read_point} is not registered, so its cells may have been dropped"
            self._readers[read_point] += 1

    def adopt_read_point(self, read_point: ReadPoint) -> None:
        """Registers a read point of another region whose rows and write numbers this one has taken over.

        No cell was dropped since. `close_read_point` must follow.
        """
        with self._lock:
            assert read_point.write_number <= self._read_point, (read_point, self._read_point)
            self._readers[read_point] = self._readers.get(read_point, 0) + 1

    def close_read_point(self, read_point: ReadPoint) -> None:
        """Ends one registration by `open_read_point` or `reopen_read_point`."""
        with self._lock:
            count = self._readers[read_point] - 1
            if count:
                self._readers[read_point] = count
            else:
                del self._readers[read_point]

    def statistics(self) -> MvccStatistics:
        with self._lock:
            return MvccStatistics(
                last_write_number=self._last,
                read_point=self._read_point,
                open_writes=self._last - self._read_point,
                waiters=sum(len(waiters) for waiters in self._waiters.values()),
                registered_readers=sum(self._readers.values()),
                oldest_read_point=min([number for number, _ in self._readers], default=self._read_point),
            )

    def _check(self) -> None:
        """Asserts the invariants; for tests."""
        with self._lock:
            assert self._read_point <= self._last
            assert all(self._read_point + 1 < number <= self._last for number in self._completed)
            assert all(self._read_point < number <= self._last for number in self._waiters)
            assert all(at.write_number <= self._read_point and count > 0 for at, count in self._readers.items())


def _notify(waiters: Sequence[Waiter], failure: UnknownOutcomeError | None) -> None:
    for waiter in waiters:
        try:
            waiter(failure)
        except Exception:
            # A bug, or too little memory, in one waiter. The other waiters are notified all the same, and the log's
            # thread, which calls this, must not see the exception: it would take it for a failed sync.
            logger.exception("unexpected error while notifying a caller of the outcome of its write")


class RegisteredReadPoint:
    """A context in which a read point is registered."""

    __slots__ = ("_mvcc", "_read_point")

    def __init__(self, mvcc: Mvcc) -> None:
        self._mvcc = mvcc
        self._read_point: ReadPoint | None = None

    def __enter__(self) -> ReadPoint:
        self._read_point = self._mvcc.open_read_point()
        return self._read_point

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._read_point is not None
        self._mvcc.close_read_point(self._read_point)
