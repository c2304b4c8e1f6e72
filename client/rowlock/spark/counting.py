"""Counts the rows of a table, from their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock.spark.configuration import check_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def count(spark: SparkSession, table: str, **options: str | float) -> int:
    """Returns how many rows `spark.read.format("rowlock").options(...).load(table).count()` would count, for less.

        rowlock.spark.count(spark, "flights", server="db:7460", prefix="UA|")

    The server sends only the keys, and each task returns one number. Spark tells no source that a query only counts, so
    the other way reads every column. Raises the errors of configure() and of load().
    """
    from pyspark.sql.functions import sum as total

    check_session(spark)
    counts = spark.read.format("rowlock").options(**{**options, "count": "true"}).load(table)
    [found] = counts.select(total("count")).collect()
    return int(found[0] or 0)
