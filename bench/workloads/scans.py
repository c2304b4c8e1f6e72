"""A whole table read into Arrow."""

from __future__ import annotations

from bench.bench import Bench
from bench.measure import Measurement, Turn, once, ratio
from bench.targets import cell_tables
from bench.targets.echo import Echo, running_echo
from bench.targets.rowlock import RowlockStore, running_rowlock
from bench.workloads.bulk import mapping

_ROWS = 100_000


def full_scan(bench: Bench) -> Measurement:
    """All cells of a flushed table as Arrow, and as many cells over a raw stream from memory."""
    row_count = bench.scaled(_ROWS, at_least=1000)
    folder = bench.fresh_folder("scan")
    with running_rowlock(folder) as server, running_echo(folder, row_count) as echo:
        store = server.store("scanned")
        store.table.put_arrow(cell_tables.wide_rows(row_count), mapping())
        server.client.flush("scanned")
        return ratio(
            "cells/s",
            _scan(store, row_count),
            "cells/s raw",
            _raw_scan(echo, row_count),
            bench.rounds,
        )


def _scan(store: RowlockStore, row_count: int) -> Turn:
    cell_count = row_count * cell_tables.COLUMN_COUNT

    def scan() -> None:
        found = len(store.table.scan().to_arrow())
        assert found == cell_count, f"{found} cells were scanned, not {cell_count}"

    return lambda: once(scan, cell_count)


def _raw_scan(echo: Echo, row_count: int) -> Turn:
    cell_count = row_count * cell_tables.COLUMN_COUNT

    def scan() -> None:
        found = len(echo.scan())
        assert found == cell_count, f"{found} cells were sent, not {cell_count}"

    return lambda: once(scan, cell_count)
