"""The latency of gets while the server flushes its memstore."""

from __future__ import annotations

import random

from bench.bench import Bench
from bench.measure import Measurement, Spread, latencies_during, latencies_for, percentile
from bench.targets.cell_tables import COLUMN_COUNT
from bench.targets.cell_tables import VALUE_BYTES as CELL_BYTES
from bench.targets.messages import FAMILY, row_key
from bench.targets.rowlock import RowlockStore, running_rowlock

_ROWS = 50_000
_PERCENT = 99


def gets(bench: Bench) -> Measurement:
    """Measures the 99th percentile of sequential gets during each flush, against the quiet time before it."""
    row_count = bench.scaled(_ROWS, at_least=5000)
    quiet: list[float] = []
    flushing: list[float] = []
    with running_rowlock(bench.fresh_folder("flushing"), "memstore_flush_bytes=1GiB") as rowlock:
        store = rowlock.store("points")
        choice = random.Random(1)

        def get() -> int:
            return store.get(row_key(choice.randrange(row_count)))

        # A flush takes long to prepare, and there are many gets in each, so three are enough.
        for _ in range(min(bench.rounds, 3)):
            _fill_cells(store, row_count)
            quiet.append(percentile(latencies_for(get, 4 * bench.turn_seconds), _PERCENT))
            flushing.append(percentile(latencies_during(get, lambda: rowlock.client.flush("points")), _PERCENT))
    return Measurement(
        Spread.of([busy / calm for busy, calm in zip(flushing, quiet, strict=True)]),
        {
            "ms while flushing": Spread.of([1000 * seconds for seconds in flushing]),
            "ms when quiet": Spread.of([1000 * seconds for seconds in quiet]),
        },
    )


def _fill_cells(store: RowlockStore, row_count: int) -> None:
    """Puts small cells, which take the most work to flush for their bytes."""
    data = {FAMILY + b":q%d" % number: bytes(CELL_BYTES) for number in range(COLUMN_COUNT)}
    with store.table.batch(size=1000) as batch:
        for number in range(row_count):
            batch.put(row_key(number), data)
