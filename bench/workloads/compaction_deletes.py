"""Scans of the first row of tables of which almost everything was deleted, against fresh tables."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial

from bench.bench import Bench
from bench.measure import Measurement, Operation, Spread, rate_of_one_call, ratio
from bench.targets.compactions import store_files, wait_until_idle
from bench.targets.messages import FAMILY, QUALIFIER, VALUE_BYTES, row_key
from bench.targets.rowlock import RowlockStore, running_rowlock

_ROWS = 100_000
_JOBS_LEFT = 10
_SCANS = 50
_BATCH = 1000
# Deleted rows in memory are flushed this often at most, and then compacted.
_TOMBSTONES_PAUSE_S = 11.0
_COLUMN = FAMILY + b":" + QUALIFIER


def deleted_rows(bench: Bench) -> Measurement:
    """Measures scan(limit=1) of a table whose rows were all put, flushed and deleted."""
    return _first_row(bench, is_flushed=True, left=0)


def queue_head(bench: Bench) -> Measurement:
    """Measures the same of a queue in which all jobs but the last ten are done. All were in memory when they were."""
    return _first_row(bench, is_flushed=False, left=_JOBS_LEFT)


def _first_row(bench: Bench, *, is_flushed: bool, left: int) -> Measurement:
    row_count = bench.scaled(_ROWS, at_least=2000)
    with running_rowlock(bench.fresh_folder("compaction-deletes"), "memstore_flush_bytes=1GiB") as server:
        fresh, used = server.store("fresh", "os"), server.store("used", "os")
        value = random.Random(1).randbytes(VALUE_BYTES)
        fresh.fill(left, value)
        server.client.flush("fresh")
        used.fill(row_count, value)
        if is_flushed:
            server.client.flush("used")
        with used.table.batch(size=_BATCH) as batch:
            for number in range(row_count - left):
                batch.delete(row_key(number))
        deleted_at = time.perf_counter()
        first = _seconds(partial(_scan, used, left))
        time.sleep(_TOMBSTONES_PAUSE_S)
        wait_until_idle(server.client, "used")
        seconds = time.perf_counter() - deleted_at
        turns: list[Callable[[], float]] = [
            partial(rate_of_one_call, partial(_scans, store, left), _SCANS) for store in (fresh, used)
        ]
        # Rates of the fresh table above those of the used one: the seconds of the used one above those of the fresh.
        measured = ratio("scans/s, fresh", turns[0], "scans/s, deleted", turns[1], bench.rounds)
        details = {
            **measured.details,
            "ms of the first scan, before compaction": Spread.of([1000 * first]),
            "seconds until it was measured": Spread.of([seconds]),
            "store files": Spread.of([store_files(server.client, "used")]),
        }
    return Measurement(measured.value, details)


def _scan(store: RowlockStore, left: int) -> None:
    with store.table.scan(limit=1) as rows:
        found = len(list(rows))
    assert found == min(1, left), f"{found} rows were found"


def _scans(store: RowlockStore, left: int) -> None:
    for _ in range(_SCANS):
        _scan(store, left)


def _seconds(operation: Operation) -> float:
    start = time.perf_counter()
    operation()
    return time.perf_counter() - start
