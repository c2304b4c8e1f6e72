"""The flights as Spark DataFrames: from CSV files, with corrections, from rowlock, joined, and compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions

from bench.demo import tables
from bench.demo.corrections import Corrected
from bench.demo.flights import COLUMN_TYPES, KEY_COLUMNS

COLUMNS = (*COLUMN_TYPES, "corrected_by", "correction")

_PLANES = "tailnum STRING, manufacturer STRING, seats INT"
_WEATHER = "origin STRING, time_hour STRING, visib DOUBLE, wind_speed DOUBLE"


def flights_of_csv(spark: SparkSession, path: Path) -> DataFrame:
    """Returns the flights of the file, in the columns of the mapping, without corrections."""
    flights = _csv(spark, path).select(
        *(functions.col(name).cast(tables.SQL_NAMES[kind]).alias(name) for name, kind in COLUMN_TYPES.items()),
        functions.lit(None).cast("string").alias("corrected_by"),
        functions.lit(None).cast("int").alias("correction"),
    )
    assert tuple(flights.columns) == COLUMNS, f"the columns are {flights.columns}"
    return flights


def planes_of_csv(spark: SparkSession, path: Path) -> DataFrame:
    """Returns each aircraft's manufacturer and seats, by its tail number."""
    return _typed(_csv(spark, path), _PLANES)


def weather_of_csv(spark: SparkSession, path: Path) -> DataFrame:
    """Returns visibility and wind speed, by airport and hour."""
    return _typed(_csv(spark, path), _WEATHER)


def flights_of_table(spark: SparkSession, address: str) -> DataFrame:
    """Returns the table at one moment, that of the DataFrame's first use."""
    return (
        spark.read.format("rowlock")
        .option("server", address)
        .option("table", tables.SPARK_FLIGHTS)
        .option("mapping", tables.spark_mapping())
        .load()
        .select(*COLUMNS)
    )


def write_flights(flights: DataFrame, address: str) -> None:
    """Puts the flights into the table, which is created if needed."""
    (
        flights.write.format("rowlock")
        .mode("append")
        .option("server", address)
        .option("table", tables.SPARK_FLIGHTS)
        .option("mapping", tables.spark_mapping())
        .option("create", "true")
        .save()
    )


def with_corrections(flights: DataFrame, corrected: Mapping[bytes, Corrected]) -> DataFrame:
    """Returns the flights with the corrected delays, by row, and with the writer of each correction."""
    changes = flights.sparkSession.createDataFrame(
        pa.table(
            {
                "row": pa.array([row.decode() for row in corrected], pa.string()),
                "new_delay": pa.array([change.delay for change in corrected.values()], pa.int32()),
                "new_by": pa.array([change.by for change in corrected.values()], pa.string()),
                "new_number": pa.array([change.number for change in corrected.values()], pa.int32()),
            }
        )
    )
    both = flights.withColumn("row", functions.concat_ws("|", *KEY_COLUMNS)).join(
        functions.broadcast(changes), "row", "left"
    )
    return (
        both.withColumn("arr_delay", functions.coalesce("new_delay", "arr_delay"))
        .withColumn("corrected_by", functions.coalesce("new_by", "corrected_by"))
        .withColumn("correction", functions.coalesce("new_number", "correction"))
        .select(*COLUMNS)
    )


def joined(flights: DataFrame, planes: DataFrame, weather: DataFrame) -> DataFrame:
    """Returns each flight with its aircraft and the weather at its departure; null where unknown."""
    return flights.join(functions.broadcast(planes), "tailnum", "left").join(
        functions.broadcast(weather), ["origin", "time_hour"], "left"
    )


def delays_by_maker_and_sight(flights: DataFrame) -> DataFrame:
    """Returns sums of the joined flights' delays in integers, which do not depend on the order of addition."""
    return (
        flights.groupBy("manufacturer", (functions.col("visib") < 3).alias("is_foggy"))
        .agg(
            functions.count("*").alias("flights"),
            functions.sum("arr_delay").alias("delays"),
            functions.max("arr_delay").alias("longest"),
            functions.count("corrected_by").alias("corrected"),
        )
        .orderBy("manufacturer", "is_foggy")
    )


def delays_by_hour(flights: DataFrame) -> dict[int, float]:
    """Returns the mean delay at arrival by the planned hour of departure, for hours that have one."""
    means = (
        flights.groupBy("hour")
        .agg(functions.avg("arr_delay").alias("delay"))
        .where("delay is not null")
        .orderBy("hour")
    )
    return {row["hour"]: row["delay"] for row in means.collect()}


def unequal(found: DataFrame, expected: DataFrame) -> DataFrame:
    """Returns the rows that one of the two has more often, with nulls equal; `surplus` is positive for `found`'s."""
    columns = expected.columns
    counted = found.select(*columns, functions.lit(1).alias("one")).unionAll(
        expected.select("*", functions.lit(-1).alias("one"))
    )
    return counted.groupBy(*columns).agg(functions.sum("one").alias("surplus")).where("surplus != 0")


def _csv(spark: SparkSession, path: Path) -> DataFrame:
    return spark.read.csv(str(path), header=True, nullValue="NA")


def _typed(frame: DataFrame, schema: str) -> DataFrame:
    columns = [column.split() for column in schema.split(", ")]
    return frame.select(*(functions.col(name).cast(kind).alias(name) for name, kind in columns))
