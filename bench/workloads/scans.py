"""Scans of a whole table into Arrow."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from bench.bench import Bench
from bench.measure import Measurement, Turn, rate_of_one_call, ratio
from bench.targets import cell_tables
from bench.targets.compactions import store_files
from bench.targets.echo import running_echo
from bench.targets.rowlock import Rowlock, RowlockStore, running_rowlock
from bench.workloads.bulk import mapping

_ROWS = 100_000


def full_scan(bench: Bench) -> Measurement:
    """Measures a scan of all cells of a flushed table to Arrow, against as many cells over a raw stream from memory.

    The rows were loaded in order, so that the files do not overlap, as after a compaction. The details also show a
    second table that was loaded in random order, so that each window is merged from all files.
    """
    row_count = bench.scaled(_ROWS, at_least=1000)
    folder = bench.fresh_folder("scan")
    rows = cell_tables.wide_rows(row_count)
    with running_rowlock(folder) as server, running_echo(folder, row_count) as echo:
        in_order = _loaded(server, "in_order", rows.sort_by("key"))
        mixed = _loaded(server, "mixed", rows)
        raw = _raw_scan(echo.scan, row_count)
        measured = ratio("cells/s", _scan(in_order, row_count), "cells/s raw", raw, bench.rounds)
        merging = ratio("cells/s, files merged", _scan(mixed, row_count), "", raw, bench.rounds)
    details = {
        **measured.details,
        "cells/s, files merged": merging.details["cells/s, files merged"],
        "ratio, files merged": merging.value,
    }
    return Measurement(measured.value, details)


def compacted_scan(bench: Bench) -> Measurement:
    """Measures a scan of all cells of a compacted table to Arrow, against as many raw cells from memory over a socket.

    The rows were loaded in random order, in two flushes, and a major compaction made one file of them. The details also
    show raw cells over a stream of gRPC.
    """
    row_count = bench.scaled(_ROWS, at_least=1000)
    folder = bench.fresh_folder("scan-compacted")
    rows = cell_tables.wide_rows(row_count)
    with running_rowlock(folder) as server, running_echo(folder, row_count) as echo:
        store = server.store("compacted")
        for part in (rows.slice(0, row_count // 2), rows.slice(row_count // 2)):
            store.table.put_arrow(part, mapping())
            server.client.flush("compacted")
        server.client.compact("compacted", major=True, wait=True)
        assert store_files(server.client, "compacted") == 1, "the compaction left more than one file"
        scan = _scan(store, row_count)
        measured = ratio("cells/s", scan, "cells/s raw, socket", _raw_scan(echo.scan_frames, row_count), bench.rounds)
        by_grpc = ratio("cells/s", scan, "cells/s raw, gRPC", _raw_scan(echo.scan, row_count), bench.rounds)
    details = {
        **measured.details,
        "cells/s raw, gRPC": by_grpc.details["cells/s raw, gRPC"],
        "ratio to gRPC": by_grpc.value,
    }
    return Measurement(measured.value, details)


def _loaded(server: Rowlock, name: str, rows: pa.Table) -> RowlockStore:
    store = server.store(name)
    store.table.put_arrow(rows, mapping())
    server.client.flush(name)
    return store


def _scan(store: RowlockStore, row_count: int) -> Turn:
    cell_count = row_count * cell_tables.COLUMN_COUNT

    def scan() -> None:
        found = len(store.table.scan().to_arrow())
        assert found == cell_count, f"{found} cells were scanned, not {cell_count}"

    return lambda: rate_of_one_call(scan, cell_count)


def _raw_scan(scan_raw: Callable[[], pa.Table], row_count: int) -> Turn:
    cell_count = row_count * cell_tables.COLUMN_COUNT

    def scan() -> None:
        found = len(scan_raw())
        assert found == cell_count, f"{found} cells were sent, not {cell_count}"

    return lambda: rate_of_one_call(scan, cell_count)
