"""The bytes that narrow reads of typed trips cost: sent by the server, and read by it from files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import psutil
import rowlock.spark

from bench.measure import Measurement, Spread
from bench.spark.relay import Relay
from bench.spark.rows import read_all
from bench.spark.stage import Stage, running_server
from bench.spark.trip_files import TABLE, store_bytes
from bench.spark.trips import ONE_COLUMN, Layout, middle_part, schema, trip_reader

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader

_PERCENT = 1.0
_SHARE_MAX = 0.03
# A range ends inside blocks: at its start, and at its stop.
_BLOCKS_A_FILE = 2


def typed_bytes(stage: Stage, layout: Layout) -> Mapping[str, Measurement]:
    """Counts bytes in one round, because they do not vary: a relay counts those sent, the system those read.

    The server has no block cache, so each block that a read needs is read from its file.
    """
    part = middle_part(stage.trips.trip_count, _PERCENT)
    data = stage.trips.loaded(layout)
    settings = ["block_cache_bytes=0"]
    with Relay() as relay, running_server(data, advertise=relay.address, settings=settings) as (server, client):
        relay.begin(server.address)

        def reader() -> DataFrameReader:
            return trip_reader(stage.spark, relay.address, TABLE, layout)

        def read_part() -> None:
            found = reader().options(start=part.start, stop=part.stop).load().count()
            assert found == part.row_count, f"{found} rows were read, not {part.row_count}"

        def cost(job: Callable[[], object]) -> tuple[int, int]:
            sent, read = relay.sent_bytes, _read_bytes(server.pid)
            job()
            return relay.sent_bytes - sent, _read_bytes(server.pid) - read

        cost(read_part)  # opens files and connections
        every = cost(lambda: read_all(reader().load()))
        column = cost(lambda: read_all(reader().schema(schema([ONE_COLUMN])).load()))
        keys = cost(lambda: rowlock.spark.count(stage.spark, TABLE, server=relay.address))
        count = cost(lambda: reader().load().count())
        in_range = cost(read_part)
        file_bytes = store_bytes(client, TABLE)
        table = client.describe(TABLE)
    file_count = sum(region.store_file_count for region in table.regions)
    block_bytes = max(family.block_bytes for family in table.families.values())
    bytes_max = _SHARE_MAX * file_bytes + _BLOCKS_A_FILE * file_count * block_bytes
    name = f"typed-{layout.name}"
    return {
        f"{name}-column-sent": _of_all(column, every),
        f"{name}-keys-sent": _of_all(keys, every),
        f"{name}-count-sent": _of_all(count, every),
        f"{name}-range-read": Measurement(
            _one(in_range[1] / bytes_max),
            {
                "MB read for the range": _one(in_range[1] / 1e6),
                "MB of the files": _one(file_bytes / 1e6),
                "files": _one(file_count),
                "share of the files": _one(in_range[1] / file_bytes),
                "MB sent": _one(in_range[0] / 1e6),
            },
        ),
    }


def _of_all(part: tuple[int, int], every: tuple[int, int]) -> Measurement:
    """Returns the bytes sent, divided by those of reading all; each cost is bytes sent and bytes read."""
    return Measurement(
        _one(part[0] / every[0]),
        {
            "MB sent": _one(part[0] / 1e6),
            "MB sent of all": _one(every[0] / 1e6),
            "MB read from files": _one(part[1] / 1e6),
            "MB read of all": _one(every[1] / 1e6),
        },
    )


def _one(value: float) -> Spread:
    return Spread.of([value])


def _read_bytes(pid: int) -> int:
    """Returns the bytes that a process has read from files; what it receives from sockets is not among them."""
    return psutil.Process(pid).io_counters().read_chars
