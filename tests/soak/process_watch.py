"""Samples of the server's process over time: descriptors, threads, resident memory; and whether they grow."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Sample:
    """The process at a moment."""

    seconds: float  # since the watch began
    descriptors: int
    threads: int
    resident_mib: float


@dataclass(frozen=True, slots=True)
class Bound:
    """What a figure may grow by, from the second quarter of the samples to the last one."""

    name: str
    of: Callable[[Sample], float]
    share: float
    amount: float


_BOUNDS = (
    Bound("open files", lambda sample: sample.descriptors, 0.1, 10),
    Bound("threads", lambda sample: sample.threads, 0.0, 4),
    Bound("resident MiB", lambda sample: sample.resident_mib, 0.1, 16),
)


class ProcessWatch:
    """Samples a process each second until it is stopped."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._stop = threading.Event()
        self._began = time.monotonic()
        self.samples: list[Sample] = []
        self._thread = threading.Thread(target=self._run, name="process-watch", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def sample(self) -> Sample:
        """Returns the process as it is now."""
        with self._process.oneshot():
            return Sample(
                time.monotonic() - self._began,
                self._process.num_fds(),
                self._process.num_threads(),
                self._process.memory_info().rss / _MIB,
            )

    def _run(self) -> None:
        while not self._stop.wait(1.0):
            self.samples.append(self.sample())


def lines_of(samples: Sequence[Sample], parts: int = 10) -> list[str]:
    """Formats the medians over time."""
    if not samples:
        return ["no samples"]
    lines = [f"{'minute':>8}{'open files':>12}{'threads':>10}{'resident MiB':>14}"]
    size = max(1, len(samples) // parts)
    for start in range(0, len(samples), size):
        part = samples[start : start + size]
        figures = [statistics.median(bound.of(sample) for sample in part) for bound in _BOUNDS]
        lines.append(f"{part[0].seconds / 60:8.1f}{figures[0]:12.0f}{figures[1]:10.0f}{figures[2]:14.0f}")
    return lines


def growth_problems(samples: Sequence[Sample]) -> list[str]:
    """Returns the figures that grow. The first quarter is left out: caches fill in it."""
    quarter = len(samples) // 4
    if not quarter:
        return []
    problems = []
    for bound in _BOUNDS:
        before = statistics.median(bound.of(sample) for sample in samples[quarter : 2 * quarter])
        after = statistics.median(bound.of(sample) for sample in samples[-quarter:])
        if after > before * (1 + bound.share) + bound.amount:
            problems.append(f"{bound.name} grew from {before:.0f} to {after:.0f}")
    return problems
