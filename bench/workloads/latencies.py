"""Latencies without coordinated omission: quiet, and while the server flushes and compacts all the time.

The highest rate is that of eight threads of one client in a closed loop. In the open loop the same threads make calls
that are due at 70 % of it, at equal distances, and a call's latency counts from when it was due. One caller in a closed
loop is measured too, with HdrHistogram's correction.

If the machine was quicker while the highest rate was measured than later, the open loop falls behind: then its
latencies are those of a queue. The detail "s behind" says by how much.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from bench.bench import Bench
from bench.histogram import Histogram
from bench.measure import Measurement, Operation, Spread, rate_of_threads
from bench.schedule import even, open_loop
from bench.side_process import SideProcess
from bench.targets import cell_tables
from bench.targets.framed_echo import SharedFramedEcho, framed_echo
from bench.targets.messages import FAMILY, row_key
from bench.targets.rowlock import Rowlock, running_rowlock
from bench.workloads.bulk import mapping

CALLERS = 8
_SHARE = 0.7
_ROWS = 100_000
_ROUNDS_MAX = 5
# Turns of the usual length have too few calls for a 99th percentile.
_TURNS_EACH = 10
_TABLE = "latencies"
_COLUMN = FAMILY + b":q0"

# Returns the operation of one caller, by the caller's number.
Operations = Callable[[Rowlock, int, int], Operation]


def get_of(server: Rowlock, row_count: int, seed: int) -> Operation:
    """Returns gets of random rows of ten columns."""
    table, chance = server.client.table(_TABLE), random.Random(seed)
    return lambda: table.row(row_key(chance.randrange(row_count)))


def put_of(server: Rowlock, row_count: int, seed: int) -> Operation:
    """Returns puts of one column of random rows."""
    table, chance = server.client.table(_TABLE), random.Random(seed)
    return lambda: table.put(row_key(chance.randrange(row_count)), {_COLUMN: chance.randbytes(100)})


def quiet(bench: Bench, operations: Operations, echo_method: bytes) -> Measurement:
    """Measures the quiet p99 against the p50, in the loop in which it is worse; the details have a raw echo's, too."""
    folder = bench.fresh_folder("latencies-quiet")
    seconds = bench.turn_seconds * bench.scaled(_TURNS_EACH)
    samples = _Samples()
    ratios: list[float] = []
    with running_rowlock(folder) as server, framed_echo(folder) as connection:
        callers = _callers(server, _loaded(server, bench), operations)
        echo = SharedFramedEcho(connection, echo_method)
        echoes = [echo.exchange] * CALLERS
        for _ in range(min(bench.rounds, _ROUNDS_MAX)):
            open_calls = _at_share(callers, seconds, samples, "")[1]
            closed_calls = closed_loop(callers[0], seconds)
            samples.add("closed loop", closed_calls)
            ratios.append(max(_tail(open_calls), _tail(closed_calls)))
            open_echoes = _at_share(echoes, seconds, samples, "raw echo, ")[1]
            closed_echoes = closed_loop(echo.exchange, seconds)
            samples.add("raw echo, closed loop", closed_echoes)
            # Compared with a goal from below, because the figure's target is one, too.
            samples.add_number(ECHO_P50_OF_P99, 1 / max(_tail(open_echoes), _tail(closed_echoes)))
    return Measurement(Spread.of(ratios), samples.details())


# The detail of `quiet` that says whether the machine itself is quiet enough for the figure to mean something.
ECHO_P50_OF_P99 = "the raw echo's p50 / p99"


def busy(bench: Bench, operations: Operations, echo_method: bytes) -> Measurement:
    """Measures the p99 in the open loop while the server flushes and compacts, against the quiet p99 beside it.

    The details have the same of a raw echo, a process of its own: what it loses, it loses by waiting for a core.
    """
    folder = bench.fresh_folder("latencies-busy")
    seconds = bench.turn_seconds * bench.scaled(_TURNS_EACH)
    samples = _Samples()
    ratios: list[float] = []
    with ExitStack() as stack:
        server = stack.enter_context(running_rowlock(folder))
        row_count = _loaded(server, bench)
        connection = stack.enter_context(framed_echo(folder))
        words = [server.process.address, _TABLE, str(row_count), str(seconds)]
        churn = stack.enter_context(SideProcess([sys.executable, "-m", "bench.targets.churn", *words]))

        def beside(callers: Sequence[Operation], prefix: str) -> float:
            """Returns the p99 beside the churn against the quiet one."""
            rate, calm = _at_share(callers, seconds, samples, f"{prefix}quiet, ")
            churn.send("churn")
            working = open_loop(callers, even(rate, seconds))
            rounds = churn.receive("churn")["rounds"]
            assert isinstance(rounds, int), f"not a number of rounds: {rounds!r}"
            samples.add(f"{prefix}flushing and compacting, open loop", working)
            samples.add_number(f"{prefix}flushes and major compactions meanwhile", rounds)
            return working.percentile(99) / calm.percentile(99)

        callers = _callers(server, row_count, operations)
        echoes = [SharedFramedEcho(connection, echo_method).exchange] * CALLERS
        for _ in range(min(bench.rounds, _ROUNDS_MAX)):
            ratios.append(beside(callers, ""))
            samples.add_number("the raw echo's busy p99 / quiet p99", beside(echoes, "raw echo, "))
    return Measurement(Spread.of(ratios), samples.details())


def _tail(latencies: Histogram) -> float:
    return latencies.percentile(99) / latencies.percentile(50)


def closed_loop(operation: Operation, seconds: float) -> Histogram:
    """Calls one operation after the other; returns the latencies, with those of the calls that a slow one kept back.

    The interval at which calls were expected is their median.
    """
    latencies: list[int] = []
    stop = time.perf_counter() + seconds
    while not latencies or time.perf_counter() < stop:
        start = time.perf_counter_ns()
        operation()
        latencies.append(time.perf_counter_ns() - start)
    interval = max(1, Histogram.of(latencies).percentile(50))
    corrected = Histogram()
    for latency in latencies:
        corrected.record_with_omissions(latency, interval)
    return corrected


class _Samples:
    """Collects the quantities behind a figure, by name, one sample a round."""

    def __init__(self) -> None:
        self._samples: dict[str, list[float]] = {}

    def add_number(self, name: str, value: float) -> None:
        self._samples.setdefault(name, []).append(value)

    def add(self, name: str, latencies: Histogram) -> None:
        """Adds the 50th and the 99th percentile of one round."""
        for percent in (50, 99):
            self.add_number(f"ms, {name}, p{percent}", latencies.milliseconds(percent))

    def details(self) -> dict[str, Spread]:
        return {name: Spread.of(samples) for name, samples in self._samples.items()}


def _at_share(callers: Sequence[Operation], seconds: float, samples: _Samples, prefix: str) -> tuple[float, Histogram]:
    """Measures the highest rate, then the open loop at 70 % of it; returns that rate and the latencies."""
    highest = rate_of_threads(callers, seconds)
    samples.add_number(f"{prefix}highest calls/s", highest)
    start = time.perf_counter()
    latencies = open_loop(callers, even(_SHARE * highest, seconds))
    samples.add(f"{prefix}open loop", latencies)
    samples.add_number(f"{prefix}s behind, open loop", max(0.0, time.perf_counter() - start - seconds))
    return _SHARE * highest, latencies


def _callers(server: Rowlock, row_count: int, operations: Operations) -> list[Operation]:
    return [operations(server, row_count, seed) for seed in range(CALLERS)]


def _loaded(server: Rowlock, bench: Bench) -> int:
    """Creates the table with its rows in one file; returns how many there are."""
    row_count = bench.scaled(_ROWS, at_least=1000)
    store = server.store(_TABLE, durability="os")
    store.table.put_arrow(cell_tables.wide_rows(row_count), mapping())
    server.client.flush(_TABLE)
    server.client.compact(_TABLE, major=True, wait=True)
    return row_count
