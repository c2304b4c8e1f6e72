"""The server's memory, and the waits of other clients, while clients send or request more than it should hold."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from rowlock_proto.v1 import region_pb2

from bench.bench import Bench
from bench.measure import Measurement, Operation, Spread, latencies_while
from bench.targets.messages import FAMILY
from bench.targets.raw import RawConnection, put, raw_connection, received
from bench.targets.rowlock import Rowlock, running_rowlock

_FAMILIES, _UNKNOWN_ROWS = 1000, 4000
# Messages of 60 MiB, with cells of the largest size that a server accepts.
_SENDERS, _CELLS, _CELL_BYTES = 24, 6, 10 << 20
# A get is as large as an answer may be, and so is the scanned table.
_READERS, _ROWS, _ROW_BYTES, _GETS = 40, 60, 1_000_000, 50
_ROUND_TURNS = 6


def rounds(bench: Bench) -> int:
    """Returns how many times each wait is measured."""
    return min(bench.rounds, 5)


@contextmanager
def attacked(bench: Bench, name: str) -> Iterator[tuple[Rowlock, RawConnection]]:
    """Runs a server with default settings, and opens the attacker's connection.

    Asserts at exit that the server's log has no traceback.
    """
    folder = bench.fresh_folder(name)
    with running_rowlock(folder) as rowlock, raw_connection(rowlock.process.address) as connection:
        yield rowlock, connection
        connection.channel.close()
        rowlock.process.stop()
        log = rowlock.process.log.read_text()
        assert not any(sign in log for sign in ("Traceback", "never retrieved")), log


def refusals(bench: Bench) -> Measurement:
    """Measures the MB of answers to a batch whose rows all name a family that a table of many families lacks."""
    with attacked(bench, "refusals") as (rowlock, connection):
        rowlock.client.create_table("t", [f"{number:0120d}" for number in range(bench.scaled(_FAMILIES))])
        rows = [put(b"%d" % number, b"", family=b"x") for number in range(bench.scaled(_UNKNOWN_ROWS))]
        call = region_pb2.MutateCall(region_id=connection.region_id("t"), mutate=region_pb2.Mutate(mutations=rows))
        request = call.SerializeToString()
        before = rowlock.process.peak_resident_mib()
        answer = connection.mutate(request)
        results = region_pb2.MutateAnswer.FromString(answer).results
        assert [result.HasField("error") for result in results] == [True] * len(rows), "a row was not refused"
        peak = rowlock.process.peak_resident_mib()
    return Measurement(
        _one(len(answer) / 1e6),
        {"kB requested": _one(len(request) / 1e3), "peak MiB": _one(peak), "MiB before": _one(before)},
    )


def large_messages(bench: Bench) -> Measurement:
    """Measures the server's peak MiB while many connections send one large message each concurrently."""
    with attacked(bench, "large-messages") as (rowlock, connection), ExitStack() as opened:
        rowlock.client.create_table("t", [FAMILY.decode()], durability="os")
        region_id = connection.region_id("t")
        rows = [put(b"%d" % number, bytes(bench.scaled(_CELL_BYTES))) for number in range(_CELLS)]
        request = region_pb2.PointRequest(region_id=region_id, mutate=region_pb2.Mutate(mutations=rows))
        message = region_pb2.PointRequests(requests=[request]).SerializeToString()
        before = rowlock.process.peak_resident_mib()
        senders = _connected(opened, rowlock, _SENDERS)
        streams = [sender.stream("Converse", [message]) for sender in senders]
        batches = [region_pb2.PointAnswers.FromString(sent) for stream in streams for sent in received(stream)]
        answers = [answer for batch in batches for answer in batch.answers]
        applied = sum(answer.HasField("mutate") for answer in answers)
        peak = rowlock.process.peak_resident_mib()
    counts = {"applied": applied, "refused": len(answers) - applied, "cut off": _SENDERS - len(answers)}
    return Measurement(_one(peak), {"MiB before": _one(before), **{name: _one(n) for name, n in counts.items()}})


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
    with attacked(bench, "unread") as (rowlock, connection):
        store = rowlock.store("t", "os")
        store.put(b"small", b"v")
        for number in range(_ROWS):
            store.put(b"large%d" % number, bytes(_ROW_BYTES))
        region_id = connection.region_id("t")
        for request in message.requests if isinstance(message, region_pb2.PointRequests) else [message]:
            request.region_id = region_id
        before = rowlock.process.peak_resident_mib()
        for _ in range(rounds(bench)):
            with ExitStack() as opened:
                readers = _connected(opened, rowlock, _READERS)
                streams = [reader.stream(method, [message.SerializeToString()]) for reader in readers]
                waits.append(_longest_wait(bench, lambda: store.get(b"small")))
                assert len(streams) == _READERS
            quiet_waits.append(_longest_wait(bench, lambda: store.get(b"small")))
        peak = rowlock.process.peak_resident_mib()
    longest = {"ms of another client": Spread.of(waits), "ms without the attack": Spread.of(quiet_waits)}
    return Measurement(_one(peak), {"MiB before": _one(before), **longest})


def _connected(opened: ExitStack, rowlock: Rowlock, count: int) -> list[RawConnection]:
    """Opens `count` connections and makes a call on each."""
    connections = [opened.enter_context(raw_connection(rowlock.process.address)) for _ in range(count)]
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
