"""Many rows at once, as Arrow."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import rowlock

from bench.bench import Bench
from bench.measure import Measurement, rate_of_one_call, ratio
from bench.targets import cell_tables
from bench.targets.echo import Echo, EchoSocket, EchoStream, running_echo
from bench.targets.messages import FAMILY
from bench.targets.rowlock import running_rowlock

_ROWS = 100_000
# Bytes of one message of the baseline; rowlock's client chooses its own size.
_MESSAGE_BYTES = 16 << 20
PUT_RATE = "rows/s by put_arrow"


def mapping() -> rowlock.Mapping:
    """Returns the mapping between the wide rows of cell_tables and cells."""
    columns = [f"{name} BINARY {FAMILY.decode()}:{name}" for name in cell_tables.column_names()]
    return rowlock.Mapping(", ".join(["key STRING :key", *columns]))


def put_arrow(bench: Bench) -> Measurement:
    """Measures put_arrow of wide rows at fsync, against their prepared cells sent raw, written, synced and sorted."""
    return _put_wide_rows(bench, "put-arrow", lambda echo: echo.stream("Bulk"))


def put_arrow_framed(bench: Bench) -> Measurement:
    """Measures the same against cells that are sent over a plain socket, as put_arrow sends its own."""
    return _put_wide_rows(bench, "put-arrow-framed", Echo.bulk_socket)


def _put_wide_rows(bench: Bench, name: str, connect: Callable[[Echo], EchoStream | EchoSocket]) -> Measurement:
    rows = cell_tables.wide_rows(bench.scaled(_ROWS, at_least=1000))
    return put_against_raw(bench, name, rows, mapping(), cell_tables.cells_of(rows), connect)


def put_against_raw(
    bench: Bench,
    name: str,
    rows: pa.Table,
    mapping: rowlock.Mapping,
    raw: pa.Table,
    connect: Callable[[Echo], EchoStream | EchoSocket],
) -> Measurement:
    """Measures put_arrow of `rows` at fsync, against the table `raw` sent to the echo server. connect: which way."""
    row_count = len(rows)
    folder = bench.fresh_folder(name)
    with running_rowlock(folder) as server, running_echo(folder) as echo:
        table = server.store("bulk").table
        stream = connect(echo)

        def put_rows() -> float:
            rate = rate_of_one_call(lambda: table.put_arrow(rows, mapping), row_count)
            # The server's remaining work for these rows is done now, not during the baseline's turn.
            server.client.flush("bulk")
            server.client.truncate_table("bulk")
            return rate

        def send_raw() -> None:
            stream.exchange_all(map(cell_tables.to_stream, cell_tables.slices(raw, _MESSAGE_BYTES)))

        return ratio(PUT_RATE, put_rows, "rows/s raw", lambda: rate_of_one_call(send_raw, row_count), bench.rounds)
