"""A histogram knows each latency within a percent, and corrects for calls that were not made."""

from __future__ import annotations

import math

import pytest

from bench.histogram import Histogram, bucket_of, highest_of
from tests.seeds import generator_of


def test_buckets_are_consecutive_and_each_value_is_in_the_bucket_that_ends_at_or_above_it() -> None:
    buckets = [bucket_of(value) for value in range(5000)]
    assert buckets == sorted(buckets)
    assert set(buckets) == set(range(max(buckets) + 1))
    for value, bucket in enumerate(buckets):
        assert highest_of(bucket) >= value
        assert bucket == 0 or highest_of(bucket - 1) < value


@pytest.mark.parametrize("scale", [1, 1_000, 1_000_000, 1_000_000_000])
def test_a_percentile_is_that_of_the_sorted_values_within_a_percent(scale: int) -> None:
    random = generator_of(scale)
    values = [random.randrange(1, 1000) * scale for _ in range(1000)]
    histogram = Histogram.of(values)
    for percent in (1, 50, 90, 99, 99.9, 100):
        exact = sorted(values)[math.ceil(len(values) * percent / 100) - 1]
        assert exact <= histogram.percentile(percent) <= exact * 1.01 + 1


def test_added_histograms_are_that_of_all_values() -> None:
    first, second, both = Histogram.of([5, 5000]), Histogram.of([7, 7_000_000]), Histogram.of([5, 5000, 7, 7_000_000])
    first.add(second)
    assert first.counts == both.counts
    assert Histogram(first.counts).percentile(100) == both.percentile(100)
    assert first.count == 4


def test_a_slow_call_counts_for_those_that_it_kept_back() -> None:
    plain, corrected = Histogram.of([10] * 99 + [1000]), Histogram()
    for latency in [10] * 99 + [1000]:
        corrected.record_with_omissions(latency, interval=10)
    # 990, 980, ..., 10: the calls that were due while the slow one was waited for.
    assert corrected.count == plain.count + 99
    assert plain.percentile(99) == 10
    assert corrected.percentile(99) > 900


def test_calls_as_quick_as_expected_omit_none() -> None:
    histogram = Histogram()
    histogram.record_with_omissions(10, interval=10)
    histogram.record_with_omissions(19, interval=10)
    assert histogram.count == 2


def test_an_empty_histogram_and_wrong_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one latency"):
        Histogram().percentile(99)
    with pytest.raises(ValueError, match="at most 100, not 101"):
        Histogram.of([1]).percentile(101)
    with pytest.raises(ValueError, match="not negative"):
        Histogram().record(-1)
    with pytest.raises(ValueError, match="interval between calls must be positive"):
        Histogram().record_with_omissions(5, 0)
