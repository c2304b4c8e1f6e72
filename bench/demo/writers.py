"""Writer processes that correct delays while Spark works, each one correction after the other.

A correction is a check_and_put that expects the delay of the writer's last correction. Each flight has only one writer,
so a failed check means that a change was lost or applied twice.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.synchronize import Event
from types import TracebackType

import rowlock

from bench.demo import tables
from bench.demo.corrections import Correction, Journal, Rounds
from bench.demo.state import CALL_SECONDS
from bench.demo.worker_processes import WorkerProcesses, processes

# Between two corrections of one writer, so that the writers are always active but leave the CPU to Spark.
_PAUSE_SECONDS = 0.002
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Signals:
    """The events between a writer and the process that waits for it."""

    begun: Event
    stop: Event


class Writers:
    """Starts a writer process for each of the rounds; they correct until stop(). A context manager."""

    def __init__(self, address: str, rounds: Sequence[Rounds]) -> None:
        """Blocks until each has an acknowledged correction. Raises WorkerFailedError."""
        self._signals = [Signals(processes.Event(), processes.Event()) for _ in rounds]
        pairs = zip(rounds, self._signals, strict=True)
        self._workers = WorkerProcesses(
            [partial(correct_until_stopped, address, own, signals) for own, signals in pairs]
        )
        try:
            while not all(signals.begun.is_set() for signals in self._signals):
                self.check()
        except BaseException:
            self._workers.__exit__(None, None, None)
            raise

    def check(self) -> None:
        """Raises WorkerFailedError if a writer failed."""
        self._workers.wait(_POLL_SECONDS)

    def stop(self) -> list[Journal]:
        """Stops the writers. Returns their journals, with every correction acknowledged. Raises WorkerFailedError."""
        for signals in self._signals:
            signals.stop.set()
        return self._workers.results()

    def __enter__(self) -> Writers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._workers.__exit__(kind, error, trace)


def correct_until_stopped(address: str, rounds: Rounds, signals: Signals) -> Journal:
    """Does one writer's work, in its process. Returns the journal."""
    journal = Journal()
    with rowlock.connect(address, timeout=CALL_SECONDS) as client:
        flights = client.table(tables.SPARK_FLIGHTS)
        while not signals.stop.wait(_PAUSE_SECONDS):
            correction = rounds.correction(len(journal.sent))
            journal.sent.append(time.monotonic_ns())
            result = correct(flights, rounds.writer, correction)
            journal.acknowledged.append(time.monotonic_ns())
            # Only this writer changes this flight.
            assert result.applied, f"{correction} met {result.current!r}"
            signals.begun.set()
    return journal


def correct(flights: rowlock.Table[bytes], writer: str, correction: Correction) -> rowlock.CheckResult[bytes]:
    """Changes the delay and records the writer and the number: one atomic change of two families."""
    return flights.check_and_put(
        correction.row,
        tables.ARRIVAL_DELAY,
        tables.number_bytes(correction.old),
        {
            tables.ARRIVAL_DELAY: tables.number_bytes(correction.new),
            tables.FIXED_BY: writer,
            tables.FIX_NUMBER: tables.number_bytes(correction.number),
        },
    )
