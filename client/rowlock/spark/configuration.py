"""Making a Spark session know the format, whatever Spark has found by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def configure(spark: SparkSession) -> None:
    """Makes sure that the session knows the format. Idempotent.

    Spark looks for formats by itself, but once only: where that fails, because no Python process started in time for
    instance, it goes on without them for as long as its Java lives.

    Raises PySparkTooOldError if this PySpark is too old for rowlock.
    """
    from rowlock.spark.versions import check_pyspark

    check_pyspark(spark.version)
    from rowlock.spark.source import RowlockSource

    spark.dataSource.register(RowlockSource)
