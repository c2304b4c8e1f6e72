"""Reads of a whole table from store files, against the same rows in Parquet as Spark writes it by default."""

from __future__ import annotations

from collections.abc import Mapping

from bench.measure import Measurement, Spread
from bench.spark import usage
from bench.spark.rows import SCHEMA, read_all, table_reader
from bench.spark.stage import LOADED, Stage, running_server
from bench.spark.usage import FLOOR_RATIO


def reads(stage: Stage) -> Mapping[str, Measurement]:
    """Measures reads of ten columns, of Parquet's, of a source of prepared batches, and of one column, in turns."""
    # Imports PySpark.
    from bench.spark.floors import read_batches

    folder = str(stage.parquet_of_spark)
    prepared = stage.arrow_batches
    with running_server(stage.loaded_data) as (server, _):

        def read_rowlock(column_count: int) -> None:
            read_all(table_reader(stage.spark, server.address, LOADED, column_count).load())

        # A read that skipped rows would look fast.
        found = table_reader(stage.spark, server.address, LOADED, 1).load().count()
        assert found == stage.row_count, f"{found} rows were read, not {stage.row_count}"
        measured = usage.in_turns(
            stage.meter(server),
            {
                "rowlock": lambda: read_rowlock(10),
                "Parquet": lambda: read_all(stage.spark.read.parquet(folder)),
                "floor": lambda: read_all(read_batches(stage.spark, prepared, SCHEMA)),
                "one column": lambda: read_rowlock(1),
            },
            stage.rounds,
            stage.warm_up_rounds,
        )
    ten, parquet, one = measured["rowlock"], measured["Parquet"], measured["one column"]
    floor = measured["floor"]
    details = {
        FLOOR_RATIO: usage.ratio(ten, floor, lambda used: used.spark_cpu),
        **usage.details("rowlock", ten),
        **usage.of_spark("Parquet", parquet),
        **usage.of_spark("floor", floor),
    }
    server_ratio = [mine.server_cpu / theirs.spark_cpu for mine, theirs in zip(ten, parquet, strict=True)]
    return {
        "read-spark-cpu": Measurement(usage.ratio(ten, parquet, lambda used: used.spark_cpu), details),
        "read-server-cpu": Measurement(Spread.of(server_ratio), {}),
        "read-wall": Measurement(usage.ratio(ten, parquet, lambda used: used.wall), {}),
        "read-one-column": Measurement(
            usage.ratio(one, ten, lambda used: used.all_cpu),
            {
                "by the clock": usage.ratio(one, ten, lambda used: used.wall),
                **usage.details("one column", one),
            },
        ),
    }
