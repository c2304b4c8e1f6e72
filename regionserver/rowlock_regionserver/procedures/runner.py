"""The procedures of a server: their names, and a few processes that run them.

A call takes a process before it locks its row, so that no row waits for the start of one. A process that was killed is
replaced by the next call that needs it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import ProcedureNotFoundError, RegionTooBusyError
from rowlock_regionserver.operations import ProcedureCall, ProcedureReply
from rowlock_regionserver.procedures.child_process import ChildProcess, ReadCells

# A name that a client sent is shown up to this length.
_NAME_CHARACTERS_SHOWN = 100

Run = Callable[[ProcedureCall, str, ReadCells], ProcedureReply]


class Runner(Protocol):
    """Runs procedures, as a region sees it."""

    def ready(self, name: str, deadline: float) -> contextlib.AbstractContextManager[Run]:
        """Returns a context with what runs one call of this procedure, at once. Entering it blocks.

        Running it raises ProcedureFailedError, and the errors of its reads. Entering it raises ProcedureNotFoundError
        and RegionTooBusyError.
        """


@dataclass(frozen=True, slots=True)
class ProcedureStatistics:
    """One procedure: calls that ended since the server's start, and how many of them failed."""

    name: str
    call_count: int
    failed_count: int


class ProcedureRunner:
    """Runs the procedures of one server. Thread-safe."""

    def __init__(self, procedures: Mapping[str, str], config: Config, clock: Clock) -> None:
        """`procedures`: MODULE:FUNCTION by name; none: procedures are off."""
        self._procedures = procedures
        self._config = config
        self._clock = clock
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._idle: list[ChildProcess] = []
        self._counts = {name: [0, 0] for name in procedures}
        self._is_stopped = False

    @property
    def names(self) -> list[str]:
        """The procedures that can be called, sorted."""
        return sorted(self._procedures)

    def check(self, name: str) -> None:
        """Raises ProcedureNotFoundError if it can't be called."""
        if name in self._procedures:
            return
        if not self._procedures:
            raise ProcedureNotFoundError(
                "this server runs no procedures; its operator names them in the setting procedures, see "
                "rowlock-server --config help"
            )
        raise ProcedureNotFoundError(
            f"this server has no procedure {name[:_NAME_CHARACTERS_SHOWN]!r}; it has: {', '.join(self.names)}"
        )

    def start(self) -> None:
        """Starts the processes, so that the first calls need not wait for them. One that can't be started is later."""
        if self._procedures:
            for _ in range(self._config.procedure_processes):
                with contextlib.suppress(OSError):
                    self._give(ChildProcess(self._procedures, self._config, self._clock))

    @contextlib.contextmanager
    def ready(self, name: str, deadline: float) -> Iterator[Run]:
        """As Runner.ready."""
        self.check(name)
        child = self._take()

        def run(call: ProcedureCall, table: str, read: ReadCells) -> ProcedureReply:
            is_failed = True
            try:
                reply = child.run(call, table, read)
                is_failed = False
                return reply
            finally:
                self._count(name, is_failed=is_failed)

        try:
            child.wait_until_ready(deadline)
            yield run
        finally:
            self._give(child)

    def statistics(self) -> list[ProcedureStatistics]:
        """The statistics of each procedure, by name."""
        with self._lock:
            return [ProcedureStatistics(name, *self._counts[name]) for name in self.names]

    def stop(self) -> None:
        """Ends the processes. No call may run or begin any more."""
        with self._lock:
            self._is_stopped = True
            idle, self._idle = self._idle, []
        for child in idle:
            child.close()

    def _take(self) -> ChildProcess:
        while True:
            with self._lock:
                child = self._idle.pop() if self._idle else None
            if child is None:
                break
            if child.is_running():
                return child
            child.close()
        try:
            return ChildProcess(self._procedures, self._config, self._clock)
        except OSError as error:
            raise RegionTooBusyError(
                f"can't start a process for procedures: {error.strerror or error}; retry",
                retry_after_ms=self._config.retry_after_ms,
            ) from error

    def _give(self, child: ChildProcess) -> None:
        with self._lock:
            is_kept = child.is_alive and not self._is_stopped
            if is_kept:
                self._idle.append(child)
        if not is_kept:
            child.close()

    def _count(self, name: str, *, is_failed: bool) -> None:
        with self._lock:
            counts = self._counts[name]
            counts[0] += 1
            counts[1] += is_failed
