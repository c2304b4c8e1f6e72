"""A local Spark session with two threads, whose log goes to a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from bench.local_spark import local_builder, quiet_logging


@contextmanager
def local_spark(folder: Path) -> Iterator[SparkSession]:
    """Runs a session whose files, including spark.log, are in the folder. Blocks while Java starts.

    Raises NoJavaError when there is no Java.
    """
    settings = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "4", **quiet_logging(folder)}
    builder = local_builder(folder, "local[2]", "rowlock demo", settings)
    with _errors_to(folder / "spark.log"):
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def start_workers(spark: SparkSession) -> None:
    """Runs a job that makes Spark start its Python workers, which it does with the first job that needs them."""
    spark.range(2, numPartitions=2).mapInArrow(_as_they_are, "id BIGINT").collect()


def _as_they_are(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


@contextmanager
def _errors_to(log: Path) -> Iterator[None]:
    """Redirects standard error to the file until exit; processes that are started meanwhile keep it."""
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with open(log, "ab") as file:
            os.dup2(file.fileno(), 2)
            yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
