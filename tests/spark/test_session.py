"""The session that all tests share, and the Python processes that it starts."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.spark.session import retried

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _executables(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import rowlock

    for _ in batches:
        yield pa.RecordBatch.from_pylist([{"python": sys.executable, "rowlock": rowlock.__file__}])


def test_workers_of_spark_are_this_python_with_this_rowlock(spark: SparkSession) -> None:
    import rowlock

    frame = spark.range(1, numPartitions=1).mapInArrow(_executables, "python STRING, rowlock STRING")
    [row] = retried(frame.collect)
    assert (row["python"], row["rowlock"]) == (sys.executable, rowlock.__file__)


def test_session_is_bound_to_loopback_alone(spark: SparkSession) -> None:
    settings = dict(spark.sparkContext.getConf().getAll())
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"


def test_spark_would_find_the_format_by_itself() -> None:
    """Spark looks for every module named pyspark_* with a DefaultSource."""
    from rowlock.spark.source import RowlockSource

    assert "pyspark_rowlock" in {module.name for module in pkgutil.iter_modules()}
    found = importlib.import_module("pyspark_rowlock").DefaultSource
    assert found.name() == "rowlock"
    assert issubclass(RowlockSource, found)


def test_only_a_starved_worker_is_retried() -> None:
    calls: list[str] = []

    def failing(message: str, failures: int) -> str:
        calls.append(message)
        if len(calls) <= failures:
            raise RuntimeError(message)
        return "done"

    assert retried(lambda: failing("Python worker failed to connect back.", 2)) == "done"
    assert len(calls) == 3
    calls.clear()
    with pytest.raises(RuntimeError, match="connect back"):
        retried(lambda: failing("Python worker failed to connect back.", 3))
    calls.clear()
    with pytest.raises(RuntimeError, match="wrong"):
        retried(lambda: failing("wrong", 1))
    assert len(calls) == 1
