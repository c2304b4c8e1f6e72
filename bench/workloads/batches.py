"""Batches of puts from dicts: sent as columns, against the same sent as mutations."""

from __future__ import annotations

import itertools
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

import psutil
import rowlock

from bench.bench import Bench
from bench.measure import Measurement, Spread, latencies_for, percentile
from bench.targets.messages import row_key
from bench.targets.rowlock import Rowlock, running_rowlock

_ROWS = 20_000
_BATCH_ROWS = 1000
_COLUMNS = 10
_VALUE_BYTES = 100
Row = tuple[bytes, dict[bytes, bytes]]
# The last protocol without puts in columns.
_WITHOUT_COLUMNS = 5


@dataclass(slots=True)
class _Way:
    """The samples of one way to send: rows a second, and CPU microseconds a row of client and server."""

    rates: list[float] = field(default_factory=list)
    client_cpu: list[float] = field(default_factory=list)
    server_cpu: list[float] = field(default_factory=list)

    def measure(self, server: Rowlock, client: rowlock.Client, rows: Sequence[Row], *, is_counted: bool) -> None:
        """Puts the rows into a new table."""
        client.create_table("t", ["f"], durability="os")
        table = client.table("t")
        server_cpu = _cpu_seconds_of(server.process.pid)
        server_before, client_before, start = server_cpu(), time.process_time(), time.perf_counter()
        with table.batch(size=_BATCH_ROWS) as batch:
            for row, data in rows:
                batch.put(row, data)
        seconds, client_seconds = time.perf_counter() - start, time.process_time() - client_before
        server_seconds = server_cpu() - server_before
        client.drop_table("t")
        if is_counted:
            count = len(rows)
            self.rates.append(count / seconds)
            self.client_cpu.append(1e6 * client_seconds / count)
            self.server_cpu.append(1e6 * server_seconds / count)

    def details(self, name: str) -> dict[str, Spread]:
        return {
            f"rows/s {name}": Spread.of(self.rates),
            f"CPU µs/row of the client, {name}": Spread.of(self.client_cpu),
            f"CPU µs/row of the server, {name}": Spread.of(self.server_cpu),
        }


def puts(bench: Bench) -> Measurement:
    """Measures rows a second of `table.batch()` at durability `os`, in columns against as mutations, by turns."""
    row_count = bench.scaled(_ROWS, at_least=_BATCH_ROWS)
    rows = [(row_key(number), _data(number)) for number in range(row_count)]
    columns, mutations = _Way(), _Way()
    with (
        running_rowlock(bench.fresh_folder("batches")) as server,
        rowlock.connect(server.process.address, timeout=60) as other,
    ):
        _without_columns(other)
        turns: list[tuple[_Way, rowlock.Client]] = [(columns, server.client), (mutations, other)]
        for number in range(bench.rounds + 1):
            for way, client in turns:
                way.measure(server, client, rows, is_counted=number > 0)  # The first round warms both up.
            turns.reverse()
    ratios = [ours / theirs for ours, theirs in zip(columns.rates, mutations.rates, strict=True)]
    return Measurement(Spread.of(ratios), columns.details("in columns") | mutations.details("as mutations"))


def puts_beside(bench: Bench) -> Measurement:
    """Measures the 99th percentile of another client's puts beside batches in columns, against beside mutations."""
    columns, mutations = list[float](), list[float]()
    with running_rowlock(bench.fresh_folder("puts-beside")) as server:
        table = server.store("t", "os").table
        numbers = itertools.count()

        def put() -> None:
            table.put(b"single-%d" % (next(numbers) % 1000), _data(0))

        turns = [(columns, True), (mutations, False)]
        for number in range(bench.rounds + 1):
            for samples, takes_columns in turns:
                with _writing_batches(server.process.address, takes_columns=takes_columns):
                    latencies = latencies_for(put, 2 * bench.turn_seconds)
                if number:
                    samples.append(1000 * percentile(latencies, 99))
            turns.reverse()
    return Measurement(
        Spread.of([ours / theirs for ours, theirs in zip(columns, mutations, strict=True)]),
        {"ms beside batches in columns": Spread.of(columns), "ms beside mutations": Spread.of(mutations)},
    )


@contextmanager
def _writing_batches(address: str, *, takes_columns: bool) -> Iterator[None]:
    """Writes batches into table `t`, in a process of its own, so that only the server is shared."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    writer = context.Process(target=_write_batches, args=(address, takes_columns, theirs), daemon=True)
    writer.start()
    try:
        ours.recv()
        yield
    finally:
        writer.terminate()
        writer.join()


def _write_batches(address: str, takes_columns: bool, begun: Connection) -> None:
    rows = [(row_key(number), _data(number)) for number in range(_ROWS)]
    with rowlock.connect(address, timeout=60) as client:
        if not takes_columns:
            _without_columns(client)
        with client.table("t").batch(size=_BATCH_ROWS) as batch:
            for count in itertools.count():
                row, data = rows[count % len(rows)]
                batch.put(row, data)
                if count == 2 * _BATCH_ROWS:
                    begun.send(None)


def _without_columns(client: rowlock.Client) -> None:
    """Makes the client send as to a server that does not know puts in columns."""
    protocols = client._servers.protocols
    protocols.update(dict.fromkeys(protocols, _WITHOUT_COLUMNS))


def _cpu_seconds_of(pid: int) -> Callable[[], float]:
    process = psutil.Process(pid)

    def seconds() -> float:
        times = process.cpu_times()
        return float(times.user + times.system)

    return seconds


def _data(number: int) -> dict[bytes, bytes]:
    """Returns a row of new objects, as an application makes them."""
    return {
        b"f:field%d" % column: (b"%d-%d-" % (number, column)).ljust(_VALUE_BYTES, b"x") for column in range(_COLUMNS)
    }
