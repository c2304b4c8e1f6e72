"""Analytic queries of typed trips in rowlock and in Parquet: equal answers, and the time that they take."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from bench.measure import Measurement, Spread
from bench.spark import usage
from bench.spark.queries import QUERIES, Answer, Query, Read, answer
from bench.spark.stage import Stage, running_server
from bench.spark.trip_files import TABLE
from bench.spark.trips import ONE_FAMILY, schema, trip_reader
from bench.spark.usage import FLOOR_RATIO, Usage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# The medians over the queries of the floor, and of rowlock against it.
FLOOR = "the floor against Parquet"


def typed_queries(stage: Stage) -> Mapping[str, Measurement]:
    """Measures each query in turns; the figure is the median over the queries. Asserts that the answers are equal.

    A query reads its columns by `.schema()` from rowlock and from the floor, because Spark passes no selection of
    columns to a Python source, and by `.select()` from Parquet. The floor is a Python source that only yields prepared
    batches of these columns.
    """
    # Imports PySpark.
    from bench.spark.floors import read_batches

    with running_server(stage.trips.loaded(ONE_FAMILY)) as (server, _):
        meter = stage.meter(server)

        def of_rowlock(*columns: str) -> DataFrame:
            return trip_reader(stage.spark, server.address, TABLE, ONE_FAMILY).schema(schema(columns)).load()

        def of_floor(*columns: str) -> DataFrame:
            return read_batches(stage.spark, stage.trips.arrow_batches, schema(columns))

        def of_parquet(*columns: str) -> DataFrame:
            return stage.trips.frame().select(*columns)

        readers = {"rowlock": of_rowlock, "floor": of_floor, "Parquet": of_parquet}
        measured = {name: _measured(stage, meter, name, query, readers) for name, query in QUERIES.items()}
    ratios = {name: _wall_ratio(used["rowlock"], used["Parquet"]) for name, used in measured.items()}
    floors = {name: _wall_ratio(used["floor"], used["Parquet"]) for name, used in measured.items()}
    of_the_floor = {name: _wall_ratio(used["rowlock"], used["floor"]) for name, used in measured.items()}
    details = {FLOOR: _over_queries(floors), FLOOR_RATIO: _over_queries(of_the_floor)}
    for name, found in ratios.items():
        details[name] = found
        details[f"{name}, the floor"] = floors[name]
    return {"typed-queries": Measurement(_over_queries(ratios), details)}


def _measured(
    stage: Stage, meter: usage.Meter, name: str, query: Query, readers: Mapping[str, Read]
) -> Mapping[str, list[Usage]]:
    """Returns the cost of a query from each source."""
    answers: dict[str, Answer] = {}

    def ask(source: str, read: Read) -> None:
        answers[source] = answer(query, read)

    jobs = {source: partial(ask, source, read) for source, read in readers.items()}
    measured = usage.in_turns(meter, jobs, stage.rounds, stage.warm_up_rounds)
    assert answers["Parquet"], f"the answer to {name!r} is empty"
    for source, found in answers.items():
        assert found == answers["Parquet"], f"the answers to {name!r} from {source} and from Parquet differ"
    return measured


def _wall_ratio(ours: list[Usage], baseline: list[Usage]) -> Spread:
    return usage.ratio(ours, baseline, lambda used: used.wall)


def _over_queries(ratios: Mapping[str, Spread]) -> Spread:
    """Returns the median over the queries of their medians, and the range of these."""
    return Spread.of([ratio.median for ratio in ratios.values()])
