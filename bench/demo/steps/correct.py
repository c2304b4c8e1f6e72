"""Two writers correct the same delays: each reads a delay, and writes only if the other has not changed it.

check_and_put compares with the value that the writer saw. If two writers saw the same value, exactly one wins, and the
other gets the current value.
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
from bench.demo.process_group import ProcessGroup, processes
from bench.demo.stage import CALL_SECONDS, Stage, Stopwatch

_CORRECTIONS = 500
_WRITERS = ("anna", "ben")
# Each writer's correction in minutes; they differ, so that the value identifies the winner.
_MINUTES = {"anna": -1, "ben": -2}


@dataclass(frozen=True, slots=True)
class Attempt:
    """The outcome of one writer's attempt at one flight."""

    saw: int
    won: bool
    # In the answer of a failed check.
    current: int


def correct(stage: Stage) -> None:
    """Races for some flights that have a delay, verifies each race, and takes the winners' values as expected."""
    numbers = chosen(stage.expected)
    rows = keys_of(stage.expected.take(pa.array(numbers, pa.int64())))
    start = processes.Barrier(len(_WRITERS))
    watch = Stopwatch()
    with ProcessGroup([partial(race, stage.address, name, rows, start) for name in _WRITERS]) as group:
        anna, ben = group.answers()
    stage.account.say(watch.rate(2 * len(rows), "check-and-puts from two processes"))
    delays = delays_of(stage.expected, numbers)
    races = zip(rows, delays, anna, ben, strict=True)
    unfair = [(row, attempts) for row, delay, *attempts in races if not fair(delay, attempts)]
    wins = f"anna {sum(attempt.won for attempt in anna)}, ben {sum(attempt.won for attempt in ben)}"
    claim = f"exactly one won each of {len(rows)} races ({wins}), and the other got the winner's value"
    stage.account.compare(claim, unfair[:3], [])
    winners = [_WRITERS[0] if attempt.won else _WRITERS[1] for attempt in anna]
    stage.expected = corrected(stage.expected, numbers, winners)


def race(address: str, name: str, rows: Sequence[bytes], start: Barrier) -> list[Attempt]:
    """Runs one writer, in a process of its own. Both have read a flight's delay before either writes it."""
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
            # A delay can change, but it is never deleted.
            assert result.current is not None, f"the delay of {row!r} is missing"
            attempts.append(Attempt(delay, result.applied, tables.number_of(result.current)))
    return attempts


def fair(delay: int, attempts: Sequence[Attempt]) -> bool:
    """Returns whether both saw the delay, one won, and the other got the winner's value."""
    winners = [name for name, attempt in zip(_WRITERS, attempts, strict=True) if attempt.won]
    if len(winners) != 1:
        return False
    written = delay + _MINUTES[winners[0]]
    return all(attempt.saw == delay and attempt.current == (delay if attempt.won else written) for attempt in attempts)


def corrected(flights: pa.Table, numbers: Sequence[int], winners: Sequence[str]) -> pa.Table:
    """Returns the flights with the winners' corrections of the rows with these numbers."""
    delays = flights["arr_delay"].to_pylist()
    names: list[str | None] = [None] * len(flights)
    for number, delay, winner in zip(numbers, delays_of(flights, numbers), winners, strict=True):
        delays[number] = delay + _MINUTES[winner]
        names[number] = winner
    flights = flights.set_column(flights.column_names.index("arr_delay"), "arr_delay", pa.array(delays, pa.int32()))
    return flights.set_column(flights.column_names.index("corrected_by"), "corrected_by", pa.array(names, pa.string()))


def delays_of(flights: pa.Table, numbers: Sequence[int]) -> list[int]:
    """Returns the delays of the rows with these numbers, which all have one."""
    delays: list[int] = flights["arr_delay"].take(pa.array(numbers, pa.int64())).to_numpy().tolist()
    return delays


def chosen(flights: pa.Table) -> list[int]:
    """Returns the numbers of some flights with a delay, spread over the year."""
    delayed: list[int] = flights["arr_delay"].is_valid().to_numpy().nonzero()[0].tolist()
    count = min(_CORRECTIONS, len(delayed))
    return [delayed[number * len(delayed) // count] for number in range(count)]
