"""Starts Spark, unpacks the CSV files and plans the writers' work."""

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
from bench.demo.spark_state import SparkState
from bench.demo.state import DemoState, Stopwatch

# The writers correct this fraction of the flights, the most delayed ones.
_LATE_FRACTION = 0.02
_WRITERS = ("cleo", "dora")


@contextmanager
def started(state: DemoState, source: pa.Table, flight_count: int | None, folder: Path) -> Iterator[SparkState]:
    """Yields the state for the steps with Spark, and stops Spark afterwards. `folder` is for Spark's files.

    source: the flights of the CSV files.
    """
    files = unpacked(folder, flight_count)
    watch = Stopwatch()
    with local_spark(folder) as spark:
        start_workers(spark)
        state.output.line(f"Spark {spark.version} and its Python workers ready after {watch.seconds:.1f} s")
        flights = flights_of_csv(spark, files.flights)
        planes, weather = planes_of_csv(spark, files.planes), weather_of_csv(spark, files.weather)
        yield SparkState(state, spark, flights, planes, weather, rounds_of(source))


def rounds_of(source: pa.Table) -> list[Rounds]:
    """Distributes the most delayed flights to the writers, shuffled, so that each hour has corrections early."""
    delays: list[int] = [delay or 0 for delay in source["arr_delay"].to_pylist()]
    latest = sorted(range(len(delays)), key=delays.__getitem__)[
        -max(len(_WRITERS), int(len(delays) * _LATE_FRACTION)) :
    ]
    random.Random(2013).shuffle(latest)
    rows = keys_of(source.take(pa.array(latest, pa.int64())))
    late = [delays[number] for number in latest]
    dealt = enumerate(_WRITERS)
    return [Rounds(name, rows[place :: len(_WRITERS)], late[place :: len(_WRITERS)]) for place, name in dealt]
