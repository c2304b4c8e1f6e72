"""A histogram of latencies with buckets of a constant relative width, as in HdrHistogram.

Each power of two nanoseconds is divided into 128 buckets, so a value is known within 0.8 %, whatever its size, and any
number of latencies takes little memory. Histograms of several callers are added bucket by bucket.

`record_with_omissions` is HdrHistogram's correction for callers in a closed loop. Such a caller makes no call while it
waits for a slow one, so the slow moment is counted once, however many calls would have met it ("coordinated omission").
A caller in an open loop needs no correction: its latencies begin when each call was due (schedule.py).
https://github.com/HdrHistogram/HdrHistogram
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

_BITS = 7
_BUCKETS_EACH = 1 << _BITS


def bucket_of(nanoseconds: int) -> int:
    """Returns the bucket of a value; values below 256 have one each."""
    shift = max(0, nanoseconds.bit_length() - _BITS - 1)
    return shift * _BUCKETS_EACH + (nanoseconds >> shift)


def highest_of(bucket: int) -> int:
    """Returns the highest value in a bucket."""
    shift = max(0, bucket // _BUCKETS_EACH - 1)
    return ((bucket - shift * _BUCKETS_EACH + 1) << shift) - 1


class Histogram:
    """Counts of latencies in nanoseconds. Not thread-safe: each caller has its own, and they are added at the end."""

    def __init__(self, counts: Mapping[int, int] | None = None) -> None:
        """`counts` are those of another histogram, by bucket."""
        self._counts: Counter[int] = Counter(counts or {})

    @classmethod
    def of(cls, latencies: Iterable[int]) -> Histogram:
        """Returns the histogram of these latencies."""
        histogram = cls()
        for nanoseconds in latencies:
            histogram.record(nanoseconds)
        return histogram

    @property
    def counts(self) -> dict[int, int]:
        """The counts by bucket, for another process."""
        return dict(self._counts)

    @property
    def count(self) -> int:
        return self._counts.total()

    def record(self, nanoseconds: int) -> None:
        """Counts one latency. Raises ValueError if it is negative."""
        if nanoseconds < 0:
            raise ValueError(f"a latency is not negative: {nanoseconds} ns")
        self._counts[bucket_of(nanoseconds)] += 1

    def record_with_omissions(self, nanoseconds: int, interval: int) -> None:
        """Counts a latency, and those of the calls that the caller would have made meanwhile, one each interval."""
        if interval <= 0:
            raise ValueError(f"the interval between calls must be positive, not {interval} ns")
        self.record(nanoseconds)
        for omitted in range(nanoseconds - interval, interval - 1, -interval):
            self.record(omitted)

    def add(self, other: Histogram) -> None:
        """Adds the counts of another histogram."""
        self._counts.update(other._counts)

    def percentile(self, percent: float) -> int:
        """Returns a value that at least `percent` of all do not exceed, in nanoseconds, rounded up to its bucket.

        Raises ValueError if the histogram is empty or the percentage is not in (0, 100].
        """
        if not 0 < percent <= 100:
            raise ValueError(f"a percentile is above 0 and at most 100, not {percent}")
        if not self.count:
            raise ValueError("a percentile needs at least one latency")
        wanted = math.ceil(self.count * percent / 100)
        seen = 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= wanted:
                return highest_of(bucket)
        raise AssertionError(f"{seen} latencies in the buckets, {self.count} in all")

    def milliseconds(self, percent: float) -> float:
        """Returns the percentile in milliseconds."""
        return self.percentile(percent) / 1e6
