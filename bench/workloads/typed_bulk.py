"""Many typed rows at once, as Arrow: written, and scanned."""

from __future__ import annotations

from bench.bench import Bench
from bench.measure import Measurement, rate_of_one_call, ratio
from bench.targets import cell_tables
from bench.targets.echo import running_echo
from bench.targets.rowlock import running_rowlock
from bench.targets.typed_rows import mapping, typed_rows

_ROWS = 300_000
# Bytes of one message of the baseline; rowlock's client chooses its own size.
_MESSAGE_BYTES = 16 << 20
# The detail that may reach a rate in place of the ratio.
PUT_RATE = "rows/s by put_arrow"


def put_arrow(bench: Bench) -> Measurement:
    """Measures put_arrow of typed rows at fsync, against the same Arrow table sent raw, written and synced."""
    row_count = bench.scaled(_ROWS, at_least=1000)
    rows = typed_rows(row_count)
    folder = bench.fresh_folder("typed-put-arrow")
    with running_rowlock(folder) as server, running_echo(folder) as echo:
        table = server.store("bulk").table
        stream = echo.stream("Put")

        def put_rows() -> float:
            rate = rate_of_one_call(lambda: table.put_arrow(rows, mapping()), row_count)
            # The server's remaining work for these rows is done now, not during the baseline's turn.
            server.client.flush("bulk")
            server.client.truncate_table("bulk")
            return rate

        def send_raw() -> None:
            stream.exchange_all(map(cell_tables.to_stream, cell_tables.slices(rows, _MESSAGE_BYTES)))

        return ratio(
            PUT_RATE,
            put_rows,
            "rows/s raw",
            lambda: rate_of_one_call(send_raw, row_count),
            bench.rounds,
        )


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
