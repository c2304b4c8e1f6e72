"""An open loop makes its calls when they are due, and counts from then."""

from __future__ import annotations

import itertools
import statistics
import threading
from itertools import pairwise

import pytest

from bench.schedule import Due, even, open_loop, poisson
from tests.seeds import generator_of


def test_even_calls_are_at_equal_distances_until_the_end() -> None:
    due = list(even(rate=4, seconds=2))
    assert due == [number * 250_000_000 for number in range(8)]


def test_random_calls_have_the_mean_of_the_rate_and_other_distances() -> None:
    due = list(poisson(rate=1000, seconds=20, random=generator_of("poisson")))
    assert due == sorted(due)
    assert due[-1] < 20_000_000_000
    distances = [later - earlier for earlier, later in pairwise(due)]
    assert 900_000 < statistics.mean(distances) < 1_100_000
    # Of exponential distances the deviation is the mean.
    assert 0.8 < statistics.stdev(distances) / statistics.mean(distances) < 1.2


@pytest.mark.parametrize("rate", [0, -1])
def test_a_loop_without_a_rate_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        list(even(rate, 1))
    with pytest.raises(ValueError, match="must be positive"):
        list(poisson(rate, 1, generator_of("none")))


def test_callers_share_one_schedule() -> None:
    due = Due(iter([0, 10]), start=1000)
    assert [due.next(), due.next(), due.next()] == [1000, 1010, None]


def test_a_call_that_waited_for_a_slow_one_counts_from_when_it_was_due() -> None:
    # One caller, and three calls due at once: the first lasts until the others are 20 ms late.
    pause, calls = threading.Event(), itertools.count()

    def operation() -> None:
        if next(calls) == 0:
            pause.wait(0.02)

    latencies = open_loop([operation], iter([0, 0, 0]))
    assert latencies.count == 3
    assert latencies.percentile(1) >= 20_000_000


def test_no_call_is_made_before_it_is_due() -> None:
    latencies = open_loop([lambda: None] * 3, even(rate=200, seconds=0.05))
    assert latencies.count == 10


def test_a_failed_call_ends_the_loop_with_its_exception() -> None:
    def operation() -> None:
        raise LookupError("no such row")

    with pytest.raises(LookupError, match="no such row"):
        open_loop([operation] * 2, even(rate=10_000, seconds=1))
