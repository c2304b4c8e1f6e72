"""The writers that correct delays while Spark runs: each is a process that makes one correction after the other.

A correction is a check_and_put against the delay that the writer stored last. A flight has only one writer, so a check
that finds another delay has found a lost or a repeated change.
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
from bench.demo.process_group import ProcessGroup, processes
from bench.demo.stage import CALL_SECONDS

# The pause between two corrections of one writer, so that the writers leave most of the CPU to Spark.
_PAUSE_SECONDS = 0.002
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Signals:
    """The events between a writer and the process that waits for it."""

    begun: Event
    stop: Event


class Writers:
    """One writer for each of the rounds, as a context manager; they correct until stop()."""

    def __init__(self, address: str, rounds: Sequence[Rounds]) -> None:
        """Starts the writers and blocks until each has a correction acknowledged. Raises ProcessFailedError."""
        self._signals = [Signals(processes.Event(), processes.Event()) for _ in rounds]
        pairs = zip(rounds, self._signals, strict=True)
        self._group = ProcessGroup([partial(correct_until_stopped, address, own, signals) for own, signals in pairs])
        try:
            while not all(signals.begun.is_set() for signals in self._signals):
                self.check()
        except BaseException:
            self._group.__exit__(None, None, None)
            raise

    def check(self) -> None:
        """Raises ProcessFailedError if a writer failed."""
        self._group.at_work(_POLL_SECONDS)

    def stop(self) -> list[Journal]:
        """Stops the writers; returns their journals, with every correction acknowledged. Raises ProcessFailedError."""
        for signals in self._signals:
            signals.stop.set()
        return self._group.answers()

    def __enter__(self) -> Writers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._group.__exit__(kind, error, trace)


def correct_until_stopped(address: str, rounds: Rounds, signals: Signals) -> Journal:
    """Runs one writer, in a process of its own, until it is stopped."""
    journal = Journal()
    with rowlock.connect(address, timeout=CALL_SECONDS) as client:
        flights = client.table(tables.SPARK_FLIGHTS)
        while not signals.stop.wait(_PAUSE_SECONDS):
            correction = rounds.correction(len(journal.sent))
            journal.sent.append(time.monotonic_ns())
            result = correct(flights, rounds.writer, correction)
            journal.acknowledged.append(time.monotonic_ns())
            # Only this writer changes the flight.
            assert result.applied, f"{correction} met {result.current!r}"
            signals.begun.set()
    return journal


def correct(flights: rowlock.Table[bytes], writer: str, correction: Correction) -> rowlock.CheckResult[bytes]:
    """Writes delay, writer and number of a correction, as one atomic change over two families."""
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
