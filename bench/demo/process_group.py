"""Several processes that work concurrently, like the programs of separate users."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Generic, TypeVar

Answer = TypeVar("Answer")

# A spawned process inherits nothing, neither threads nor channels.
processes = multiprocessing.get_context("spawn")


class ProcessFailedError(Exception):
    """A process of the group raised or died; the message has its traceback, if any."""


class ProcessGroup(Generic[Answer]):
    """One process for each task, as a context manager whose exit kills those that still run. Used by one thread.

    The tasks are callables that can be pickled, for example a functools.partial of a module's function.
    """

    def __init__(self, tasks: Sequence[Callable[[], Answer]]) -> None:
        self._processes = []
        self._pending: dict[Connection, int] = {}
        self._answers: dict[int, Answer] = {}
        for number, task in enumerate(tasks):
            receiver, sender = processes.Pipe(duplex=False)
            process = processes.Process(target=_work, args=(task, sender), daemon=True)
            process.start()
            # With this copy closed, the pipe ends when the process dies.
            sender.close()
            self._processes.append(process)
            self._pending[receiver] = number

    def at_work(self, seconds: float) -> bool:
        """Waits for answers, at most `seconds`; returns whether some are missing. Raises ProcessFailedError."""
        for receiver in wait(list(self._pending), seconds):
            assert isinstance(receiver, Connection), f"{receiver!r} is none of the group's pipes"
            number = self._pending.pop(receiver)
            try:
                answer, failure = receiver.recv()
            except EOFError:
                raise ProcessFailedError(f"process {number} of the group died without an answer") from None
            if failure:
                raise ProcessFailedError(f"process {number} of the group failed:\n{failure}")
            self._answers[number] = answer
        return bool(self._pending)

    def answers(self) -> list[Answer]:
        """Waits for all answers and returns them in the order of the tasks. Raises ProcessFailedError."""
        while self._pending:
            self.at_work(seconds=60.0)
        return [self._answers[number] for number in range(len(self._processes))]

    def __enter__(self) -> ProcessGroup[Answer]:
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


def _work(task: Callable[[], object], sender: Connection) -> None:
    try:
        sender.send((task(), ""))
    except BaseException:  # every failure is reported to the parent
        sender.send((None, traceback.format_exc()))
