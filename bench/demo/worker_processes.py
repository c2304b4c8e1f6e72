"""Runs jobs in concurrent processes, like separate programs of separate users."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Generic, TypeVar

Result = TypeVar("Result")

# Spawned processes inherit neither threads nor channels.
processes = multiprocessing.get_context("spawn")


class WorkerFailedError(Exception):
    """A worker process raised or died; the message has its traceback."""


class WorkerProcesses(Generic[Result]):
    """Runs one process for each job; leaving the block kills those that still run. Used by one thread.

    The jobs must be picklable, for example functools.partial of a module's function.
    """

    def __init__(self, jobs: Sequence[Callable[[], Result]]) -> None:
        self._processes = []
        self._pending: dict[Connection, int] = {}
        self._results: dict[int, Result] = {}
        for number, job in enumerate(jobs):
            receiver, sender = processes.Pipe(duplex=False)
            process = processes.Process(target=_work, args=(job, sender), daemon=True)
            process.start()
            # After our copy is closed, the death of the process ends its pipe.
            sender.close()
            self._processes.append(process)
            self._pending[receiver] = number

    def wait(self, seconds: float) -> bool:
        """Waits for results, at most `seconds`. Returns whether some are missing. Raises WorkerFailedError."""
        for receiver in wait(list(self._pending), seconds):
            assert isinstance(receiver, Connection), f"{receiver!r} is not a pipe of a worker"
            number = self._pending.pop(receiver)
            try:
                result, failure = receiver.recv()
            except EOFError:
                raise WorkerFailedError(f"worker process {number} died without a result") from None
            if failure:
                raise WorkerFailedError(f"worker process {number} failed:\n{failure}")
            self._results[number] = result
        return bool(self._pending)

    def results(self) -> list[Result]:
        """Waits for all processes. Returns their results in the order of the jobs. Raises WorkerFailedError."""
        while self._pending:
            self.wait(seconds=60.0)
        return [self._results[number] for number in range(len(self._processes))]

    def __enter__(self) -> WorkerProcesses[Result]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            if self._pending:
                process.kill()
            process.join()
        for receiver in self._pending:
            receiver.close()


def _work(job: Callable[[], object], sender: Connection) -> None:
    try:
        sender.send((job(), ""))
    except BaseException:  # the parent process reports it
        sender.send((None, traceback.format_exc()))
