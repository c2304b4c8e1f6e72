"""How long a server with many tables takes to start, after a kill and after a stop."""

from __future__ import annotations

from bench.bench import Bench
from bench.measure import Measurement, Spread
from bench.targets.rowlock import running_rowlock

_TABLES = 2000
_ROUNDS_MAX = 3


def start(bench: Bench) -> Measurement:
    """Measures the seconds from the start of the process until it accepts clients. A row was put into each table.

    After a kill the rows are in the log, and are replayed; after a stop each is in a store file of its own.
    """
    folder = bench.fresh_folder("tables-start")
    names = [f"t{number}" for number in range(bench.scaled(_TABLES, at_least=4))]
    with running_rowlock(folder) as server:
        for name in names:
            server.client.create_table(name, ["f"])
    seconds: dict[str, list[float]] = {"after a kill": [], "after a stop": []}
    cpu_seconds: list[float] = []
    resident_mib: list[float] = []
    value = b""
    for number in range(min(bench.rounds, _ROUNDS_MAX)):
        value = b"%100d" % number
        with running_rowlock(folder) as server:
            for name in names:
                server.client.table(name).put(b"row", {b"f:q": value})
        for kind, found in seconds.items():
            with running_rowlock(folder) as server:
                found.append(server.process.ready_seconds)
                cpu_seconds.append(server.process.ready_cpu_seconds)
                resident_mib.append(server.process.peak_resident_mib())
                assert server.client.table(names[-1]).row(b"row") == {b"f:q": value}, kind
                server.process.stop()
    return Measurement(
        Spread.of([each for found in seconds.values() for each in found]),
        {
            **{f"s {kind}": Spread.of(found) for kind, found in seconds.items()},
            "s of processor time": Spread.of(cpu_seconds),
            "MiB resident": Spread.of(resident_mib),
        },
    )
