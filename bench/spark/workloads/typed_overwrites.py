"""A table of typed trips that was written three times over, after automatic compaction, against one written once."""

from __future__ import annotations

from collections.abc import Mapping

from bench.measure import Measurement, Spread
from bench.spark import usage
from bench.spark.rows import read_all
from bench.spark.stage import Stage, running_server
from bench.spark.trip_files import create_trips_table, store_bytes, store_cells
from bench.spark.trips import ONE_FAMILY, trip_reader, write_trips
from bench.targets.compactions import store_files, wait_until_idle
from bench.targets.typed_rows import KEY, trip_key

_SHARE = 3
_TIMES = 3


def overwritten(stage: Stage) -> Mapping[str, Measurement]:
    """Measures the bytes of the store files, and the time to read all rows in turns. Both have default settings."""
    stop = trip_key(max(1, stage.trips.trip_count // _SHARE))
    seconds = {}
    with running_server(stage.fresh_path("overwritten")) as (server, client):
        for name, times in (("once", 1), ("often", _TIMES)):
            create_trips_table(client, name, ONE_FAMILY)
            for _ in range(times):
                write_trips(stage.trips.frame().where(f"{KEY} < '{stop}'"), server.address, name, ONE_FAMILY)
                client.flush(name)
            seconds[name] = wait_until_idle(client, name)
        once_bytes, often_bytes = store_bytes(client, "once"), store_bytes(client, "often")
        cells = store_cells(client, "once"), store_cells(client, "often")

        def read(name: str) -> None:
            read_all(trip_reader(stage.spark, server.address, name, ONE_FAMILY).load())

        measured = usage.in_turns(
            stage.meter(server),
            {"once": lambda: read("once"), "often": lambda: read("often")},
            stage.rounds,
            stage.warm_up_rounds,
        )
        files = store_files(client, "often")
    once, often = measured["once"], measured["often"]
    return {
        "typed-overwritten-disk": Measurement(
            Spread.of([often_bytes / once_bytes]),
            {
                "MB, written once": Spread.of([once_bytes / 1e6]),
                "cells, of those written once": Spread.of([cells[1] / cells[0]]),
                "store files": Spread.of([files]),
                "seconds until idle": Spread.of([seconds["often"]]),
            },
        ),
        "typed-overwritten-read": Measurement(
            usage.ratio(often, once, lambda used: used.wall),
            {
                "CPU of all processes": usage.ratio(often, once, lambda used: used.all_cpu),
                **usage.details("written once", once),
                **usage.details("three times", often),
            },
        ),
    }
