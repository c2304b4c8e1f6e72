"""The work of a compaction: its rate, and the gets of other callers meanwhile."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import rowlock

from bench.bench import Bench
from bench.measure import Measurement, Spread, latencies_during, latencies_for, percentile, ratio
from bench.targets import cell_tables
from bench.targets.compactions import ONLY_ON_REQUEST
from bench.targets.messages import FAMILY, QUALIFIER, VALUE_BYTES, row_key
from bench.targets.rowlock import Rowlock, RowlockStore, running_rowlock
from bench.workloads.bulk import mapping

_FILES = 4
_WIDE_ROWS = 50_000
_NARROW_ROWS = 50_000
_PERCENT = 99
_ROUNDS_MAX = 3
_STORE_ORDER: list[tuple[str, Literal["ascending", "descending"]]] = [
    ("row", "ascending"),
    ("qualifier", "ascending"),
    ("timestamp", "descending"),
    ("write_number", "descending"),
]
# Fills a table with _FILES files of so many rows each.
_Fill = Callable[[Rowlock, RowlockStore, int], None]


def wide_rows(bench: Bench) -> Measurement:
    """Measures a major compaction of files of rows with ten columns, half of which replace rows of other files."""
    return _against_sort(bench, bench.scaled(_WIDE_ROWS, at_least=1000), cell_tables.COLUMN_COUNT, _fill_wide)


def narrow_rows(bench: Bench) -> Measurement:
    """Measures the same of rows with one column of 1 KiB."""
    return _against_sort(bench, bench.scaled(_NARROW_ROWS, at_least=1000), 1, _fill_narrow)


def _against_sort(bench: Bench, row_count: int, column_count: int, fill: _Fill) -> Measurement:
    """Measures cells a second of a major compaction, against a plain sort and write of the same cells by pyarrow."""
    value_bytes = cell_tables.VALUE_BYTES if column_count > 1 else VALUE_BYTES
    cells = _cells(row_count, column_count, value_bytes)
    folder = bench.fresh_folder("compaction")
    with running_rowlock(folder, "memstore_flush_bytes=1GiB") as server:
        server.client.create_table("t", [FAMILY.decode()], properties=ONLY_ON_REQUEST)
        store = RowlockStore(server.client.table("t"))
        server_process = psutil.Process(server.process.pid)
        cpu_rates: list[float] = []
        plain_cpu_rates: list[float] = []

        def compact() -> float:
            fill(server, store, row_count)
            before = server_process.cpu_times()
            [job] = server.client.compact("t", major=True, wait=True)
            after = server_process.cpu_times()
            cpu_rates.append(job.cells_in / (after.user + after.system - before.user - before.system))
            server.client.truncate_table("t")
            assert job.started_ms is not None
            assert job.ended_ms is not None
            assert job.cells_in == len(cells), f"{job.cells_in} cells, not {len(cells)}"
            return job.cells_in / (job.ended_ms - job.started_ms) * 1000

        def sort() -> float:
            before = time.process_time()
            found = _sorted_rate(cells, folder)
            plain_cpu_rates.append(len(cells) / (time.process_time() - before))
            return found

        rounds = min(bench.rounds, _ROUNDS_MAX)
        measured = ratio("cells/s compacted", compact, "cells/s plain", sort, rounds)
        peak_mib = server.process.peak_resident_mib()
    details = {
        "cells per second of CPU, compacted": Spread.of(cpu_rates[1:]),
        "cells per second of CPU, plain": Spread.of(plain_cpu_rates[1:]),
        "MiB resident, at most": Spread.of([peak_mib]),
    }
    return Measurement(measured.value, {**measured.details, **details})


def _fill_wide(server: Rowlock, store: RowlockStore, row_count: int) -> None:
    for number in range(_FILES):
        rows = cell_tables.wide_rows(2 * row_count, seed=number).slice(0, row_count)
        store.table.put_arrow(rows, mapping())
        server.client.flush("t")


def _fill_narrow(server: Rowlock, store: RowlockStore, row_count: int) -> None:
    random = np.random.default_rng(1)
    column = rowlock.Mapping(f"key STRING :key, value BINARY {FAMILY.decode()}:{QUALIFIER.decode()}")
    for _ in range(_FILES):
        keys = [row_key(number).decode() for number in random.permutation(2 * row_count)[:row_count].tolist()]
        values = np.frombuffer(random.bytes(row_count * VALUE_BYTES), f"V{VALUE_BYTES}").tolist()
        store.table.put_arrow(pa.table({"key": keys, "value": pa.array(values, pa.binary())}), column)
        server.client.flush("t")


def _cells(row_count: int, column_count: int, value_bytes: int) -> pa.Table:
    """Returns as many cells as the files have together, in the order of the files, which are sorted each."""
    random = np.random.default_rng(1)
    count = row_count * column_count
    qualifiers = [b"q%d" % column for column in range(column_count)]
    files = []
    for number in range(_FILES):
        rows = np.sort(random.permutation(2 * row_count)[:row_count]).tolist()
        values = np.frombuffer(random.bytes(count * value_bytes), f"V{value_bytes}").tolist()
        columns: dict[str, pa.Array[pa.Scalar[pa.DataType]]] = {
            "row": pa.array([row_key(row) for row in rows for _ in qualifiers], pa.binary()),
            "qualifier": pa.array(qualifiers * row_count, pa.binary()),
            "timestamp": pa.array([1_700_000_000_000] * count, pa.int64()),
            "write_number": pa.array([number] * count, pa.int64()),
            "value": pa.array(values, pa.binary()),
        }
        files.append(pa.table(columns))
    return pa.concat_tables(files)


def _sorted_rate(cells: pa.Table, folder: Path) -> float:
    """Sorts the cells and writes them to a file, synced; returns cells a second."""
    path = folder / "sorted.arrow"
    start = time.perf_counter()
    ordered = cells.take(pc.sort_indices(cells, sort_keys=_STORE_ORDER))
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, ordered.schema) as writer:
        writer.write_table(ordered)
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    seconds = time.perf_counter() - start
    path.unlink()
    return len(cells) / seconds


def gets(bench: Bench) -> Measurement:
    """Measures the 99th percentile of sequential gets during major compactions, against the quiet time before each."""
    row_count = bench.scaled(_WIDE_ROWS, at_least=5000)
    quiet: list[float] = []
    busy: list[float] = []
    with running_rowlock(bench.fresh_folder("compaction-gets"), "memstore_flush_bytes=1GiB") as server:
        server.client.create_table("t", [FAMILY.decode()], properties=ONLY_ON_REQUEST)
        store = RowlockStore(server.client.table("t"))
        chance = random.Random(1)

        def get() -> int:
            return store.get(row_key(chance.randrange(2 * row_count)))

        def compact() -> None:
            server.client.compact("t", major=True, wait=True)

        for _ in range(min(bench.rounds, _ROUNDS_MAX)):
            _fill_wide(server, store, row_count)
            quiet.append(percentile(latencies_for(get, 4 * bench.turn_seconds), _PERCENT))
            busy.append(percentile(latencies_during(get, compact), _PERCENT))
    return Measurement(
        Spread.of([each / calm for each, calm in zip(busy, quiet, strict=True)]),
        {
            "ms while compacting": Spread.of([1000 * seconds for seconds in busy]),
            "ms when quiet": Spread.of([1000 * seconds for seconds in quiet]),
        },
    )
