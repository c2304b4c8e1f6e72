"""What a job cost: seconds by the clock, and seconds computed by Spark's processes and by the server.

Spark's are the driver's Python, which is this process, Java, and the Python workers that Java starts. On a busy machine
the computed seconds agree where those by the clock do not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import psutil

from bench.measure import Spread


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
        spark, server = self._spark_seconds(), tree_seconds(self._server_pid)
        start = time.perf_counter()
        job()
        wall = time.perf_counter() - start
        return Usage(wall, self._spark_seconds() - spark, tree_seconds(self._server_pid) - server)

    def _spark_seconds(self) -> float:
        # The servers that this process starts are its children too, so it counts by itself.
        driver = psutil.Process().cpu_times()
        return float(driver.user + driver.system) + tree_seconds(self._java_pid)


def tree_seconds(pid: int) -> float:
    """User and system seconds of a process and of all that it started, those included that have ended."""
    root = psutil.Process(pid)
    seconds = 0.0
    for process in [root, *root.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue  # its parent counts it from now on
        # A process that has ended and was waited for counts with its parent's children.
        seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


def in_turns(meter: Meter, jobs: Mapping[str, Job], rounds: int, warm_up_rounds: int = 1) -> Mapping[str, list[Usage]]:
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
