"""Even writes to many tables when memory is full: each table holds little, and all must be flushed."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

import pyarrow as pa

from bench.bench import Bench
from bench.measure import Measurement, Operation, Turn, rate_of_threads, ratio
from bench.targets.messages import row_key
from bench.targets.rowlock import Rowlock, running_rowlock

FEW, MANY = 4, 500
_MAPPING = "id BINARY :key, v BINARY d:v"
_BATCH_ROWS, _VALUE = 1000, bytes(1000)
_THREADS = 4
# Twice what the memstores hold, so that the rate of flushes is measured.
_FILLED_BATCHES = 1000


def put_arrow(bench: Bench) -> Measurement:
    """Measures batches of 1 MB to 500 tables in turn, by four threads, against 4 tables, with default settings."""
    many_count = bench.scaled(MANY, at_least=2 * FEW)
    with (
        running_rowlock(bench.fresh_folder("few-tables")) as few,
        running_rowlock(bench.fresh_folder("many-tables")) as many,
    ):
        turns = [_filled(each, count, bench) for each, count in ((many, many_count), (few, FEW))]
        return ratio(f"MB/s to {many_count} tables", turns[0], f"MB/s to {FEW} tables", turns[1], bench.rounds)


def _filled(rowlock: Rowlock, table_count: int, bench: Bench) -> Turn:
    """Writes to the server until its memory is full; returns a turn of further writes."""
    tables = [rowlock.client.create_table(f"t{number}", ["d"]) for number in range(table_count)]
    numbers, lock = itertools.count(), threading.Lock()

    def put_batch() -> None:
        with lock:
            number = next(numbers)
        first = number // table_count * _BATCH_ROWS
        rows = [row_key(row) for row in range(first, first + _BATCH_ROWS)]
        tables[number % table_count].put_arrow(pa.table({"id": rows, "v": [_VALUE] * _BATCH_ROWS}), _MAPPING)

    for _ in range(bench.scaled(_FILLED_BATCHES, at_least=table_count)):
        put_batch()
    return _megabytes([put_batch] * _THREADS, bench)


def _megabytes(operations: list[Operation], bench: Bench) -> Callable[[], float]:
    def turn() -> float:
        return rate_of_threads(operations, 4 * bench.turn_seconds) * _BATCH_ROWS * len(_VALUE) / 1e6

    return turn
