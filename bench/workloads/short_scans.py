"""The CPU time of a short scan, of client and server together: opened by a point request, and by a call of its own.

CPU time depends less on other load than rates do. The rows are in store files, and their blocks in the block cache.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import psutil

from bench.bench import Bench
from bench.measure import Measurement, Spread
from bench.targets.rowlock import running_rowlock

_ROWS = 20_000
_COLUMNS = 10
_VALUE_BYTES = 100
# Of a server that opens no scans by point requests.
_EARLIER_PROTOCOL = 5


def cpu(bench: Bench, row_count: int) -> Measurement:
    """Measures the CPU time of scans with a limit by calls, against those that point requests open."""
    rows = bench.scaled(_ROWS, at_least=1000)
    draw = random.Random(5)
    with running_rowlock(bench.fresh_folder("short-scans")) as server:
        table = server.client.create_table("short", ["f"])
        with table.batch(size=1000) as batch:
            for number in range(rows):
                batch.put(
                    _key(number), {b"f:field%d" % column: draw.randbytes(_VALUE_BYTES) for column in range(_COLUMNS)}
                )
        server.client.flush("short")
        process = psutil.Process(server.process.pid)
        protocols = server.client._servers.protocols
        [address] = protocols
        protocol = protocols[address]

        def scan() -> None:
            found = sum(1 for _ in table.scan(_key(draw.randrange(rows - row_count)), limit=row_count))
            assert found == row_count, f"{found} rows"

        def seconds_by_call() -> tuple[float, float]:
            protocols[address] = _EARLIER_PROTOCOL
            return _cpu_of(scan, process, bench.turn_seconds)

        def seconds_opened() -> tuple[float, float]:
            protocols[address] = protocol
            return _cpu_of(scan, process, bench.turn_seconds)

        pairs = []
        for number in range(bench.rounds + 1):
            if number % 2:
                by_call, opened = seconds_by_call(), seconds_opened()
            else:
                opened, by_call = seconds_opened(), seconds_by_call()
            pairs.append((by_call, opened))
    pairs = pairs[1:]  # The first round warms both up.
    details = {
        f"µs of the {side}, {way}": Spread.of([1e6 * pair[of_way][of_side] for pair in pairs])
        for of_way, way in enumerate(("by a call", "opened by a point request"))
        for of_side, side in enumerate(("client", "server"))
    }
    return Measurement(Spread.of([sum(by_call) / sum(opened) for by_call, opened in pairs]), details)


def _key(number: int) -> bytes:
    return b"user%012d" % number


def _cpu_of(operation: Callable[[], None], server: psutil.Process, seconds: float) -> tuple[float, float]:
    """Returns the CPU seconds of an operation, of this process and of the server's; makes it for some seconds."""
    count = 0
    stop = time.perf_counter() + seconds
    mine, before = time.process_time(), server.cpu_times()
    while not count or time.perf_counter() < stop:
        operation()
        count += 1
    after = server.cpu_times()
    theirs = after.user + after.system - before.user - before.system
    return (time.process_time() - mine) / count, theirs / count
