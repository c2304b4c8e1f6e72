"""Making a Spark session know the format, whatever Spark has found by itself."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from rowlock.errors import RowlockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class NoPythonError(RowlockError):
    """There is no Python at the place that PYSPARK_PYTHON names, on the driver's machine."""


def configure(spark: SparkSession) -> None:
    """Makes the session, and the calling thread, know the format, as it is installed here. Idempotent.

    Spark looks for formats by itself, but once only: where that fails, because no Python process started in time for
    instance, it knows none for as long as its Java lives. It looks in installed packages alone, and not in
    what --py-files or addArtifacts brought. And it starts the workers of what it has found with the driver's Python.
    None of this holds for a session that was configured: its executors run PYSPARK_PYTHON.

    Raises PySparkTooOldError if this PySpark is too old for rowlock, and NoPythonError if the Python of the executors
    is not there on the driver's machine too, where it plans reads and writes.
    """
    check_session(spark)
    from rowlock.spark.source import RowlockSource

    spark.dataSource.register(RowlockSource)
    # Spark looks for formats in the session of the thread, and this makes one the thread's.
    spark.createDataFrame([], "nothing STRING")


def check_session(spark: SparkSession) -> None:
    """Raises PySparkTooOldError or NoPythonError for a session that can't use the format, as configure() does."""
    from rowlock.spark.versions import check_pyspark

    check_pyspark(spark.version)
    _check_python(spark)


def _check_python(spark: SparkSession) -> None:
    context = getattr(spark, "_sc", None)
    # With Spark Connect the server has a Python of its own.
    python = None if context is None else context.pythonExec
    if python is not None and shutil.which(python) is None:
        raise NoPythonError(
            f"PYSPARK_PYTHON is {python}, and there is none on the driver's machine, which plans reads and writes with "
            "it too. Where executors unpack an archive, unpack it beside the driver as well: see 'Clusters' in "
            "docs/spark.md"
        )
