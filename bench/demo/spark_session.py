"""Spark on this machine, in two threads; its log goes to a file."""

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
    """Starts a session whose files, spark.log among them, are in that folder. Blocks while Java starts.

    Raises NoJavaError if there is no supported Java.
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
    """Starts Spark's Python workers, which the first job that needs them does."""
    spark.range(2, numPartitions=2).mapInArrow(_as_they_are, "id BIGINT").collect()


def _as_they_are(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


@contextmanager
def _errors_to(log: Path) -> Iterator[None]:
    """Makes this file the standard error of processes that start within the block."""
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with open(log, "ab") as file:
            os.dup2(file.fileno(), 2)
            yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
