"""The additional cost of a get from a store file: Bloom filter, block index, cache and parsing."""

from __future__ import annotations

import random

from bench.bench import Bench
from bench.measure import Measurement, Turn, rate, ratio
from bench.targets.messages import VALUE_BYTES, row_key
from bench.targets.rowlock import running_rowlock
from bench.targets.store import RowStore

# More than the server's block cache holds, so that some gets read and verify a block.
_ROWS = 90_000


def gets(bench: Bench) -> Measurement:
    """Measures sequential gets of random rows in two equal tables, of which one is flushed."""
    row_count = bench.scaled(_ROWS, at_least=1000)
    with running_rowlock(bench.fresh_folder("memory-and-files"), "memstore_flush_bytes=1GiB") as rowlock:
        in_memory, in_files = rowlock.store("memory"), rowlock.store("files")
        value = random.Random(1).randbytes(VALUE_BYTES)
        for store in (in_memory, in_files):
            store.fill(row_count, value)
        rowlock.client.flush("files")
        return ratio(
            "gets/s from store files",
            _random_gets(bench, in_files, row_count),
            "gets/s from the memstore",
            _random_gets(bench, in_memory, row_count),
            bench.rounds,
        )


def _random_gets(bench: Bench, store: RowStore, row_count: int) -> Turn:
    choice = random.Random(2)
    return lambda: rate(lambda: store.get(row_key(choice.randrange(row_count))), bench.turn_seconds)
