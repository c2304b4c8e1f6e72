"""Write numbers and read points: which writes a read sees.

Invariants
1. Write numbers are handed out in order, without a gap, under the log's order lock: log order is their order.
2. The read point is the highest number r such that every write up to r has completed. It never goes back, and it
   never passes an incomplete write: a completed write behind an incomplete one waits.
3. A reader's read point is registered before it looks at any cell, and code that drops cells first asks
   `protected_read_points()`. A cell stays while a registered reader may see it, or the current read point, or a later
   one.
4. A caller that waits for a number is notified after the read point has reached it, in the order of the numbers.

Example: three writers begin 5, 6 and 7; 6 completes first.

    begun      5 6 7
    completed    6          read point 4: 5 is still open
    completed  5 6          read point 6: 5 and 6 were published together
    completed  5 6 7        read point 7

The lock here is a leaf: nothing else is taken, and nobody is called, while it is held.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType

from rowlock_regionserver.cells import ProtectedReadPoints, ReadPoint, from_then_on
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.errors import DiskFullError, UnknownOutcomeError

logger = logging.getLogger(__name__)

# Dropping cells takes time in proportion to it.
PROTECTED_SPANS_MAX = 32

# How often who waits for a number asks whether the log waits for space.
_LOOK_AGAIN_S = 1.0

# Called once, with the error when the write will never be published.
Waiter = Callable[[UnknownOutcomeError | None], None]


@dataclass(frozen=True, slots=True)
class MvccStatistics:
    """What the counter and its readers are at."""

    last_write_number: int
    read_point: int
    open_writes: int  # begun and not yet published
    waiters: int
    registered_readers: int
    oldest_read_point: int


class Mvcc:
    """One region's write numbers. Thread-safe; no method blocks for longer than its lock."""

    def __init__(self, last_write_number: int, clock: Clock) -> None:
        assert last_write_number >= 0, last_write_number
        self._clock = clock
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._last = last_write_number
        self._read_point = last_write_number
        self._completed: set[int] = set()  # beyond the read point
        self._waiters: dict[int, list[Waiter]] = {}
        self._readers: dict[int, int] = {}
        self._failure: UnknownOutcomeError | None = None

    @property
    def read_point(self) -> int:
        """The newest published write number, at this moment."""
        return self._read_point

    @property
    def last(self) -> int:
        """The newest write number handed out."""
        return self._last

    def begin(self) -> int:
        """The next write number. The caller holds the log's order lock, and completes the number, come what may."""
        with self._lock:
            self._last += 1
            return self._last

    def complete(self, write_number: int) -> None:
        """Says that a write is durable as it asked, or that it is empty; then tells whom this publishes.

        Once for each number, in any order. What a waiter raises ends here.
        """
        with self._lock:
            assert self._read_point < write_number <= self._last, (self._read_point, write_number, self._last)
            published = write_number == self._read_point + 1
            if not published:
                assert write_number not in self._completed, write_number
                self._completed.add(write_number)
                return
            told = self._waiters.pop(write_number, [])
            while write_number + 1 in self._completed:
                write_number += 1
                self._completed.remove(write_number)
                told += self._waiters.pop(write_number, ())
            self._read_point = write_number
        _tell(told, None)

    def restore(self, write_number: int) -> None:
        """Takes over a write that recovery found in the log: it and all before it are published. Numbers ascend."""
        with self._lock:
            assert self._last == self._read_point <= write_number, (self._last, self._read_point, write_number)
            self._last = self._read_point = write_number

    def when_published(self, write_number: int, waiter: Waiter) -> None:
        """Calls the waiter once the read point has reached the number: at once, in this thread, or later in another."""
        with self._lock:
            failure = self._failure
            waits = self._read_point < write_number
            if waits and failure is None:
                assert write_number <= self._last, (write_number, self._last)
                self._waiters.setdefault(write_number, []).append(waiter)
                return
        waiter(failure if waits else None)

    def wait_until_published(self, write_number: int, log_waits_for_space: Callable[[], bool] = lambda: False) -> None:
        """Blocks until the read point has reached the number. Raises UnknownOutcomeError when it never will.

        DiskFullError when it has not and the log waits for disk space, which is asked now and then.
        """
        event = threading.Event()
        errors: list[UnknownOutcomeError] = []

        def told(error: UnknownOutcomeError | None) -> None:
            if error is not None:
                errors.append(error)
            event.set()

        self.when_published(write_number, told)
        while not event.is_set():
            if log_waits_for_space():
                self._withdraw(write_number, told)
                raise DiskFullError(
                    "there is no space for the log, and changes of the region wait for it; free some disk space: they "
                    "go on by themselves"
                )
            event.wait(_LOOK_AGAIN_S)
        if errors:
            raise errors[0]

    def _withdraw(self, write_number: int, waiter: Waiter) -> None:
        """The waiter need not be told any more, if it was not already."""
        with self._lock:
            waiters = self._waiters.get(write_number, [])
            if waiter in waiters:
                waiters.remove(waiter)

    def fail(self, failure: UnknownOutcomeError) -> None:
        """Tells everybody who waits, now or later, that nothing more will be published."""
        with self._lock:
            self._failure = failure
            told = [waiter for number in sorted(self._waiters) for waiter in self._waiters[number]]
            self._waiters.clear()
        _tell(told, failure)

    def reading(self) -> Reading:
        """Registers the current read point for as long as the returned context is entered."""
        return Reading(self)

    def protected_read_points(self) -> ProtectedReadPoints:
        """Where anybody may read, now or later: at the registered read points, and from the current one on.

        Of many registered ones neighbours are put together into spans, PROTECTED_SPANS_MAX at most.
        """
        with self._lock:
            current = self._read_point
            registered = sorted(self._readers) if self._readers else []
        if registered and registered[-1] == current:
            registered.pop()
        in_one = -(-len(registered) // (PROTECTED_SPANS_MAX - 1))
        groups = [registered[first : first + in_one] for first in range(0, len(registered), in_one or 1)]
        return (*((group[0], group[-1]) for group in groups), *from_then_on(current))

    def open_read_point(self) -> ReadPoint:
        """Takes and registers the current read point, in one step; `close_read_point` must follow."""
        now_ms = self._clock.now_ms()
        with self._lock:
            number = self._read_point
            self._readers[number] = self._readers.get(number, 0) + 1
        return ReadPoint(number, now_ms)

    def reopen_read_point(self, read_point: ReadPoint) -> None:
        """Registers once more what is registered, and so still sees all that it saw; `close_read_point` must follow."""
        number = read_point.write_number
        with self._lock:
            assert number in self._readers, f"read point {number} is not registered, so what it saw may be gone"
            self._readers[number] += 1

    def close_read_point(self, read_point: ReadPoint) -> None:
        """Ends what `open_read_point` or `reopen_read_point` began."""
        number = read_point.write_number
        with self._lock:
            count = self._readers[number] - 1
            if count:
                self._readers[number] = count
            else:
                del self._readers[number]

    def statistics(self) -> MvccStatistics:
        with self._lock:
            return MvccStatistics(
                last_write_number=self._last,
                read_point=self._read_point,
                open_writes=self._last - self._read_point,
                waiters=sum(len(waiters) for waiters in self._waiters.values()),
                registered_readers=sum(self._readers.values()),
                oldest_read_point=min(self._readers, default=self._read_point),
            )

    def _check(self) -> None:
        """Asserts the invariants; for tests."""
        with self._lock:
            assert self._read_point <= self._last
            assert all(self._read_point + 1 < number <= self._last for number in self._completed)
            assert all(self._read_point < number <= self._last for number in self._waiters)
            assert all(number <= self._read_point and count > 0 for number, count in self._readers.items())


def _tell(waiters: Sequence[Waiter], failure: UnknownOutcomeError | None) -> None:
    for waiter in waiters:
        try:
            waiter(failure)
        except Exception:
            # A bug, or too little memory, in one answer. The others are told all the same, and who writes the log hears
            # nothing of it: it would take that for a failed sync.
            logger.exception("unexpected error while telling what became of a write")


class Reading:
    """A registered read point as a context; it can't be forgotten."""

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
