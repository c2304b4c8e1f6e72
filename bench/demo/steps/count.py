"""Several processes count flights by carrier and airport, while the server is killed and restarted.

Each flight is one atomic change of its carrier's row: it increments the counters of its origin and of its destination.
The counters are exact only if the kill loses no acknowledged change, and no change that is retried after a lost answer
counts twice.
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
from bench.demo.account import Account
from bench.demo.process_group import ProcessGroup, processes
from bench.demo.stage import CALL_SECONDS, Stage, Stopwatch

_PROCESSES = 3
# Concurrent calls of each process.
_CALLS = 64
# The server is killed after this part of the flights is acknowledged.
_KILL_AFTER = 0.5
_POLL_SECONDS = 0.05

# Carrier, origin, destination.
Leg = tuple[str, str, str]
# (row, column): how many.
Counts = Counter[tuple[bytes, bytes]]


def count(stage: Stage) -> None:
    """Counts every flight once, with a kill in the middle, and compares each counter with the source."""
    stage.client.create_table(tables.COUNTS, tables.COUNTS_FAMILIES)
    columns = [stage.expected[name].to_pylist() for name in ("carrier", "origin", "dest")]
    legs: list[Leg] = list(zip(*columns, strict=True))
    acknowledged = [processes.Value(c_long, 0) for _ in range(_PROCESSES)]
    start = processes.Barrier(_PROCESSES)
    tasks = [
        partial(count_share, stage.address, legs[number::_PROCESSES], start, acknowledged[number])
        for number in range(_PROCESSES)
    ]
    watch = Stopwatch()
    with ProcessGroup(tasks) as group, stage.account.progress("counting", len(legs)) as bar:
        killed = False
        while group.at_work(_POLL_SECONDS):
            done = sum(counter.value for counter in acknowledged)
            bar.reach(done)
            if not killed and done >= _KILL_AFTER * len(legs):
                _kill(stage, acknowledged)
                killed = True
        group.answers()
    stage.account.say(watch.rate(len(legs), f"flights counted by {_PROCESSES} processes") + ", the crash included")
    stage.account.compare("the server was killed while they counted", killed, True)
    compare(stage.account, read_counts(stage.client.table(tables.COUNTS)), counts_of(legs))


def _kill(stage: Stage, acknowledged: Sequence[Synchronized[int]]) -> None:
    """Kills and restarts the server; flights that were acknowledged before the kill must be counted after it."""
    at_least = sum(counter.value for counter in acknowledged)
    ready_seconds = stage.crash_and_restart()
    stage.account.say(f"killed after {at_least:,} were acknowledged; ready again after {ready_seconds:.1f} s")
    counted = sum(read_counts(stage.client.table(tables.COUNTS)).values()) // 2
    claim = (
        f"all {at_least:,} flights acknowledged before the kill are counted after it, "
        f"and {counted - at_least:,} of those in flight"
    )
    stage.account.compare(claim, counted >= at_least, True)


def count_share(address: str, legs: Sequence[Leg], start: Barrier, acknowledged: Synchronized[int]) -> None:
    """Counts one process's share of the flights."""
    asyncio.run(count_all(address, legs, start, acknowledged))


async def count_all(address: str, legs: Sequence[Leg], start: Barrier, acknowledged: Synchronized[int]) -> None:
    """Counts the flights with many concurrent calls on one client."""
    async with rowlock.aio.connect(address, timeout=CALL_SECONDS) as client:
        # A client fails to connect while the server is down, but a connected client retries.
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
    """Returns the stored counters."""
    return Counter(
        {
            (row, column): int.from_bytes(value, "big", signed=True)
            for row, cells in table.scan()
            for column, value in cells.items()
        }
    )


def compare(account: Account, found: Counts, expected: Counts) -> None:
    differing = {
        key: (found[key], expected[key]) for key in found.keys() | expected.keys() if found[key] != expected[key]
    }
    total = sum(expected.values()) // 2
    claim = f"all {len(expected):,} counters are exact, {total:,} flights in sum: nothing lost, nothing counted twice"
    account.compare(claim, dict(list(differing.items())[:5]), {})
