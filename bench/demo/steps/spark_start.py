"""Starts Spark, unpacks the CSV files, and prepares the writers' work."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from bench.demo.corrections import Rounds
from bench.demo.csv_files import unpacked
from bench.demo.flights import keys_of
from bench.demo.frames import flights_of_csv, planes_of_csv, weather_of_csv
from bench.demo.spark_session import local_spark, start_workers
from bench.demo.spark_stage import SparkStage
from bench.demo.stage import Stage, Stopwatch

# The writers correct this part of the flights, those with the longest delays.
_LATE_PART = 0.02
_WRITERS = ("cleo", "dora")


@contextmanager
def started(stage: Stage, source: pa.Table, flight_count: int | None, folder: Path) -> Iterator[SparkStage]:
    """Starts Spark, and ends it at exit; `source` are the flights of the CSV files, `folder` is for Spark's files."""
    files = unpacked(folder, flight_count)
    watch = Stopwatch()
    with local_spark(folder) as spark:
        start_workers(spark)
        stage.account.say(f"Spark {spark.version} and its Python workers ready after {watch.seconds:.1f} s")
        flights = flights_of_csv(spark, files.flights)
        planes, weather = planes_of_csv(spark, files.planes), weather_of_csv(spark, files.weather)
        yield SparkStage(stage, spark, flights, planes, weather, rounds_of(source))


def rounds_of(source: pa.Table) -> list[Rounds]:
    """Returns the writers' work: the flights with the longest delays, shuffled so that early rounds cover each hour."""
    delays: list[int] = [delay or 0 for delay in source["arr_delay"].to_pylist()]
    latest = sorted(range(len(delays)), key=delays.__getitem__)[-max(len(_WRITERS), int(len(delays) * _LATE_PART)) :]
    random.Random(2013).shuffle(latest)
    rows = keys_of(source.take(pa.array(latest, pa.int64())))
    late = [delays[number] for number in latest]
    dealt = enumerate(_WRITERS)
    return [Rounds(name, rows[place :: len(_WRITERS)], late[place :: len(_WRITERS)]) for place, name in dealt]
