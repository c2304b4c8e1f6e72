"""Analytic queries of typed trips in rowlock and in Parquet: equal answers, and the time that they take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bench.measure import Measurement, Spread
from bench.spark import usage
from bench.spark.queries import QUERIES, Answer, Query, Read, answer
from bench.spark.stage import Stage, running_server
from bench.spark.trip_files import TABLE
from bench.spark.trips import ONE_FAMILY, schema, trip_reader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def typed_queries(stage: Stage) -> Mapping[str, Measurement]:
    """Measures each query in turns; the figure is the median over the queries. Asserts that the answers are equal.

    A query reads its columns by `.schema()` from rowlock, because Spark passes no selection of columns to a Python
    source, and by `.select()` from Parquet.
    """
    with running_server(stage.trips.loaded(ONE_FAMILY)) as (server, _):
        meter = stage.meter(server)

        def of_rowlock(*columns: str) -> DataFrame:
            return trip_reader(stage.spark, server.address, TABLE, ONE_FAMILY).schema(schema(columns)).load()

        def of_parquet(*columns: str) -> DataFrame:
            return stage.trips.frame().select(*columns)

        ratios = {name: _ratio(stage, meter, name, query, of_rowlock, of_parquet) for name, query in QUERIES.items()}
    return {"typed-queries": Measurement(Spread.of([ratio.median for ratio in ratios.values()]), ratios)}


def _ratio(stage: Stage, meter: usage.Meter, name: str, query: Query, ours: Read, baseline: Read) -> Spread:
    """Returns the seconds of a query from rowlock, divided by those from Parquet."""
    answers: dict[str, Answer] = {}

    def ask(source: str, read: Read) -> None:
        answers[source] = answer(query, read)

    measured = usage.in_turns(
        meter,
        {"rowlock": lambda: ask("rowlock", ours), "Parquet": lambda: ask("Parquet", baseline)},
        stage.rounds,
        stage.warm_up_rounds,
    )
    assert answers["rowlock"] == answers["Parquet"], f"the answers to {name!r} differ"
    assert answers["rowlock"], f"the answer to {name!r} is empty"
    return usage.ratio(measured["rowlock"], measured["Parquet"], lambda used: used.wall)
