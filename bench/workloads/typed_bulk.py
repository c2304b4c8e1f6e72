"""Many typed rows at once, as Arrow: written, and scanned."""

from __future__ import annotations

from bench.bench import Bench
from bench.measure import Measurement, rate_of_one_call, ratio
from bench.targets.echo import running_echo
from bench.targets.rowlock import running_rowlock
from bench.targets.typed_rows import mapping, typed_rows
from bench.workloads import bulk

_ROWS = 300_000


def put_arrow(bench: Bench) -> Measurement:
    """Measures put_arrow of typed rows at fsync, against the same Arrow table sent raw, written and synced."""
    rows = typed_rows(bench.scaled(_ROWS, at_least=1000))
    return bulk.put_against_raw(bench, "typed-put-arrow", rows, mapping(), rows, lambda echo: echo.stream("Put"))


def scan_to_arrow(bench: Bench) -> Measurement:
    """Measures a scan of a flushed table to typed Arrow, against the same Arrow table over a raw stream from memory."""
    row_count = bench.scaled(_ROWS, at_least=1000)
    folder = bench.fresh_folder("typed-scan")
    with running_rowlock(folder) as server, running_echo(folder, typed_row_count=row_count) as echo:
        table = server.store("scanned").table
        table.put_arrow(typed_rows(row_count), mapping())
        server.client.flush("scanned")

        def check(found: int) -> None:
            assert found == row_count, f"{found} rows were scanned, not {row_count}"

        return ratio(
            "rows/s by scan().to_arrow",
            lambda: rate_of_one_call(lambda: check(len(table.scan().to_arrow(mapping()))), row_count),
            "rows/s raw",
            lambda: rate_of_one_call(lambda: check(len(echo.scan_typed())), row_count),
            bench.rounds,
        )
