"""Several processes count flights by carrier and airport, while the server is killed and restarted.

Each flight is one atomic change of its carrier's row, which increments a counter of its origin and one of its
destination. The counters are correct only if the kill loses no acknowledged change, and no change that a client retries
after a lost answer counts twice.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from ctypes import c_long
from functools import partial
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Barrier

import rowlock
import rowlock.aio

from bench.demo import tables
from bench.demo.output import Output
from bench.demo.state import CALL_SECONDS, DemoState, Stopwatch
from bench.demo.worker_processes import WorkerProcesses, processes

_PROCESSES = 3
# Concurrent calls of each process.
_CALLS = 64
# The server is killed when this fraction of the flights is acknowledged.
_KILL_AFTER = 0.5
_POLL_SECONDS = 0.05

# Carrier, origin, destination.
Leg = tuple[str, str, str]
# (row, column): count.
Counts = Counter[tuple[bytes, bytes]]


def count(state: DemoState) -> None:
    """Counts every flight, kills the server meanwhile, and compares each counter with the source."""
    state.client.create_table(tables.COUNTS, tables.COUNTS_FAMILIES)
    columns = [state.expected[name].to_pylist() for name in ("carrier", "origin", "dest")]
    legs: list[Leg] = list(zip(*columns, strict=True))
    acknowledged = [processes.Value(c_long, 0) for _ in range(_PROCESSES)]
    start = processes.Barrier(_PROCESSES)
    pieces = [
        partial(count_share, state.address, legs[number::_PROCESSES], start, acknowledged[number])
        for number in range(_PROCESSES)
    ]
    watch = Stopwatch()
    with WorkerProcesses(pieces) as workers, state.output.progress("counting", len(legs)) as bar:
        killed = False
        while workers.wait(_POLL_SECONDS):
            done = sum(counter.value for counter in acknowledged)
            bar.reach(done)
            if not killed and done >= _KILL_AFTER * len(legs):
                _kill(state, acknowledged)
                killed = True
        workers.results()
    state.output.line(watch.rate(len(legs), f"flights counted by {_PROCESSES} processes") + ", including the crash")
    state.output.compare("the server was killed during the count", killed, True)
    compare(state.output, read_counts(state.client.table(tables.COUNTS)), counts_of(legs))


def _kill(state: DemoState, acknowledged: Sequence[Synchronized[int]]) -> None:
    """Kills and restarts the server, and checks that the acknowledged flights are counted."""
    at_least = sum(counter.value for counter in acknowledged)
    ready_seconds = state.crash_and_restart()
    state.output.line(f"server killed after {at_least:,} acknowledged flights; ready again after {ready_seconds:.1f} s")
    counted = sum(read_counts(state.client.table(tables.COUNTS)).values()) // 2
    claim = (
        f"all {at_least:,} flights acknowledged before the kill are counted after it, "
        f"and {counted - at_least:,} of those in flight"
    )
    state.output.compare(claim, counted >= at_least, True)


def count_share(address: str, legs: Sequence[Leg], start: Barrier, acknowledged: Synchronized[int]) -> None:
    """Counts one process's flights."""
    asyncio.run(count_all(address, legs, start, acknowledged))


async def count_all(address: str, legs: Sequence[Leg], start: Barrier, acknowledged: Synchronized[int]) -> None:
    """Counts the flights with many concurrent calls of one client."""
    async with rowlock.aio.connect(address, timeout=CALL_SECONDS) as client:
        # After connecting: then a client waits for a server that is down, while connect() raises.
        await asyncio.to_thread(start.wait, CALL_SECONDS)
        table = client.table(tables.COUNTS)
        waiting = iter(legs)

        async def caller() -> None:
            for carrier, origin, destination in waiting:
                changes = [rowlock.Increment(f"from:{origin}"), rowlock.Increment(f"to:{destination}")]
                await table.mutate_row(carrier, changes)
                acknowledged.value += 1

        await asyncio.gather(*(caller() for _ in range(_CALLS)))


def counts_of(legs: Iterable[Leg]) -> Counts:
    """Returns the expected counters of these flights."""
    counts: Counts = Counter()
    for carrier, origin, destination in legs:
        counts[carrier.encode(), f"from:{origin}".encode()] += 1
        counts[carrier.encode(), f"to:{destination}".encode()] += 1
    return counts


def read_counts(table: rowlock.Table[bytes]) -> Counts:
    """Returns the counters of the table."""
    return Counter(
        {
            (row, column): int.from_bytes(value, "big", signed=True)
            for row, cells in table.scan()
            for column, value in cells.items()
        }
    )


def compare(output: Output, found: Counts, expected: Counts) -> None:
    """Compares the counters."""
    differing = {
        key: (found[key], expected[key]) for key in found.keys() | expected.keys() if found[key] != expected[key]
    }
    total = sum(expected.values()) // 2
    claim = f"all {len(expected):,} counters are exact, {total:,} flights in total: none lost, none counted twice"
    output.compare(claim, dict(list(differing.items())[:5]), {})
