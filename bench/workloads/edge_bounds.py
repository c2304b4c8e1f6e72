"""The server's memory, and the waits of other clients, while clients send or request more than it should hold."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import rowlock
from rowlock_proto.v1 import region_pb2

from bench.bench import Bench
from bench.measure import Measurement, Operation, Spread, latencies_while
from bench.targets.cell_tables import random_values
from bench.targets.messages import FAMILY
from bench.targets.raw import RawConnection, put, raw_connection, received
from bench.targets.rowlock import Rowlock, running_rowlock

_FAMILIES, _UNKNOWN_ROWS = 1000, 4000
# Messages of 60 MiB, with cells of the largest size that a server accepts.
_SENDERS, _CELLS, _CELL_BYTES = 24, 6, 10 << 20
# A get is as large as an answer may be, and so is the scanned table.
_READERS, _ROWS, _ROW_BYTES, _GETS = 40, 60, 1_000_000, 50
_ROUND_TURNS = 6
# Batches of rows, columns, bytes of a value, and the share of values that are there; each is written by two clients.
_SHAPES = ((20_000, 10, 100, 1.0), (100_000, 1, 10, 1.0), (3_000, 100, 20, 0.3), (200, 1, 100_000, 1.0))
_WRITERS_EACH, _MIXED_TURNS = 2, 40


def rounds(bench: Bench) -> int:
    """Returns how many times each wait is measured."""
    return min(bench.rounds, 5)


@contextmanager
def attacked(bench: Bench, name: str) -> Iterator[tuple[Rowlock, RawConnection]]:
    """Runs a server with default settings, and opens the attacker's connection.

    Asserts at exit that the server's log has no traceback.
    """
    folder = bench.fresh_folder(name)
    with running_rowlock(folder) as server, raw_connection(server.process.address) as connection:
        yield server, connection
        connection.channel.close()
        server.process.stop()
        log = server.process.log.read_text()
        assert not any(sign in log for sign in ("Traceback", "never retrieved")), log


def refusals(bench: Bench) -> Measurement:
    """Measures the MB of answers to a batch whose rows all name a family that a table of many families lacks."""
    with attacked(bench, "refusals") as (server, connection):
        server.client.create_table("t", [f"{number:0120d}" for number in range(bench.scaled(_FAMILIES))])
        rows = [put(b"%d" % number, b"", family=b"x") for number in range(bench.scaled(_UNKNOWN_ROWS))]
        call = region_pb2.MutateCall(region_id=connection.region_id("t"), mutate=region_pb2.Mutate(mutations=rows))
        request = call.SerializeToString()
        before = server.process.peak_resident_mib()
        answer = connection.mutate(request)
        results = region_pb2.MutateAnswer.FromString(answer).results
        assert [result.HasField("error") for result in results] == [True] * len(rows), "a row was not refused"
        peak = server.process.peak_resident_mib()
    return Measurement(
        _one(len(answer) / 1e6),
        {"kB requested": _one(len(request) / 1e3), "peak MiB": _one(peak), "MiB before": _one(before)},
    )


def large_messages(bench: Bench) -> Measurement:
    """Measures the server's peak MiB while many connections send one large message each concurrently."""
    with attacked(bench, "large-messages") as (server, connection), ExitStack() as opened:
        server.client.create_table("t", [FAMILY.decode()], durability="os")
        region_id = connection.region_id("t")
        rows = [put(b"%d" % number, bytes(bench.scaled(_CELL_BYTES))) for number in range(_CELLS)]
        request = region_pb2.PointRequest(region_id=region_id, mutate=region_pb2.Mutate(mutations=rows))
        message = region_pb2.PointRequests(requests=[request]).SerializeToString()
        before = server.process.peak_resident_mib()
        senders = _connected(opened, server, _SENDERS)
        streams = [sender.stream("Converse", [message]) for sender in senders]
        batches = [region_pb2.PointAnswers.FromString(sent) for stream in streams for sent in received(stream)]
        answers = [answer for batch in batches for answer in batch.answers]
        applied = sum(answer.HasField("mutate") for answer in answers)
        peak = server.process.peak_resident_mib()
    counts = {"applied": applied, "refused": len(answers) - applied, "cut off": _SENDERS - len(answers)}
    return Measurement(_one(peak), {"MiB before": _one(before), **{name: _one(n) for name, n in counts.items()}})


def mixed_batches(bench: Bench) -> Measurement:
    """Measures the peak MiB of a server of the least memory, while clients put batches of different shapes."""
    stop = time.perf_counter() + bench.scaled(_MIXED_TURNS) * bench.turn_seconds
    with running_rowlock(bench.fresh_folder("mixed"), "memory=64MiB") as server:
        server.client.create_table("t", [FAMILY.decode()])

        def puts(shape: tuple[int, int, int, float]) -> int:
            rows, mapping = _random_rows(bench.scaled(shape[0]), *shape[1:])
            count = 0
            with rowlock.connect(server.process.address, timeout=600) as client:
                while not count or time.perf_counter() < stop:
                    client.table("t").put_arrow(rows, mapping)
                    count += 1
            return count * rows.nbytes

        before = server.process.peak_resident_mib()
        with ThreadPoolExecutor(_WRITERS_EACH * len(_SHAPES)) as threads:
            byte_count = sum(threads.map(puts, _SHAPES * _WRITERS_EACH))
        peak = server.process.peak_resident_mib()
    return Measurement(_one(peak), {"MiB before": _one(before), "MB written": _one(byte_count / 1e6)})


def _random_rows(count: int, columns: int, value_bytes: int, present: float) -> tuple[pa.Table, rowlock.Mapping]:
    random = np.random.default_rng(1)
    names = [f"q{number}" for number in range(columns)]
    filled = [
        pc.if_else(pa.array(random.random(count) < present), random_values(count, random, value_bytes), None)
        for _ in names
    ]
    mapped = ", ".join(["key BINARY :key", *(f"{name} BINARY {FAMILY.decode()}:{name}" for name in names)])
    return pa.table([random_values(count, random, 16), *filled], names=["key", *names]), rowlock.Mapping(mapped)


def unread_gets(bench: Bench) -> Measurement:
    """Measures the server's peak MiB while many clients get large rows and read no answer."""
    get = region_pb2.Get(rows=[b"large%d" % number for number in range(_ROWS)])
    requests = [region_pb2.PointRequest(id=number, get=get) for number in range(_GETS)]
    return _unread(bench, "Converse", region_pb2.PointRequests(requests=requests))


def unread_scans(bench: Bench) -> Measurement:
    """Measures the server's peak MiB while many clients scan large rows and read no batch."""
    return _unread(bench, "Scan", region_pb2.ScanRequest(batch_bytes=16 << 20))


def _unread(bench: Bench, method: str, message: region_pb2.PointRequests | region_pb2.ScanRequest) -> Measurement:
    """Measures also the longest wait of another client for a small row, with and without the unread answers."""
    waits: list[float] = []
    quiet_waits: list[float] = []
    with attacked(bench, "unread") as (server, connection):
        store = server.store("t", "os")
        store.put(b"small", b"v")
        for number in range(_ROWS):
            store.put(b"large%d" % number, bytes(_ROW_BYTES))
        region_id = connection.region_id("t")
        for request in message.requests if isinstance(message, region_pb2.PointRequests) else [message]:
            request.region_id = region_id
        before = server.process.peak_resident_mib()
        for _ in range(rounds(bench)):
            with ExitStack() as opened:
                readers = _connected(opened, server, _READERS)
                streams = [reader.stream(method, [message.SerializeToString()]) for reader in readers]
                waits.append(_longest_wait(bench, lambda: store.get(b"small")))
                assert len(streams) == _READERS
            quiet_waits.append(_longest_wait(bench, lambda: store.get(b"small")))
        peak = server.process.peak_resident_mib()
    longest = {"ms of another client": Spread.of(waits), "ms without the attack": Spread.of(quiet_waits)}
    return Measurement(_one(peak), {"MiB before": _one(before), **longest})


def _connected(opened: ExitStack, server: Rowlock, count: int) -> list[RawConnection]:
    """Opens `count` connections and makes a call on each."""
    connections = [opened.enter_context(raw_connection(server.process.address)) for _ in range(count)]
    for connection in connections:
        connection.region_id("t")
    return connections


def _longest_wait(bench: Bench, operation: Operation) -> float:
    """Returns the longest wait in milliseconds of one caller during a round."""
    stop = time.perf_counter() + _ROUND_TURNS * bench.turn_seconds
    return 1000 * max(latencies_while(operation, lambda: time.perf_counter() < stop))


def _one(value: float) -> Spread:
    """Returns the spread of a quantity that was measured once."""
    return Spread.of([value])
