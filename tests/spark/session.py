"""A quiet Spark session on this machine alone, and how a job survives a machine that is too busy."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bench.local_spark import local_builder, quiet_logging

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Result = TypeVar("_Result")

# What Spark says of a worker that the machine gave no time to start.
_STARVED = ("failed to connect back", "Timed out while waiting for the Python worker")


def local_session(folder: Path, master: str, settings: Mapping[str, str] | None = None) -> SparkSession:
    """The process's session; its files go to `folder`. Blocks for Java to start, many seconds on a busy machine."""
    ours = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2", **quiet_logging(folder)}
    builder = local_builder(folder, master, "rowlock's tests", {**ours, **(settings or {})})
    interrupted = signal.getsignal(signal.SIGINT)
    session = builder.getOrCreate()
    # Spark takes Ctrl-C for itself, and would keep it from all tests that come after.
    signal.signal(signal.SIGINT, interrupted)
    session.sparkContext.setLogLevel("ERROR")
    # Spark would find the format by itself, but looks once only: where that fails, it goes on without it.
    from rowlock.spark.source import RowlockSource

    session.dataSource.register(RowlockSource)
    return session


def retried(action: Callable[[], _Result], attempts: int = 3) -> _Result:
    """What the action gives; it is repeated when Spark's Python worker did not come up in time, and only then."""
    for _ in range(attempts - 1):
        try:
            return action()
        except Exception as error:
            if not any(sign in str(error) for sign in _STARVED):
                raise
    return action()
