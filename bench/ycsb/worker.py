"""A worker process: one system's client, with one or more threads as callers, controlled by the lines of jobs.py.

    python -m bench.ycsb.worker SYSTEM ADDRESS TABLE ROW_COUNT

SYSTEM is a module of clients/. Every system's workers are this program, so that their clients have the same shape.
"""

from __future__ import annotations

import importlib
import json
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, cast

from bench.histogram import Histogram
from bench.side_process import Answer
from bench.ycsb.jobs import Job, Outcome, job_of, sum_of, words_of
from bench.ycsb.operations import OPERATIONS, Caller, load
from bench.ycsb.row_client import RowClient
from bench.ycsb.rows import zeta

_NANOSECONDS = 1_000_000_000
_WAIT_S_MAX = 600.0


class System(Protocol):
    """A module of clients/."""

    def connect(self, address: str, table: str, thread_count: int) -> Sequence[RowClient]:
        """Returns a client for each thread."""

    def create_table(self, address: str, table: str, durability: str) -> None:
        """Creates the table with one family; drops an earlier one of this name."""

    def drop_table(self, address: str, table: str) -> None:
        """Drops the table."""


class PreparedJob:
    """The callers of a job, warm and waiting for the start."""

    def __init__(self, job: Job, clients: Sequence[RowClient], row_count: int, total_weight: float) -> None:
        """Starts the callers and blocks until all are warm. Raises the first exception of a caller."""
        self._job = job
        self._clients = clients
        self._barrier = threading.Barrier(len(clients) + 1)
        self._outcomes: list[Outcome] = []
        self._failures: list[BaseException] = []
        operation = OPERATIONS[job.operation]
        callers = [Caller(client, row_count, total_weight, job.seed + thread) for thread, client in enumerate(clients)]
        self._threads = [
            threading.Thread(target=self._run, args=(partial(operation, caller),), daemon=True) for caller in callers
        ]
        for thread in self._threads:
            thread.start()
        self._meet()

    def measure(self) -> Outcome:
        """Lets the callers start, and returns what they did. Raises the first exception of a caller."""
        self._meet()
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]
        for client in self._clients:
            client.close()
        return sum_of(self._outcomes)

    def _run(self, operation: Callable[[], int]) -> None:
        try:
            stop = time.perf_counter() + self._job.warm_s
            while time.perf_counter() < stop:
                operation()
            self._barrier.wait(_WAIT_S_MAX)
            self._barrier.wait(_WAIT_S_MAX)
            self._outcomes.append(measured(operation, self._job.measured_s))
        except threading.BrokenBarrierError:
            pass  # another caller failed
        except BaseException as failure:  # raised again by the main thread
            self._failures.append(failure)
            self._barrier.abort()

    def _meet(self) -> None:
        try:
            self._barrier.wait(_WAIT_S_MAX)
        except threading.BrokenBarrierError:
            raise (self._failures or [TimeoutError("a caller was not ready in time")])[0] from None


def measured(operation: Callable[[], int], seconds: float) -> Outcome:
    """Makes one operation after the other for so long, at least one, and returns what was done."""
    latencies: list[int] = []
    rows = 0
    now = start = time.perf_counter_ns()
    stop = start + round(seconds * _NANOSECONDS)
    while not latencies or now < stop:
        rows += operation()
        before, now = now, time.perf_counter_ns()
        latencies.append(now - before)
    return Outcome(len(latencies), rows, (now - start) / _NANOSECONDS, Histogram.of(latencies))


class Worker:
    """The commands of one worker."""

    def __init__(self, system: str, address: str, table: str, row_count: int) -> None:
        self._system = cast(System, importlib.import_module(f"bench.ycsb.clients.{system}_client"))
        self._address, self._table, self._row_count = address, table, row_count
        self._total_weight = zeta(row_count)
        self._prepared: PreparedJob | None = None

    def answer(self, line: str) -> Answer:
        """Does one command. Raises ValueError for an unknown one."""
        name, words = words_of(line)
        if name == "create":
            self._system.create_table(self._address, self._table, words["durability"])
            return {"created": self._table}
        if name == "drop":
            self._system.drop_table(self._address, self._table)
            return {"dropped": self._table}
        if name == "load":
            return self._load(int(words["first"]), int(words["stop"]), int(words["seed"]))
        if name == "prepare":
            job = job_of(words)
            clients = self._system.connect(self._address, self._table, job.threads)
            self._prepared = PreparedJob(job, clients, self._row_count, self._total_weight)
            return {"ready": job.threads}
        if name == "measure" and self._prepared is not None:
            prepared, self._prepared = self._prepared, None
            return prepared.measure().answer()
        raise ValueError(f"no such command now: {line.strip()}")

    def _load(self, first: int, stop: int, seed: int) -> Answer:
        [client] = self._system.connect(self._address, self._table, 1)
        load(client, first, stop, seed)
        client.close()
        return {"loaded": stop - first}


def main(system: str, address: str, table: str, row_count: int) -> None:
    """Answers commands until the input ends."""
    worker = Worker(system, address, table, row_count)
    for line in sys.stdin:
        try:
            answer = worker.answer(line)
        except Exception as failure:
            traceback.print_exc()
            answer = {"error": f"{type(failure).__name__}: {failure}"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
