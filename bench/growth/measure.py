"""Measures the points of the curves: a server of its own for each number of rows, one for all numbers of clients."""

from __future__ import annotations

import itertools
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import rowlock

from bench.cores import Cores
from bench.growth.curves import Curve
from bench.processes import ServerProcess, start_rowlock
from bench.targets.compactions import store_bytes
from bench.ycsb.arrow_rows import mapping, row_tables
from bench.ycsb.rows import FAMILY
from bench.ycsb.workers import Shape, Turn, Workers

_TABLE = "growth"
_WARM_S_MAX = 0.5
_TIMEOUT_S = 1200.0
# By operation of the workers: the name of its rate.
_WITH_ROWS = {
    "get": ("gets, 1 client", "calls/s"),
    "put": ("puts at os, 1 client", "calls/s"),
    "scan": ("scans of 1 to 100 rows, 1 client", "rows/s"),
    "full_scan": ("full scan to dicts", "rows/s"),
    "full_scan_arrow": ("full scan to Arrow", "rows/s"),
}
_WITH_CLIENTS = {"get": "gets", "put": "puts at os", "increment": "increments of one row"}

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a run measures. Clients are processes."""

    rows: tuple[int, ...]
    clients: tuple[int, ...]
    rows_of_clients: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Growth:
    """The curves of one kind of size, and the cores that other programs used at each size: the median of the turns."""

    curves: list[Curve]
    others: list[float]


class _Points:
    """Collects the points of several curves, by name and unit."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], list[float]] = {}
        self._others: dict[int, list[float]] = {}

    def add(self, name: str, unit: str, value: float) -> None:
        self._values.setdefault((name, unit), []).append(value)

    def add_others(self, size: int, cores: Cores) -> None:
        self._others.setdefault(size, []).append(cores.others + cores.stolen)

    def growth(self, per: str, sizes: Sequence[int]) -> Growth:
        curves = [Curve(name, unit, per, tuple(sizes), tuple(values)) for (name, unit), values in self._values.items()]
        return Growth(curves, [statistics.median(self._others[size]) for size in sizes])


def with_rows(folder: Path, sizes: Sizes, report: Report) -> Growth:
    """Returns how rates, memory, disk and the start grow with the rows of a compacted table."""
    points = _Points()
    for row_count in sizes.rows:
        with _loaded(folder / f"rows-{row_count}", row_count, points) as server:
            with _workers(server, 1, row_count) as workers:
                for operation, (name, unit) in _WITH_ROWS.items():
                    turn = _turn(workers, server, operation, 1, sizes.seconds)
                    points.add(name, unit, turn.outcome.rows_a_second)
                    points.add_others(row_count, turn.cores)
                    if operation == "get":
                        points.add("p99 of a get", "ms", turn.outcome.latencies.milliseconds(99))
                    report(f"{row_count:,} rows, {name}: {turn.outcome.rows_a_second:,.0f} {unit}")
            points.add("server's memory", "MiB", psutil.Process(server.pid).memory_info().rss / 2**20)
            server.kill()
        with start_rowlock(folder / f"rows-{row_count}") as restarted:
            points.add("start after a kill", "s", restarted.ready_seconds)
    return points.growth("rows", sizes.rows)


def with_clients(folder: Path, sizes: Sizes, report: Report) -> Growth:
    """Returns how rates and latencies grow with the number of clients that call at the same time."""
    points = _Points()
    with (
        _loaded(folder / "clients", sizes.rows_of_clients, _Points()) as server,
        _workers(server, max(sizes.clients), sizes.rows_of_clients) as workers,
    ):
        for operation, name in _WITH_CLIENTS.items():
            for count in sizes.clients:
                turn = _turn(workers, server, operation, count, sizes.seconds)
                points.add(name, "calls/s", turn.outcome.rows_a_second)
                points.add_others(count, turn.cores)
                points.add(f"p50 of {name}", "ms", turn.outcome.latencies.milliseconds(50))
                points.add(f"p99 of {name}", "ms", turn.outcome.latencies.milliseconds(99))
                report(f"{count} clients, {name}: {turn.outcome.rows_a_second:,.0f} a second")
    return points.growth("clients", sizes.clients)


@contextmanager
def _loaded(folder: Path, row_count: int, points: _Points) -> Iterator[ServerProcess]:
    """Runs a server with a compacted table of so many rows; adds what loading it cost and its size on disk."""
    with start_rowlock(folder) as server:
        with rowlock.connect(server.address, timeout=_TIMEOUT_S) as client:
            client.create_table(_TABLE, {FAMILY: rowlock.Family(versions=1)}, durability="os")
            seconds = 0.0
            for rows in row_tables(row_count):
                start = time.perf_counter()
                client.table(_TABLE).put_arrow(rows, mapping())
                seconds += time.perf_counter() - start
            points.add("loading by put_arrow", "rows/s", row_count / seconds)
            client.flush(_TABLE)
            client.compact(_TABLE, major=True, wait=True)
            points.add("disk", "bytes a row", store_bytes(client, _TABLE) / row_count)
        yield server


def _workers(server: ServerProcess, count: int, row_count: int) -> Workers:
    command = [sys.executable, "-m", "bench.ycsb.worker", "rowlock", server.address, _TABLE, str(row_count)]
    return Workers(command, count, itertools.count(1), {**os.environ})


def _turn(workers: Workers, server: ServerProcess, operation: str, clients: int, seconds: float) -> Turn:
    return workers.turn(operation, Shape(clients), min(_WARM_S_MAX, seconds), seconds, [server.pid])
