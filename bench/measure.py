"""Measures rates on a noisy machine, in turns that alternate with the baseline.

The two sides of a ratio take short turns, A B, B A, A B, ..., and each pair of neighbours gives one ratio. A moment in
which the machine is slow affects both sides of a pair, so the ratios vary less than the rates. The median ratio is
compared with the target; the lowest and the highest are shown with it.
"""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

# Works for a turn; returns its operations a second.
Turn = Callable[[], float]
# One operation; it returns after the operation is done and acknowledged.
Operation = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Spread:
    """The median and the range of the samples of one quantity."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Spread:
        """Returns the spread of the samples. Raises ValueError without a sample."""
        if not samples:
            raise ValueError("a spread needs at least one sample")
        return cls(statistics.median(samples), min(samples), max(samples))


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure as measured. `details` are the quantities from which it was computed, by name."""

    value: Spread
    details: Mapping[str, Spread] = field(default_factory=dict)


def ratio(ours_name: str, ours: Turn, baseline_name: str, baseline: Turn, rounds: int) -> Measurement:
    """Measures our rate divided by the baseline's. An additional first round warms both up and is not counted."""
    ours_rates: list[float] = []
    baseline_rates: list[float] = []
    for number in range(rounds + 1):
        if number % 2:
            ours_rate, baseline_rate = ours(), baseline()
        else:
            baseline_rate, ours_rate = baseline(), ours()
        if number:
            ours_rates.append(ours_rate)
            baseline_rates.append(baseline_rate)
    return Measurement(
        Spread.of([mine / theirs for mine, theirs in zip(ours_rates, baseline_rates, strict=True)]),
        {ours_name: Spread.of(ours_rates), baseline_name: Spread.of(baseline_rates)},
    )


def rate(operation: Operation, seconds: float) -> float:
    """Returns the operations a second of one caller that waits for each; it makes at least one."""
    count = 0
    now = start = time.perf_counter()
    stop = start + seconds
    while not count or now < stop:
        operation()
        count += 1
        now = time.perf_counter()
    return count / (now - start)


def rate_of_threads(operations: Sequence[Operation], seconds: float) -> float:
    """Returns the operations a second of concurrent callers, one for each operation, which wait for each call.

    Each makes at least one. Raises the first exception of a caller, after all have ended.
    """
    counts = [0] * len(operations)
    failures: list[BaseException] = []
    all_started = threading.Barrier(len(operations) + 1)
    stop = math.inf

    def call(number: int, operation: Operation) -> None:
        all_started.wait()
        try:
            while not counts[number] or time.perf_counter() < stop:
                operation()
                counts[number] += 1
        except BaseException as failure:  # a thread that died unnoticed would look like a slow one
            failures.append(failure)

    threads = [threading.Thread(target=call, args=item) for item in enumerate(operations)]
    for thread in threads:
        thread.start()
    start = time.perf_counter()
    stop = start + seconds
    all_started.wait()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - start
    if failures:
        raise failures[0]
    return sum(counts) / elapsed


def rate_of_one_call(operation: Operation, count: int) -> float:
    """Returns items a second of one operation that processes `count` items."""
    start = time.perf_counter()
    operation()
    return count / (time.perf_counter() - start)


def latencies_while(operation: Operation, is_active: Callable[[], bool]) -> list[float]:
    """Calls the operation repeatedly while is_active(); returns the seconds of each call."""
    latencies: list[float] = []
    while is_active():
        start = time.perf_counter()
        operation()
        latencies.append(time.perf_counter() - start)
    return latencies


def latencies_for(operation: Operation, seconds: float) -> list[float]:
    """Calls the operation repeatedly for so long; returns the seconds of each call."""
    stop = time.perf_counter() + seconds
    return latencies_while(operation, lambda: time.perf_counter() < stop)


def latencies_during(operation: Operation, work: Callable[[], object]) -> list[float]:
    """Calls the operation repeatedly while another thread does the work; returns the seconds of each call.

    Raises what the work raised.
    """
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as failure:  # raised again by the measuring thread
            failures.append(failure)

    worker = threading.Thread(target=run)
    worker.start()
    latencies = latencies_while(operation, worker.is_alive)
    worker.join()
    if failures:
        raise failures[0]
    return latencies


def percentile(samples: Sequence[float], percent: float) -> float:
    """Returns the smallest sample that at least `percent` of all samples do not exceed."""
    if not samples:
        raise ValueError("a percentile needs at least one sample")
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]
