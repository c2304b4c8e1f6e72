"""Two writers correct the same delays: each reads, decides, and writes only if the delay has not changed since.

check_and_put compares with the value that the writer read. Of two writers that read the same value, exactly one wins,
and the result of the other has the current value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.synchronize import Barrier

import pyarrow as pa
import rowlock

from bench.demo import tables
from bench.demo.flights import keys_of
from bench.demo.state import CALL_SECONDS, DemoState, Stopwatch
from bench.demo.worker_processes import WorkerProcesses, processes

_CORRECTIONS = 500
_WRITERS = ("anna", "ben")
# Each writer's correction, in minutes, so that the value shows the winner.
_MINUTES = {"anna": -1, "ben": -2}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One writer's attempt at one flight."""

    saw: int
    won: bool
    # For the loser, the value of the failed check.
    current: int


def correct(state: DemoState) -> None:
    """Races for some delayed flights, checks each race, and takes the winners' values as the expected ones."""
    numbers = chosen(state.expected)
    rows = keys_of(state.expected.take(pa.array(numbers, pa.int64())))
    start = processes.Barrier(len(_WRITERS))
    watch = Stopwatch()
    with WorkerProcesses([partial(race, state.address, name, rows, start) for name in _WRITERS]) as workers:
        anna, ben = workers.results()
    state.output.line(watch.rate(2 * len(rows), "check-and-puts from two processes"))
    delays = delays_of(state.expected, numbers)
    races = zip(rows, delays, anna, ben, strict=True)
    unfair = [(row, attempts) for row, delay, *attempts in races if not fair(delay, attempts)]
    wins = f"anna {sum(attempt.won for attempt in anna)}, ben {sum(attempt.won for attempt in ben)}"
    claim = f"exactly one writer won each of {len(rows)} races ({wins}), and the other one saw its value"
    state.output.compare(claim, unfair[:3], [])
    winners = [_WRITERS[0] if attempt.won else _WRITERS[1] for attempt in anna]
    state.expected = corrected(state.expected, numbers, winners)


def race(address: str, name: str, rows: Sequence[bytes], start: Barrier) -> list[Attempt]:
    """Runs one writer, in its process. Both writers read a flight's delay before either of them writes it."""
    attempts = []
    with rowlock.connect(address, timeout=CALL_SECONDS) as client:
        flights = client.table(tables.FLIGHTS)
        for row in rows:
            seen = flights.row(row, [tables.ARRIVAL_DELAY])[tables.ARRIVAL_DELAY.encode()]
            delay = tables.number_of(seen)
            correction: dict[str, bytes | str] = {
                tables.ARRIVAL_DELAY: tables.number_bytes(delay + _MINUTES[name]),
                tables.CORRECTED_BY: name,
            }
            start.wait(CALL_SECONDS)
            result = flights.check_and_put(row, tables.ARRIVAL_DELAY, seen, correction)
            # Delays change but are never deleted, so the check has found a value.
            assert result.current is not None, f"the delay of {row!r} has disappeared"
            attempts.append(Attempt(delay, result.applied, tables.number_of(result.current)))
    return attempts


def fair(delay: int, attempts: Sequence[Attempt]) -> bool:
    """Returns whether both saw the delay, one won, and the other one saw the winner's value."""
    winners = [name for name, attempt in zip(_WRITERS, attempts, strict=True) if attempt.won]
    if len(winners) != 1:
        return False
    written = delay + _MINUTES[winners[0]]
    return all(attempt.saw == delay and attempt.current == (delay if attempt.won else written) for attempt in attempts)


def corrected(flights: pa.Table, numbers: Sequence[int], winners: Sequence[str]) -> pa.Table:
    """Returns the flights with the winners' corrections at these indexes."""
    delays = flights["arr_delay"].to_pylist()
    names: list[str | None] = [None] * len(flights)
    for number, delay, winner in zip(numbers, delays_of(flights, numbers), winners, strict=True):
        delays[number] = delay + _MINUTES[winner]
        names[number] = winner
    flights = flights.set_column(flights.column_names.index("arr_delay"), "arr_delay", pa.array(delays, pa.int32()))
    return flights.set_column(flights.column_names.index("corrected_by"), "corrected_by", pa.array(names, pa.string()))


def delays_of(flights: pa.Table, numbers: Sequence[int]) -> list[int]:
    """Returns the delays at these indexes, none of which is null."""
    delays: list[int] = flights["arr_delay"].take(pa.array(numbers, pa.int64())).to_numpy().tolist()
    return delays


def chosen(flights: pa.Table) -> list[int]:
    """Returns indexes of flights with a delay, spread over the year."""
    delayed: list[int] = flights["arr_delay"].is_valid().to_numpy().nonzero()[0].tolist()
    count = min(_CORRECTIONS, len(delayed))
    return [delayed[number * len(delayed) // count] for number in range(count)]
