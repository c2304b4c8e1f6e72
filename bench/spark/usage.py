"""Measures the cost of a job: wall seconds, and CPU seconds of Spark's processes and of the server.

Spark's processes are the driver's Python, which is this process, Java, and the Python workers that Java starts. On a
busy machine CPU seconds vary less than wall seconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TypeVar

import psutil

from bench.cores import process_clock_seconds
from bench.measure import Spread

# The detail that says how much of a read is not what Spark's Python data sources cost by themselves, see floors.py.
FLOOR_RATIO = "ratio to the floor"
# CPU time between the last sample and a process's end is not counted; most processes are idle before they end.
_SAMPLE_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Usage:
    """The seconds of one job."""

    wall: float
    spark_cpu: float
    server_cpu: float

    @property
    def all_cpu(self) -> float:
        """The CPU seconds of all processes."""
        return self.spark_cpu + self.server_cpu


_Result = TypeVar("_Result")
# Runs the job.
Job = Callable[[], object]


class Meter:
    """Measures jobs. `java_pid` is the process that the driver started, `server_pid` the region server."""

    def __init__(self, java_pid: int, server_pid: int) -> None:
        self._java_pid = java_pid
        self._server_pid = server_pid

    def usage(self, job: Job) -> Usage:
        """Runs the job and returns its cost."""
        with Trees(self._java_pid, self._server_pid) as trees:
            # This process is measured alone, because the servers that it starts are its children too.
            driver = time.process_time()
            start = time.perf_counter()
            job()
            wall = time.perf_counter() - start
            driver_after = time.process_time()
        driver_cpu = driver_after - driver - trees.sampling_seconds
        java_cpu, server_cpu = trees.seconds
        return Usage(wall, driver_cpu + java_cpu, server_cpu)


class Trees:
    """The CPU seconds of process trees until exit, including processes that end before.

    A thread samples them several times a second. PySpark's daemon does not wait for the workers that it ends, so their
    CPU time is missing from that of the remaining processes.
    """

    def __init__(self, *pids: int) -> None:
        self._roots = [psutil.Process(pid) for pid in pids]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_end, daemon=True)
        self.sampling_seconds = 0.0
        self._lock = threading.Lock()
        # Guarded by self._lock: the CPU seconds of each process in the first and in the last sample.
        self._first: list[dict[psutil.Process, float]] = [{} for _ in pids]
        self._last: list[dict[psutil.Process, float]] = [{} for _ in pids]

    @property
    def seconds(self) -> list[float]:
        """The CPU seconds of each tree; valid after exit."""
        return [sum(last.values()) - sum(first.values()) for first, last in zip(self._first, self._last, strict=True)]

    def sample(self) -> None:
        """Reads the CPU seconds of all processes."""
        with self._lock:
            for root, cpu_seconds in zip(self._roots, self._last, strict=True):
                for process in [root, *root.children(recursive=True)]:
                    with suppress(ProcessLookupError):
                        cpu_seconds[process] = process_clock_seconds(process.pid)

    def _sample_until_end(self) -> None:
        while not self._ended.wait(_SAMPLE_SECONDS):
            start = time.thread_time()
            self.sample()
            self.sampling_seconds += time.thread_time() - start

    def __enter__(self) -> Trees:
        self.sample()
        self._first = [dict(last) for last in self._last]
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self.sample()


def in_turns(meter: Meter, jobs: Mapping[str, Job], rounds: int, warm_up_rounds: int) -> Mapping[str, list[Usage]]:
    """Returns the cost of each job in each round; see turns()."""
    return turns({name: partial(meter.usage, job) for name, job in jobs.items()}, rounds, warm_up_rounds)


def turns(
    measures: Mapping[str, Callable[[], _Result]], rounds: int, warm_up_rounds: int
) -> Mapping[str, list[_Result]]:
    """Returns the results in each round: A B C, B C A, ..., so that noise of the machine affects all of them.

    The rounds that warm up Java and the caches are not counted.
    """
    names = list(measures)
    found: dict[str, list[_Result]] = {name: [] for name in names}
    for number in range(warm_up_rounds + rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            result = measures[name]()
            if number >= warm_up_rounds:
                found[name].append(result)
    return found


def ratio(ours: Sequence[Usage], baseline: Sequence[Usage], seconds: Callable[[Usage], float]) -> Spread:
    """Returns ours divided by the baseline's, round by round."""
    return Spread.of([seconds(mine) / seconds(theirs) for mine, theirs in zip(ours, baseline, strict=True)])


def details(name: str, usages: Sequence[Usage]) -> dict[str, Spread]:
    """Returns the three quantities of a job, by name."""
    return {
        f"{name}, s": Spread.of([usage.wall for usage in usages]),
        f"{name}, Spark's CPU s": Spread.of([usage.spark_cpu for usage in usages]),
        f"{name}, server's CPU s": Spread.of([usage.server_cpu for usage in usages]),
    }


def of_spark(name: str, usages: list[Usage]) -> dict[str, Spread]:
    """Returns the details of a job in which the server takes no part."""
    found = details(name, usages)
    del found[f"{name}, server's CPU s"]
    return found
