"""How a rate is measured on a machine that is never quiet: in turns, alternating with what it is compared to.

The two sides of a ratio take short turns, A B, B A, A B, ..., and each pair of neighbours gives one ratio. A moment
in which the machine is slow hits both sides of a pair, so the ratios agree where the rates do not. The median of
them is judged; the lowest and the highest are shown beside it.
"""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

# Works for a turn; answers how many operations a second it did.
Turn = Callable[[], float]
# One operation; it does not return before the operation is done and acknowledged.
Operation = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Spread:
    """What the samples of one quantity were."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Spread:
        """Of at least one sample."""
        if not samples:
            raise ValueError("a spread needs at least one sample")
        return cls(statistics.median(samples), min(samples), max(samples))


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure as measured. `details` are the quantities that it was made of, by what they are called."""

    value: Spread
    details: Mapping[str, Spread] = field(default_factory=dict)


def ratio(ours_name: str, ours: Turn, baseline_name: str, baseline: Turn, rounds: int) -> Measurement:
    """Ours divided by the baseline. One more round, the first, warms both up and is not counted."""
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
    """Operations a second of one caller that waits for each; of one operation at least."""
    count = 0
    now = start = time.perf_counter()
    stop = start + seconds
    while not count or now < stop:
        operation()
        count += 1
        now = time.perf_counter()
    return count / (now - start)


def rate_of_threads(operations: Sequence[Operation], seconds: float) -> float:
    """Operations a second of as many callers at once as there are operations, each waiting for its own.

    Each makes one at least. The first exception of a caller is raised here, when all have ended.
    """
    counts = [0] * len(operations)
    failures: list[BaseException] = []
    everybody_is_there = threading.Barrier(len(operations) + 1)
    stop = math.inf

    def call(number: int, operation: Operation) -> None:
        everybody_is_there.wait()
        try:
            while not counts[number] or time.perf_counter() < stop:
                operation()
                counts[number] += 1
        except BaseException as failure:  # a thread that dies quietly would pass for a slow one
            failures.append(failure)

    threads = [threading.Thread(target=call, args=item) for item in enumerate(operations)]
    for thread in threads:
        thread.start()
    start = time.perf_counter()
    stop = start + seconds
    everybody_is_there.wait()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - start
    if failures:
        raise failures[0]
    return sum(counts) / elapsed


def once(operation: Operation, count: int) -> float:
    """Things a second, where one operation does `count` of them."""
    start = time.perf_counter()
    operation()
    return count / (time.perf_counter() - start)


def latencies_while(operation: Operation, going_on: Callable[[], bool]) -> list[float]:
    """Seconds that each operation took, one after the other, for as long as something goes on."""
    taken: list[float] = []
    while going_on():
        start = time.perf_counter()
        operation()
        taken.append(time.perf_counter() - start)
    return taken


def latencies_during(operation: Operation, work: Callable[[], object]) -> list[float]:
    """The same for as long as the work takes, which is done by a thread of its own. Raises what the work raised."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as failure:  # shown by the measuring thread
            failures.append(failure)

    worker = threading.Thread(target=run)
    worker.start()
    taken = latencies_while(operation, worker.is_alive)
    worker.join()
    if failures:
        raise failures[0]
    return taken


def percentile(samples: Sequence[float], percent: float) -> float:
    """The smallest sample that at least `percent` of all samples do not exceed."""
    if not samples:
        raise ValueError("a percentile needs at least one sample")
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]
