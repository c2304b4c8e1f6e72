"""Reads of typed trips, whole and narrow, against Parquet and against a Python source of prepared batches."""

from __future__ import annotations

from collections.abc import Mapping

import rowlock.spark

from bench.measure import Measurement, Spread
from bench.spark import usage
from bench.spark.rows import read_all
from bench.spark.stage import Stage, running_server
from bench.spark.trip_files import TABLE
from bench.spark.trips import ONE_COLUMN, Layout, schema, trip_reader
from bench.spark.usage import FLOOR_RATIO, Usage


def typed_reads(stage: Stage, layout: Layout) -> Mapping[str, Measurement]:
    """Measures all reads in turns, each of a new DataFrame."""
    # Imports PySpark.
    from bench.spark.floors import read_batches

    trips = stage.trips
    with running_server(trips.loaded(layout)) as (server, _):
        reader = trip_reader(stage.spark, server.address, TABLE, layout)

        def check(found: int) -> None:
            assert found == trips.trip_count, f"{found} rows were counted, not {trips.trip_count}"

        measured = usage.in_turns(
            stage.meter(server),
            {
                "rowlock": lambda: read_all(reader.load()),
                "Parquet": lambda: read_all(trips.frame()),
                "floor": lambda: read_all(read_batches(stage.spark, trips.arrow_batches, trips.schema)),
                "one column": lambda: read_all(
                    trip_reader(stage.spark, server.address, TABLE, layout).schema(schema([ONE_COLUMN])).load()
                ),
                "keys": lambda: check(rowlock.spark.count(stage.spark, TABLE, server=server.address)),
                "count": lambda: check(reader.load().count()),
            },
            stage.rounds,
            stage.warm_up_rounds,
        )
    every, parquet, floor = measured["rowlock"], measured["Parquet"], measured["floor"]
    name = f"typed-{layout.name}"
    return {
        f"{name}-read-wall": Measurement(
            usage.ratio(every, parquet, lambda used: used.wall),
            {
                FLOOR_RATIO: usage.ratio(every, floor, lambda used: used.wall),
                **usage.details("rowlock", every),
                **usage.of_spark("Parquet", parquet),
                **usage.of_spark("floor", floor),
            },
        ),
        f"{name}-read-spark-cpu": Measurement(
            usage.ratio(every, parquet, lambda used: used.spark_cpu),
            {FLOOR_RATIO: usage.ratio(every, floor, lambda used: used.spark_cpu)},
        ),
        f"{name}-read-server-cpu": Measurement(
            Spread.of([mine.server_cpu / theirs.spark_cpu for mine, theirs in zip(every, parquet, strict=True)]), {}
        ),
        f"{name}-column-cpu": _of_all("one column", measured["one column"], every),
        f"{name}-keys-cpu": _of_all("count from keys", measured["keys"], every),
        f"{name}-count-cpu": _of_all("count()", measured["count"], every),
    }


def _of_all(name: str, part: list[Usage], every: list[Usage]) -> Measurement:
    """Returns the server's CPU of a narrow read, divided by that of reading all."""
    return Measurement(
        usage.ratio(part, every, lambda used: used.server_cpu),
        {"by the clock": usage.ratio(part, every, lambda used: used.wall), **usage.details(name, part)},
    )
