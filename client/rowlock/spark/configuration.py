"""Registers the format with a Spark session, whether or not Spark has found it by itself."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from rowlock.errors import RowlockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class NoPythonError(RowlockError):
    """PYSPARK_PYTHON names a Python that is not on the driver's machine."""


def configure(spark: SparkSession) -> None:
    """Registers the format, as installed here, with the session and the calling thread. Idempotent.

    Spark finds formats by itself, with three restrictions. It looks once: if that fails, for instance because no Python
    process started in time, it knows no format for as long as its JVM lives. It looks in installed packages only, and
    not in those of --py-files or addArtifacts. And it runs the workers of formats that it found with the driver's
    Python. None of this applies to a configured session: its executors run PYSPARK_PYTHON.

    Raises PySparkTooOldError if this PySpark is too old for rowlock, and NoPythonError if the executors' Python is not
    on the driver's machine too, where it plans reads and writes.
    """
    check_session(spark)
    from rowlock.spark.source import RowlockSource

    spark.dataSource.register(RowlockSource)
    # Spark looks for formats in the thread's session; this call sets it.
    spark.createDataFrame([], "nothing STRING")


def check_session(spark: SparkSession) -> None:
    """Raises PySparkTooOldError or NoPythonError for a session that can't use the format, as configure() does."""
    from rowlock.spark.versions import check_pyspark

    check_pyspark(spark.version)
    _check_python(spark)


def _check_python(spark: SparkSession) -> None:
    context = getattr(spark, "_sc", None)
    # With Spark Connect the server has its own Python.
    python = None if context is None else context.pythonExec
    if python is not None and shutil.which(python) is None:
        raise NoPythonError(
            f"PYSPARK_PYTHON is {python}, which does not exist on the driver's machine; the driver runs it too, to "
            "plan reads and writes. If executors unpack an archive, unpack it beside the driver as well: see "
            "'Clusters' in docs/spark.md"
        )
