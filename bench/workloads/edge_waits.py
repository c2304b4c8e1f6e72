"""The waits of other clients during one request of the largest allowed size."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import partial

from rowlock_proto.v1 import region_pb2

from bench.bench import Bench
from bench.measure import Measurement, Operation, Spread, latencies_during, latencies_while
from bench.targets.raw import bulk_batch, increment, put
from bench.workloads.edge_bounds import attacked, rounds

_ROWS = 100_000
_BULK_CELLS = 10_000


def flush_of_answers(bench: Bench) -> Measurement:
    """Measures how long puts wait during a flush after a batch with request ids, and the size of the manifest."""
    waits = _Waits()
    manifests: list[float] = []
    answers_files: list[float] = []
    with attacked(bench, "answers") as (rowlock, connection):
        for number in range(rounds(bench)):
            name = f"t{number}"
            put_another = partial(rowlock.store(name, "os").put, b"another", b"v")
            region_id = connection.region_id(name)
            rows = [put(b"%06d" % row, b"v", sequence=row + 1) for row in range(bench.scaled(_ROWS))]
            call = region_pb2.MutateCall(
                region_id=region_id,
                mutate=region_pb2.Mutate(mutations=rows),
                client_id=os.urandom(16),
                sequence_floor=1,
            )
            _check(connection.mutate(call.SerializeToString()))
            waits.measure(put_another, partial(rowlock.client.flush, name))
            folder = next((rowlock.process.log.parent / "data" / "regions").glob(f"*{region_id}"))
            sizes = {path.name: path.stat().st_size / 1e3 for path in folder.iterdir()}
            manifests.append(sizes[max(file for file in sizes if file.startswith("manifest"))])
            answers_files.append(sum(size for file, size in sizes.items() if file.startswith("answers")))
    return waits.measurement({"kB manifest": Spread.of(manifests), "kB answers file": Spread.of(answers_files)})


def increments(bench: Bench) -> Measurement:
    """Measures how long puts of other rows wait during one request of many increments and a flush."""
    waits = _Waits()
    with attacked(bench, "increments") as (rowlock, connection):
        store = rowlock.store("t", "os")
        rows = [increment(b"counter")] * bench.scaled(_ROWS)
        call = region_pb2.MutateCall(region_id=connection.region_id("t"), mutate=region_pb2.Mutate(mutations=rows))
        request = call.SerializeToString()

        def attack() -> None:
            flush = threading.Timer(bench.turn_seconds / 2, partial(rowlock.client.flush, "t"))
            flush.start()
            answer = connection.mutate(request)
            flush.join()
            _check(answer)

        for _ in range(rounds(bench)):
            waits.measure(partial(store.put, b"another", b"v"), attack)
    return waits.measurement({})


def small_bulk_batch(bench: Bench) -> Measurement:
    """Measures how long puts to another table wait during a bulk batch of many small rows, too small for a file."""
    waits = _Waits()
    with attacked(bench, "bulk") as (rowlock, connection):
        rowlock.store("bulk", "os")
        store = rowlock.store("another", "os")
        rows = [number.to_bytes(2, "big") for number in range(bench.scaled(_BULK_CELLS))]
        batch = bulk_batch(connection.region_id("bulk"), rows, b"v")

        def attack() -> None:
            for message in connection.stream("BulkPut", [batch]):
                answer = region_pb2.BulkAnswer.FromString(message)
                assert answer.cell_count == len(rows), answer

        for _ in range(rounds(bench)):
            waits.measure(partial(store.put, b"row", b"v"), attack)
    return waits.measurement({})


class _Waits:
    """The longest wait of one caller in each round, during an attack and during an equal time without it."""

    def __init__(self) -> None:
        self._during: list[float] = []
        self._quiet: list[float] = []
        self._seconds: list[float] = []

    def measure(self, operation: Operation, attack: Callable[[], object]) -> None:
        """Measures one round."""
        start = time.perf_counter()
        self._during.append(1000 * max(latencies_during(operation, attack)))
        seconds = time.perf_counter() - start
        stop = time.perf_counter() + seconds
        self._quiet.append(1000 * max(latencies_while(operation, lambda: time.perf_counter() < stop)))
        self._seconds.append(seconds)

    def measurement(self, details: dict[str, Spread]) -> Measurement:
        """Returns the waits in milliseconds."""
        quiet = {"ms without the attack": Spread.of(self._quiet), "s of an attack": Spread.of(self._seconds)}
        return Measurement(Spread.of(self._during), quiet | details)


def _check(answer: bytes) -> None:
    """Asserts that every row was changed."""
    results = region_pb2.MutateAnswer.FromString(answer).results
    refused = [result.error.message for result in results if result.HasField("error")]
    assert not refused, refused[0]
