"""What of a Spark session's configuration makes rowlock work at its best."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def configure(spark: SparkSession) -> None:
    """Lets DataFrames with the option pushdown=true hand their filters to the server.

    Others read as before, but that PySpark takes every filter into Python now, where it may fail: a date or time after
    the year 9999 is no value there, and ends the query with a ValueError.
    And makes sure that Spark knows the format: it looks for formats once only, and where that fails, because no Python
    process started in time for instance, it goes on without them for as long as its Java lives.

    Raises PySparkTooOldError if this PySpark is too old for rowlock.
    """
    from rowlock.spark.versions import check_pyspark

    check_pyspark(spark.version)
    from rowlock.spark.source import RowlockSource

    spark.dataSource.register(RowlockSource)
    spark.conf.set(PUSHDOWN, "true")
