"""The flights as Spark's DataFrames: from the CSV files, with corrections, from rowlock, joined, and compared."""

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
    """The flights of the file, in the columns of the mapping; nobody has corrected them."""
    flights = _csv(spark, path).select(
        *(functions.col(name).cast(tables.SQL_NAMES[kind]).alias(name) for name, kind in COLUMN_TYPES.items()),
        functions.lit(None).cast("string").alias("corrected_by"),
        functions.lit(None).cast("int").alias("correction"),
    )
    assert tuple(flights.columns) == COLUMNS, f"the columns are {flights.columns}"
    return flights


def planes_of_csv(spark: SparkSession, path: Path) -> DataFrame:
    """Each aircraft's maker and seats, by its tail number."""
    return _typed(_csv(spark, path), _PLANES)


def weather_of_csv(spark: SparkSession, path: Path) -> DataFrame:
    """How far one saw and how the wind blew, by airport and hour."""
    return _typed(_csv(spark, path), _WEATHER)


def flights_of_table(spark: SparkSession, address: str) -> DataFrame:
    """The table as it is at one moment, that of the DataFrame's first use."""
    return (
        spark.read.format("rowlock")
        .option("server", address)
        .option("table", tables.SPARK_FLIGHTS)
        .option("mapping", tables.spark_mapping())
        .load()
        .select(*COLUMNS)
    )


def write_flights(flights: DataFrame, address: str) -> None:
    """Puts them into the table, which is made if it is not there."""
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
    """The flights with the delay of these, by their row, and with who corrected them."""
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
    """Each flight with its aircraft and the weather where and when it left; null where nobody knows."""
    return flights.join(functions.broadcast(planes), "tailnum", "left").join(
        functions.broadcast(weather), ["origin", "time_hour"], "left"
    )


def delays_by_maker_and_sight(flights: DataFrame) -> DataFrame:
    """Of the joined flights, in whole numbers, which are the same in whatever order they are added."""
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
    """The mean delay at arrival by the hour of the planned departure, where there is one."""
    means = (
        flights.groupBy("hour")
        .agg(functions.avg("arr_delay").alias("delay"))
        .where("delay is not null")
        .orderBy("hour")
    )
    return {row["hour"]: row["delay"] for row in means.collect()}


def unequal(found: DataFrame, expected: DataFrame) -> DataFrame:
    """The rows that one of the two has more often than the other, nulls equal; `surplus` is above 0 for `found`'s."""
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
