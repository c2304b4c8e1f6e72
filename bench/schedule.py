"""When the calls of an open loop are due, and a loop of callers that keeps to it.

In an open loop calls come at a rate that does not depend on the answers, as those of many independent users do. The
latency of a call counts from the moment at which it was due, also if all callers were busy then. So one slow moment
shows in all calls that were due in it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from random import Random

from bench.histogram import Histogram

_NANOSECONDS = 1_000_000_000


def even(rate: float, seconds: float) -> Iterator[int]:
    """Yields the nanoseconds from the start at which calls are due, `rate` a second, at equal distances."""
    _check_rate(rate)
    for number in count():
        due = round(number * _NANOSECONDS / rate)
        if due >= seconds * _NANOSECONDS:
            return
        yield due


def poisson(rate: float, seconds: float, random: Random) -> Iterator[int]:
    """Yields the same at random distances with the mean of `rate`: calls of many users that do not know each other."""
    _check_rate(rate)
    due = random.expovariate(rate)
    while due < seconds:
        yield round(due * _NANOSECONDS)
        due += random.expovariate(rate)


def _check_rate(rate: float) -> None:
    if rate <= 0:
        raise ValueError(f"the rate of an open loop must be positive, not {rate}")


class Due:
    """Hands out the due times of one schedule to several callers. Thread-safe."""

    def __init__(self, schedule: Iterator[int], start: int) -> None:
        """`start` is the nanosecond of time.perf_counter_ns() to which the schedule is relative."""
        self._schedule = schedule
        self._start = start
        self._lock = threading.Lock()

    def next(self) -> int | None:
        """Returns when the next call is due, by time.perf_counter_ns(); None at the end."""
        with self._lock:
            due = next(self._schedule, None)
        return None if due is None else self._start + due


def open_loop(operations: Sequence[Callable[[], object]], schedule: Iterator[int]) -> Histogram:
    """Makes the calls of a schedule, each by the first caller that is free; returns their latencies since each was due.

    Each operation has a thread of its own. Raises the first exception of a caller, after all have ended.
    """
    due_times = Due(schedule, time.perf_counter_ns())
    latencies = Histogram()
    failures: list[BaseException] = []
    lock = threading.Lock()

    def call(operation: Callable[[], object]) -> None:
        own = Histogram()
        try:
            while not failures and (due := due_times.next()) is not None:
                wait = due - time.perf_counter_ns()
                if wait > 0:
                    time.sleep(wait / _NANOSECONDS)
                operation()
                own.record(time.perf_counter_ns() - due)
        except BaseException as failure:  # a thread that died unnoticed would look like a slow one
            failures.append(failure)
        with lock:
            latencies.add(own)

    threads = [threading.Thread(target=call, args=(operation,)) for operation in operations]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return latencies
