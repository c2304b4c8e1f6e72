"""The footprint of an idle server: the time until it is ready, and its memory."""

from __future__ import annotations

import importlib.util

import psutil

from bench.bench import Bench
from bench.measure import Measurement, Spread
from bench.processes import start_rowlock
from bench.targets.rowlock import running_rowlock


def ready(bench: Bench) -> Measurement:
    """Measures the seconds from the start of the process to its ready line, on an empty folder."""
    assert importlib.util.find_spec("pandas"), "pandas must be installed: a server that imports it would start slowly"
    samples, computed = [], []
    for _ in range(bench.rounds):
        with start_rowlock(bench.fresh_folder("ready") / "data") as server:
            samples.append(server.ready_seconds)
            computed.append(server.ready_cpu_seconds)
    return Measurement(Spread.of(samples), {"s computing": Spread.of(computed)})


def resident(bench: Bench) -> Measurement:
    """Measures the resident megabytes after a client has connected and listed the tables."""
    samples = []
    for _ in range(min(bench.rounds, 3)):
        with running_rowlock(bench.fresh_folder("resident")) as rowlock:
            rowlock.client.tables()
            samples.append(psutil.Process(rowlock.process.pid).memory_info().rss / 1e6)
    return Measurement(Spread.of(samples))
