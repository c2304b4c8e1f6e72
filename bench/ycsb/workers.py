"""One system's worker processes, all started before the measurements and used in turns with another system's."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType

from bench.cores import Cores, cores_between, cpu_times
from bench.side_process import Answer, SideProcess, SideProcessError
from bench.ycsb.jobs import Job, Outcome, outcome_of, sum_of

# More than the threads of any worker: each of them adds its number to the job's seed.
_SEEDS_EACH = 1000


@dataclass(frozen=True, slots=True)
class Shape:
    """How many callers work at the same time: processes, each with so many threads."""

    processes: int
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Turn:
    """The outcome of one turn, and the cores in use meanwhile."""

    outcome: Outcome
    cores: Cores


class Workers:
    """The processes of one system, as a context manager whose exit ends them. Used by one thread."""

    def __init__(
        self, command: Sequence[str], count: int, seeds: Iterator[int], environment: Mapping[str, str] | None = None
    ) -> None:
        """Starts `count` processes. `seeds` is shared by all systems of a run, so that no two jobs have the same."""
        self._seeds = seeds
        self._stack = ExitStack()
        with self._stack:
            self._processes = [self._stack.enter_context(SideProcess(command, environment)) for _ in range(count)]
            self._stack = self._stack.pop_all()

    @property
    def process_ids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def create_table(self, durability: str) -> None:
        """Creates the table, by the first process."""
        self._processes[0].call(f"create durability={durability}")

    def drop_table(self) -> None:
        """Drops the table, by the first process."""
        self._processes[0].call("drop")

    def load(self, row_count: int) -> None:
        """Loads the table, each process a part of it."""
        bounds = [row_count * part // len(self._processes) for part in range(len(self._processes) + 1)]
        parts = itertools.pairwise(bounds)
        self._all(
            [f"load first={first} stop={stop} seed={next(self._seeds)}" for first, stop in parts], self._processes
        )

    def turn(
        self, operation: str, shape: Shape, warm_s: float, measured_s: float, own_process_ids: Sequence[int]
    ) -> Turn:
        """Makes one operation by callers of this shape. `own_process_ids` are those of the run's other processes."""
        workers = self._processes[: shape.processes]
        if len(workers) < shape.processes:
            raise ValueError(f"{shape.processes} processes were requested of {len(workers)}")
        jobs = [Job(operation, shape.threads, warm_s, measured_s, next(self._seeds) * _SEEDS_EACH) for _ in workers]
        self._all([job.command() for job in jobs], workers)
        own = [*own_process_ids, *self.process_ids, os.getpid()]
        before = cpu_times(own)
        answers = self._all(["measure"] * len(workers), workers)
        cores = cores_between(before, cpu_times(own))
        return Turn(sum_of([outcome_of(answer) for answer in answers]), cores)

    def _all(self, commands: Sequence[str], processes: Sequence[SideProcess]) -> list[Answer]:
        """Sends a command to each process, then waits for all answers. Raises the first error at the end."""
        for process, command in zip(processes, commands, strict=True):
            process.send(command)
        answers: list[Answer] = []
        failures: list[SideProcessError] = []
        for process, command in zip(processes, commands, strict=True):
            # An answer that is not read would be taken for that to the next command.
            try:
                answers.append(process.receive(command))
            except SideProcessError as failure:
                failures.append(failure)
        if failures:
            raise failures[0]
        return answers

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
