"""Several processes that work at the same time, as separate programs of separate users would."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Generic, TypeVar

Answer = TypeVar("Answer")

# Nothing is inherited by a spawned process, neither threads nor channels.
processes = multiprocessing.get_context("spawn")


class ProcessFailedError(Exception):
    """A process of the group raised or died; the message has its traceback."""


class ProcessGroup(Generic[Answer]):
    """One process for each piece of work; leaving the block ends those that still run. Used by one thread.

    The pieces are callables that can be pickled, functools.partial of a module's function for example.
    """

    def __init__(self, pieces: Sequence[Callable[[], Answer]]) -> None:
        self._processes = []
        self._pending: dict[Connection, int] = {}
        self._answers: dict[int, Answer] = {}
        for number, piece in enumerate(pieces):
            receiver, sender = processes.Pipe(duplex=False)
            process = processes.Process(target=_work, args=(piece, sender), daemon=True)
            process.start()
            # With our copy of its end closed, a process that dies is seen as the end of its pipe.
            sender.close()
            self._processes.append(process)
            self._pending[receiver] = number

    def at_work(self, seconds: float) -> bool:
        """Waits so long at most for answers; whether some are still missing. Raises ProcessFailedError."""
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
        """Waits for all; their answers in the order of the pieces. Raises ProcessFailedError."""
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


def _work(piece: Callable[[], object], sender: Connection) -> None:
    try:
        sender.send((piece(), ""))
    except BaseException:  # whatever it is, the one who asked must hear of it
        sender.send((None, traceback.format_exc()))
