"""Spark on this machine, in two threads; what it says of itself goes to a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import rowlock.spark
from pyspark.sql import SparkSession

_LOG_SETTINGS = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


@contextmanager
def local_spark(folder: Path) -> Iterator[SparkSession]:
    """A session whose files, spark.log among them, are in that folder. Blocks while Java starts.

    Raises NoJavaError when there is no Java to run it.
    """
    rowlock.spark.prepare_environment()
    # Else Spark looks up what this machine's name stands for.
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["SPARK_LOCAL_HOSTNAME"] = "localhost"
    settings = folder / "log4j2.properties"
    settings.write_text(_LOG_SETTINGS)
    builder = SparkSession.builder.master("local[2]").appName("rowlock demo")
    for name, value in {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={settings.as_uri()}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(folder / "spark"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(name, value)
    with _errors_to(folder / "spark.log"):
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def start_workers(spark: SparkSession) -> None:
    """Spark starts its Python with the first job that needs it; this is that job."""
    spark.range(2, numPartitions=2).mapInArrow(_as_they_are, "id BIGINT").collect()


def _as_they_are(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


@contextmanager
def _errors_to(log: Path) -> Iterator[None]:
    """What is started meanwhile has this file as its standard error, and keeps it."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(log, "ab") as file:
            os.dup2(file.fileno(), 2)
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
