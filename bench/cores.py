"""How many cores were busy while something was measured, and with whose work.

The counters of /proc/stat include all programs. What the run's own processes used in the same time is subtracted; the
rest is the work of others, which makes the figures of a run too low. Linux only. The counters have a resolution of
10 ms, so a turn should take a second or more.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """CPU seconds up to a moment: of the machine, stolen from it by its host, and of each process by its id."""

    at: float
    machine: float
    stolen: float
    processes: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Cores:
    """Cores in use on average between two moments: by the run's own processes, by others, and by the host."""

    own: float
    others: float
    stolen: float


def machine_seconds(stat: str) -> tuple[float, float]:
    """Returns the busy and the stolen CPU seconds of the first line of /proc/stat, since the start of the system."""
    name, *fields = stat.splitlines()[0].split()
    if name != "cpu" or len(fields) < 8:
        raise ValueError(f"not the first line of /proc/stat: {stat[:80]!r}")
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts, stolen = map(int, fields[:8])
    busy = user + nice + system + interrupts + soft_interrupts
    return busy / _TICKS_PER_SECOND, stolen / _TICKS_PER_SECOND


def process_seconds(stat: str) -> float:
    """Returns the CPU seconds of the text of /proc/PID/stat, those of all threads included."""
    # The name of the program is in parentheses and may contain anything, parentheses included.
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def process_clock_seconds(process_id: int) -> float:
    """Returns the CPU seconds of a process, those of all threads included, without the steps of the counters.

    Raises ProcessLookupError if it has ended.
    """
    try:
        # The clock that clock_getcpuclockid(3) finds; Python has no call for it.
        return time.clock_gettime(~process_id << 3 | 2)
    except OSError as error:
        raise ProcessLookupError(f"no process {process_id}") from error


def cpu_times(process_ids: Iterable[int]) -> CpuTimes:
    """Returns the times now. A process that has ended is left out."""
    busy, stolen = machine_seconds((_PROC / "stat").read_text())
    processes = {}
    for process_id in process_ids:
        try:
            processes[process_id] = process_seconds((_PROC / str(process_id) / "stat").read_text())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return CpuTimes(time.perf_counter(), busy, stolen, processes)


def cores_between(before: CpuTimes, after: CpuTimes) -> Cores:
    """Returns the cores in use between two moments.

    A process that is in one of the two only counts as others': its work in that time is unknown.
    """
    seconds = after.at - before.at
    if seconds <= 0:
        raise ValueError("the second moment must be after the first")
    own = sum(
        total - before.processes[process_id]
        for process_id, total in after.processes.items()
        if process_id in before.processes
    )
    busy = after.machine - before.machine
    # The counters of the machine and of processes are not read at one instant, so the rest may be below zero.
    return Cores(own / seconds, max(0.0, busy - own) / seconds, (after.stolen - before.stolen) / seconds)
