"""What other programs use of the machine is what was busy without the run's own processes."""

from __future__ import annotations

import os
import time

import pytest

from bench.cores import CpuTimes, cores_between, cpu_times, machine_seconds, process_clock_seconds, process_seconds

_TICKS = os.sysconf("SC_CLK_TCK")


def test_busy_time_has_all_but_idle_waiting_and_stolen_time() -> None:
    stat = (
        f"cpu  {100 * _TICKS} {20 * _TICKS} {30 * _TICKS} 7000 8000 {4 * _TICKS} {5 * _TICKS} {9 * _TICKS} 0 0\ncpu0 1"
    )
    assert machine_seconds(stat) == (159, 9)


def test_a_process_is_found_whatever_its_name_is() -> None:
    stat = f"17 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 {3 * _TICKS} {2 * _TICKS} 0 0 20"
    assert process_seconds(stat) == 5


def test_other_text_is_refused() -> None:
    with pytest.raises(ValueError, match="not the first line"):
        machine_seconds("intr 1 2 3")


def test_others_have_what_the_runs_own_processes_have_not() -> None:
    before = CpuTimes(at=10.0, machine=100.0, stolen=1.0, processes={1: 5.0, 2: 7.0, 3: 1.0})
    after = CpuTimes(at=14.0, machine=106.0, stolen=2.0, processes={1: 7.0, 2: 8.0, 4: 2.0})
    cores = cores_between(before, after)
    # Process 3 ended and 4 began meanwhile: nobody knows what they did in this time.
    assert (cores.own, cores.others, cores.stolen) == (0.75, 0.75, 0.25)


def test_others_never_have_less_than_nothing() -> None:
    before, after = CpuTimes(0.0, 0.0, 0.0, {1: 0.0}), CpuTimes(1.0, 0.9, 0.0, {1: 1.0})
    assert cores_between(before, after).others == 0
    with pytest.raises(ValueError, match="must be after"):
        cores_between(after, before)


def test_this_process_is_counted_and_one_that_has_ended_is_not() -> None:
    ended = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(ended, 0)
    before = cpu_times([os.getpid(), ended])
    while cpu_times([os.getpid()]).processes[os.getpid()] <= before.processes[os.getpid()]:
        pass
    assert list(before.processes) == [os.getpid()]
    assert cores_between(before, cpu_times([os.getpid()])).own > 0


def test_the_clock_of_a_process_has_what_it_has_used() -> None:
    before = time.process_time()
    assert before <= process_clock_seconds(os.getpid()) <= time.process_time()
    ended = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(ended, 0)
    with pytest.raises(ProcessLookupError, match=f"no process {ended}"):
        process_clock_seconds(ended)
