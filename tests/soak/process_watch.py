"""Samples of the server over time, and whether they grow.

Of its process: descriptors, threads, resident memory. Of its data folder: folders of regions and of bulk writes, bulk
files.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Sample:
    """The process and its data folder at a moment."""

    seconds: float  # since the watch began
    descriptors: int
    threads: int
    resident_mib: float
    region_folders: int = 0
    bulk_files: int = 0
    staging_folders: int = 0


def _trough(figures: Sequence[float]) -> float:
    """Returns what a figure goes back to that rises with each new store file, and falls with each compaction."""
    return sorted(figures)[len(figures) // 10]


@dataclass(frozen=True, slots=True)
class Bound:
    """What a figure's level may grow by, from the second quarter of the samples to the last one."""

    name: str
    of: Callable[[Sample], float]
    share: float
    amount: float
    level: Callable[[Sequence[float]], float] = statistics.median


_BOUNDS = (
    Bound("open files", lambda sample: sample.descriptors, 0.1, 10, _trough),
    Bound("threads", lambda sample: sample.threads, 0.0, 4),
    Bound("resident MiB", lambda sample: sample.resident_mib, 0.1, 16),
    Bound("region folders", lambda sample: sample.region_folders, 0.1, 6, _trough),
    Bound("bulk files", lambda sample: sample.bulk_files, 0.1, 20, _trough),
    Bound("staging folders", lambda sample: sample.staging_folders, 0.0, 3, _trough),
)


class ProcessWatch:
    """Samples a process and its data folder each second until it is stopped."""

    def __init__(self, pid: int, folder: Path) -> None:
        self._folder = folder
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
        """Returns both as they are now."""
        with self._process.oneshot():
            return Sample(
                time.monotonic() - self._began,
                self._process.num_fds(),
                self._process.num_threads(),
                self._process.memory_info().rss / _MIB,
                *(len(list(self._folder.glob(names))) for names in ("regions/*", "bulk/*.bulk", "staging/*")),
            )

    def _run(self) -> None:
        while not self._stop.wait(1.0):
            self.samples.append(self.sample())


def lines_of(samples: Sequence[Sample], parts: int = 10) -> list[str]:
    """Formats the medians over time."""
    if not samples:
        return ["no samples"]
    lines = [f"{'minute':>8}" + "".join(f"{bound.name:>17}" for bound in _BOUNDS)]
    size = max(1, len(samples) // parts)
    for start in range(0, len(samples), size):
        part = samples[start : start + size]
        figures = [statistics.median(bound.of(sample) for sample in part) for bound in _BOUNDS]
        lines.append(f"{part[0].seconds / 60:8.1f}" + "".join(f"{figure:17.0f}" for figure in figures))
    return lines


def growth_problems(samples: Sequence[Sample]) -> list[str]:
    """Returns the figures that grow. The first quarter is left out: caches fill in it."""
    quarter = len(samples) // 4
    if not quarter:
        return []
    problems = []
    for bound in _BOUNDS:
        before = bound.level([bound.of(sample) for sample in samples[quarter : 2 * quarter]])
        after = bound.level([bound.of(sample) for sample in samples[-quarter:]])
        if after > before * (1 + bound.share) + bound.amount:
            problems.append(f"{bound.name} grew from {before:.0f} to {after:.0f}")
    return problems
