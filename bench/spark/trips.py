"""The typed rows of the figures from Spark: taxi trips in the shape of targets/typed_rows.py, made by Spark itself.

A trip's values derive from hashes of its number, so they are the same in each run, however Spark divides the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.spark.rows import Part
from bench.targets.typed_rows import COLUMNS, DAYS, FIRST_SECOND, KEY, trip_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

# One column that a narrow read asks for.
ONE_COLUMN = "distance"


@dataclass(frozen=True, slots=True)
class Layout:
    """The families of the columns: each has as many of the columns, in order, as its number."""

    name: str
    families: Mapping[str, int]

    @property
    def columns(self) -> Mapping[str, str]:
        """The cell column `family:qualifier` of each column."""
        families = [family for family, count in self.families.items() for _ in range(count)]
        return {name: f"{family}:{name}" for name, family in zip(COLUMNS, families, strict=True)}

    @property
    def mapping(self) -> str:
        """The mapping of the key and of all columns."""
        columns = [f"{name} {COLUMNS[name]} {cell}" for name, cell in self.columns.items()]
        return ", ".join([f"{KEY} STRING :key", *columns])


ONE_FAMILY = Layout("one", {"f": 15})
THREE_FAMILIES = Layout("three", {"time": 3, "ride": 8, "money": 4})


def schema(columns: Sequence[str]) -> str:
    """Returns Spark's schema of these columns; the key may be one of them."""
    return ", ".join(f"{name} {COLUMNS.get(name, 'STRING')}" for name in columns)


def middle_part(trip_count: int, percent: float) -> Part:
    """Returns this percentage of the trips, from their middle on."""
    first, count = trip_count // 2, max(1, int(trip_count * percent / 100))
    return Part(trip_key(first), trip_key(first + count), count)


def trips(spark: SparkSession, trip_count: int) -> DataFrame:
    """Returns the trips in the order of their keys, in as many partitions as Spark chooses."""
    drawn = spark.range(trip_count).selectExpr(
        "id",
        f"{FIRST_SECOND} + id * {DAYS * 86_400} div {trip_count} + cast(600 * {_uniform(1)} as bigint) started",
        f"round(0.3 - 2.2 * ln(1 - {_uniform(2)}), 2) distance",
        f"{_uniform(3)} speed",
        f"{_uniform(4)} riders",
        f"{_uniform(5)} paid",
        f"cast(13587 * {_uniform(6)} as int) car",
    )
    rides = drawn.selectExpr(
        "*",
        "cast(60 + distance * 220 * (0.6 + 0.8 * speed) as bigint) seconds",
        "case when paid < 0.7 then 'card' when paid < 0.95 then 'cash' when paid < 0.99 then 'free' else 'dispute' end "
        "payment",
        "round(3 + 2.5 * distance, 1) price",
        f"{_uniform(7)} generosity",
    )
    return rides.selectExpr(
        f"lpad(cast(id as string), 10, '0') {KEY}",
        "timestamp_seconds(started) pickup",
        "timestamp_seconds(started + seconds) dropoff",
        "to_date(timestamp_seconds(started)) day",
        f"cast(1 + 264 * pow({_uniform(8)}, 2.2) as int) pickup_zone",
        f"cast(1 + 264 * pow({_uniform(9)}, 1.6) as int) dropoff_zone",
        "distance",
        "car * 1000000L + id % 1000000L meter",
        "concat('T', lpad(cast(car as string), 5, '0')) taxi",
        f"cast(case when {_uniform(10)} < 0.36 then 1 else 2 end as smallint) vendor",
        "case when riders < 0.04 then null when riders < 0.72 then 1 when riders < 0.86 then 2 "
        "else 3 + cast(4 * generosity as int) end passengers",
        f"{_uniform(11)} < 0.01 is_shared",
        "payment",
        "cast(price as decimal(10,2)) fare",
        "case when payment = 'card' then round(0.4 * price * generosity, 2) else 0.0D end tip",
        "cast(price + 0.5 + case when payment = 'card' then round(0.4 * price * generosity, 2) else 0 end "
        "as decimal(10,2)) total",
    )


def trip_reader(spark: SparkSession, server: str, table: str, layout: Layout) -> DataFrameReader:
    """Returns a reader of all columns of the table, to which options and a schema can be added."""
    reader = spark.read.format("rowlock").option("server", server).option("table", table)
    return reader.option("mapping", layout.mapping)


def write_trips(frame: DataFrame, server: str, table: str, layout: Layout) -> None:
    """Writes the trips into the table, at its durability."""
    writer = frame.write.format("rowlock").mode("append").option("server", server).option("table", table)
    writer.option("mapping", layout.mapping).save()


def _uniform(seed: int) -> str:
    """Returns an expression of a number in [0, 1) that depends on the trip and the seed."""
    return f"((xxhash64(id, {seed}L) & 4294967295L) / 4294967296D)"
