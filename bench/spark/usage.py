"""What a job cost: seconds by the clock, and seconds computed by Spark's processes and by the server.

Spark's are the driver's Python, which is this process, Java, and the Python workers that Java starts. On a busy machine
the computed seconds agree where those by the clock do not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType

import psutil

from bench.measure import Spread

# What a process computes between the last look and its end is lost; it mostly ends when it was idle.
_LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Usage:
    """Seconds that one job took."""

    wall: float
    spark_cpu: float
    server_cpu: float

    @property
    def all_cpu(self) -> float:
        """What everybody computed."""
        return self.spark_cpu + self.server_cpu


# Does the job once.
Job = Callable[[], object]


class Meter:
    """Measures jobs. java_pid: the process that the driver started; server_pid: the region server's."""

    def __init__(self, java_pid: int, server_pid: int) -> None:
        self._java_pid = java_pid
        self._server_pid = server_pid

    def usage(self, job: Job) -> Usage:
        """What the job cost."""
        with Trees(self._java_pid, self._server_pid) as trees:
            # The servers that this process starts are its children too, so it counts by itself.
            driver = psutil.Process().cpu_times()
            start = time.perf_counter()
            job()
            wall = time.perf_counter() - start
            driver_then = psutil.Process().cpu_times()
        driver_cpu = driver_then.user + driver_then.system - driver.user - driver.system - trees.watching_seconds
        java_cpu, server_cpu = trees.seconds
        return Usage(wall, driver_cpu + java_cpu, server_cpu)


class Trees:
    """The seconds computed by process trees while the block lasts, whoever of them ends meanwhile.

    Looked at several times a second, by a thread. PySpark's daemon does not wait for the workers that it ends, so that
    what they have computed is lost to whoever only asks the processes that are left.
    """

    def __init__(self, *pids: int) -> None:
        self._roots = [psutil.Process(pid) for pid in pids]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.watching_seconds = 0.0
        self._lock = threading.Lock()
        # Guarded by self._lock: of each process what it had computed at first and at last.
        self._first: list[dict[psutil.Process, float]] = [{} for _ in pids]
        self._last: list[dict[psutil.Process, float]] = [{} for _ in pids]

    @property
    def seconds(self) -> list[float]:
        """Of each tree; when the block has been left."""
        return [sum(last.values()) - sum(first.values()) for first, last in zip(self._first, self._last, strict=True)]

    def look(self) -> None:
        """Asks everybody how much was computed so far."""
        with self._lock:
            for root, computed in zip(self._roots, self._last, strict=True):
                for process in [root, *root.children(recursive=True)]:
                    with suppress(psutil.NoSuchProcess):
                        times = process.cpu_times()
                        computed[process] = times.user + times.system

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            start = time.thread_time()
            self.look()
            self.watching_seconds += time.thread_time() - start

    def __enter__(self) -> Trees:
        self.look()
        self._first = [dict(last) for last in self._last]
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self.look()


def in_turns(meter: Meter, jobs: Mapping[str, Job], rounds: int, warm_up_rounds: int) -> Mapping[str, list[Usage]]:
    """What each job cost in each round: A B C, B C A, ..., so that neighbours share the machine's moods.

    The rounds that warm up Java and the caches are not counted.
    """
    names = list(jobs)
    found: dict[str, list[Usage]] = {name: [] for name in names}
    for number in range(warm_up_rounds + rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            usage = meter.usage(jobs[name])
            if number >= warm_up_rounds:
                found[name].append(usage)
    return found


def ratio(ours: Sequence[Usage], baseline: Sequence[Usage], seconds: Callable[[Usage], float]) -> Spread:
    """Ours divided by the baseline's, round by round."""
    return Spread.of([seconds(mine) / seconds(theirs) for mine, theirs in zip(ours, baseline, strict=True)])


def details(name: str, usages: Sequence[Usage]) -> dict[str, Spread]:
    """The three quantities, by what they are called of this job."""
    return {
        f"{name}, s": Spread.of([usage.wall for usage in usages]),
        f"{name}, Spark's CPU s": Spread.of([usage.spark_cpu for usage in usages]),
        f"{name}, server's CPU s": Spread.of([usage.server_cpu for usage in usages]),
    }
