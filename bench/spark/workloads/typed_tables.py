"""Tables of typed trips that came in other ways than by one job: by single puts, and several times over."""

from __future__ import annotations

from collections.abc import Mapping

from bench.measure import Measurement, Spread
from bench.spark import usage
from bench.spark.rows import read_all, write_parquet
from bench.spark.stage import Stage, running_server
from bench.spark.trip_files import TABLE, create_trips_table, parquet_bytes, store_bytes
from bench.spark.trips import ONE_FAMILY, trip_reader, write_trips
from bench.targets.compactions import wait_until_idle
from bench.targets.typed_rows import KEY, trip_key

# A client puts rows one by one many times slower than Spark writes them.
_SHARE_BY_BATCH = 10
_SHARE_OF_VERSIONS = 3
_VERSIONS = 5


def by_batch(stage: Stage) -> Mapping[str, Measurement]:
    """Measures the disk of a table that a batch has filled, against Parquet's of the same trips."""
    stop = trip_key(max(1, stage.trips.trip_count // _SHARE_BY_BATCH))
    baseline = stage.fresh_path("first-trips.parquet")
    write_parquet(stage.trips.frame().where(f"{KEY} < '{stop}'"), baseline)
    with (
        running_server(stage.trips.loaded(ONE_FAMILY)) as (_, source),
        running_server(stage.fresh_path("batch")) as (_, client),
    ):
        create_trips_table(client, TABLE, ONE_FAMILY)
        with source.table(TABLE).scan(stop=stop) as rows, client.table(TABLE).batch(size=1000) as batch:
            for row, data in rows:
                batch.put(row, data)
        client.flush(TABLE)
        disk_bytes = store_bytes(client, TABLE)
    return {
        "typed-batch-disk": Measurement(
            Spread.of([disk_bytes / parquet_bytes(baseline)]),
            {
                "MB of store files": Spread.of([disk_bytes / 1e6]),
                "MB of Parquet": Spread.of([parquet_bytes(baseline) / 1e6]),
            },
        )
    }


def with_versions(stage: Stage) -> Mapping[str, Measurement]:
    """Measures a table that keeps five versions and was written five times, against one that was written once.

    Each job is flushed, and the reads begin when automatic compaction is idle.
    """
    stop = trip_key(max(1, stage.trips.trip_count // _SHARE_OF_VERSIONS))
    with running_server(stage.fresh_path("versions")) as (server, client):
        for name, jobs in (("once", 1), ("often", _VERSIONS)):
            create_trips_table(client, name, ONE_FAMILY, versions=_VERSIONS)
            for _ in range(jobs):
                write_trips(stage.trips.frame().where(f"{KEY} < '{stop}'"), server.address, name, ONE_FAMILY)
                client.flush(name)
            wait_until_idle(client, name)
        once_bytes, often_bytes = store_bytes(client, "once"), store_bytes(client, "often")

        def read(name: str) -> None:
            read_all(trip_reader(stage.spark, server.address, name, ONE_FAMILY).load())

        measured = usage.in_turns(
            stage.meter(server),
            {"once": lambda: read("once"), "often": lambda: read("often")},
            stage.rounds,
            stage.warm_up_rounds,
        )
    once, often = measured["once"], measured["often"]
    return {
        "typed-versions-disk": Measurement(
            Spread.of([often_bytes / once_bytes]),
            {"MB, written once": Spread.of([once_bytes / 1e6]), "MB, five times": Spread.of([often_bytes / 1e6])},
        ),
        "typed-versions-read": Measurement(
            usage.ratio(often, once, lambda used: used.wall),
            {
                "CPU of all processes": usage.ratio(often, once, lambda used: used.all_cpu),
                **usage.details("written once", once),
                **usage.details("five times", often),
            },
        ),
    }
