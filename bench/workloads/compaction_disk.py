"""Bytes on disk of tables that are overwritten, and the bytes that compaction writes for it."""

from __future__ import annotations

import random
from collections.abc import Iterable

import rowlock

from bench.bench import Bench
from bench.measure import Measurement, Spread
from bench.targets.compactions import store_bytes, wait_until_idle
from bench.targets.messages import FAMILY, QUALIFIER, VALUE_BYTES, row_key
from bench.targets.rowlock import running_rowlock

_COLUMN = FAMILY + b":" + QUALIFIER
_BATCH = 1000
_ROWS = 100_000
_TIMES = 10
# 1 GiB in rows of 1 KiB, over a table that is as large, in flushes of 32 MiB.
_ALL_ROWS = 1 << 20
_FLUSHES = 32
# So many ended compactions the server remembers.
_JOBS_MAX = 1000
# Write amplification of RocksDB's universal style, as published. The first three are of the most similar experiment.
_PUBLISHED = {
    "RocksDB, 24 GB of fillrandom over 24 GB, a trigger of 5 files (facebook/rocksdb 12477)": 4.8,
    "the same, max_read_amp chosen by RocksDB": 3.5,
    "the same, a trigger of 9 files": 2.8,
    "RocksDB, a load at a limited rate (facebook/rocksdb 8655)": 7.7,
}


def overwritten(bench: Bench) -> Measurement:
    """Measures the store files of 100 MB that were written and then overwritten nine times, against those of once."""
    row_count = bench.scaled(_ROWS, at_least=1000)
    with running_rowlock(bench.fresh_folder("compaction-disk")) as server:
        client = server.client
        client.create_table("t", [FAMILY.decode()], durability="os")
        chance = random.Random(1)
        after_each: list[int] = []
        for _ in range(_TIMES):
            _put(client, range(row_count), chance)
            client.flush("t")
            after_each.append(store_bytes(client, "t"))
        seconds = wait_until_idle(client, "t")
        disk_bytes = store_bytes(client, "t")
    return Measurement(
        Spread.of([disk_bytes / after_each[0]]),
        {
            "seconds until idle": Spread.of([seconds]),
            "MB of store files when idle": Spread.of([disk_bytes / 1e6]),
            "MB after each of the flushes": Spread.of([each / 1e6 for each in after_each]),
        },
    )


def amplification(bench: Bench, *, is_slow: bool) -> Measurement:
    """Measures the bytes that flushes and compactions wrote for 1 GiB of random overwrites, against the values' bytes.

    What the load of the table wrote is not counted. `is_slow`: each flush waits until the compactions of the one before
    have ended, as in a table that is written slowly; else several flushes come during a compaction.
    """
    row_count = bench.scaled(_ALL_ROWS, at_least=_FLUSHES * 32)
    rows_each = row_count // _FLUSHES
    with running_rowlock(bench.fresh_folder("compaction-amplification")) as server:
        client = server.client
        client.create_table("t", [FAMILY.decode()], durability="os")
        chance = random.Random(1)
        _put(client, range(row_count), chance)
        client.flush("t")
        [loaded] = client.compact("t", major=True, wait=True)
        wait_until_idle(client, "t")
        table_bytes = most_bytes = store_bytes(client, "t")
        for _ in range(_FLUSHES):
            _put(client, (chance.randrange(row_count) for _ in range(rows_each)), chance)
            client.flush("t")
            most_bytes = max(most_bytes, store_bytes(client, "t"))
            if is_slow:
                wait_until_idle(client, "t")
        seconds = wait_until_idle(client, "t")
        first = loaded.compaction_id + 1
        jobs = client.compactions("t", ids=range(first, first + _JOBS_MAX))
        disk_bytes = store_bytes(client, "t")
    flushed_bytes = _FLUSHES * rows_each * VALUE_BYTES
    compacted_bytes = sum(job.bytes_written for job in jobs)
    return Measurement(
        Spread.of([1 + compacted_bytes / flushed_bytes]),
        {
            "major compactions": Spread.of([sum(job.kind == "major" for job in jobs)]),
            "minor compactions": Spread.of([sum(job.kind == "minor" for job in jobs)]),
            "seconds until idle": Spread.of([seconds]),
            "disk at most, of the table's": Spread.of([most_bytes / table_bytes]),
            "disk when idle, of the table's": Spread.of([disk_bytes / table_bytes]),
            **{name: Spread.of([published]) for name, published in _PUBLISHED.items()},
        },
    )


def _put(client: rowlock.Client, rows: Iterable[int], chance: random.Random) -> None:
    with client.table("t").batch(size=_BATCH) as batch:
        for row in rows:
            batch.put(row_key(row), {_COLUMN: chance.randbytes(VALUE_BYTES)})
