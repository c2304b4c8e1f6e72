"""Rates, ratios and percentiles."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import pytest

from bench.measure import (
    Measurement,
    Spread,
    latencies_during,
    latencies_while,
    percentile,
    rate,
    rate_of_one_call,
    rate_of_threads,
    ratio,
)


def test_a_spread_is_the_median_and_both_ends() -> None:
    assert Spread.of([3.0, 1.0, 10.0]) == Spread(3.0, 1.0, 10.0)
    assert Spread.of([2.0]) == Spread(2.0, 2.0, 2.0)


def test_a_spread_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        Spread.of([])


def test_a_ratio_takes_turns_in_alternating_order_and_does_not_count_the_first_round() -> None:
    turns: list[str] = []
    ours_rates: Iterator[float] = iter([1000.0, 10.0, 30.0, 20.0])
    baseline_rates: Iterator[float] = iter([1.0, 5.0, 10.0, 40.0])

    def ours() -> float:
        turns.append("ours")
        return next(ours_rates)

    def baseline() -> float:
        turns.append("baseline")
        return next(baseline_rates)

    measured = ratio("a", ours, "b", baseline, rounds=3)

    assert turns == ["baseline", "ours", "ours", "baseline", "baseline", "ours", "ours", "baseline"]
    assert measured == Measurement(Spread(2.0, 0.5, 3.0), {"a": Spread(20.0, 10.0, 30.0), "b": Spread(10.0, 5.0, 40.0)})


def test_a_slow_moment_that_hits_both_sides_leaves_the_ratio_alone() -> None:
    speeds = [1.0, 0.1, 1.0]
    ours, baseline = iter([9.0, *(8 * speed for speed in speeds)]), iter([9.0, *(10 * speed for speed in speeds)])
    measured = ratio("a", lambda: next(ours), "b", lambda: next(baseline), rounds=3)
    assert measured.value.low == pytest.approx(0.8)
    assert measured.value.high == pytest.approx(0.8)


def test_a_rate_counts_every_operation_of_its_time() -> None:
    calls = 0

    def operation() -> None:
        nonlocal calls
        calls += 1

    assert rate(operation, 0.0) > 0
    assert calls == 1
    calls = 0
    per_second = rate(operation, 0.02)
    assert calls > 0
    # The last one may take as long as it likes.
    assert 0 < per_second <= calls / 0.02


def test_callers_at_once_are_really_at_once() -> None:
    # An operation returns only when all three callers are inside one.
    together = threading.Barrier(3, timeout=30)
    callers: set[int] = set()

    def operation() -> None:
        together.wait()
        callers.add(threading.get_ident())
        if len(callers) == 3:
            together.abort()

    with pytest.raises(threading.BrokenBarrierError):
        rate_of_threads([operation] * 3, 60.0)
    assert len(callers) == 3


def test_a_caller_that_fails_is_not_taken_for_a_slow_one() -> None:
    def fails() -> None:
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError, match="gone"):
        rate_of_threads([fails, lambda: None], 0.0)


def test_one_operation_may_do_many_things() -> None:
    ran: list[None] = []
    assert rate_of_one_call(lambda: ran.append(None), 1000) > 0
    assert len(ran) == 1


def test_latencies_are_taken_for_as_long_as_something_goes_on() -> None:
    going_on = iter([True, True, True, False])
    assert len(latencies_while(lambda: None, lambda: next(going_on))) == 3


def test_latencies_are_taken_for_as_long_as_the_work_takes() -> None:
    may_end = threading.Event()
    calls = itertools.count(1)

    def operation() -> None:
        if next(calls) == 3:
            may_end.set()

    assert len(latencies_during(operation, may_end.wait)) >= 3


def test_work_that_fails_fails_the_measurement() -> None:
    def fails() -> None:
        raise ConnectionError("server gone")

    with pytest.raises(ConnectionError):
        latencies_during(lambda: None, fails)


@pytest.mark.parametrize(
    ("percent", "expected"), [(0, 1.0), (1, 1.0), (50, 50.0), (99, 99.0), (99.5, 100.0), (100, 100.0)]
)
def test_a_percentile_is_a_sample_that_so_many_do_not_exceed(percent: float, expected: float) -> None:
    samples = [float(number) for number in range(100, 0, -1)]
    assert percentile(samples, percent) == expected


def test_a_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        percentile([], 99)
