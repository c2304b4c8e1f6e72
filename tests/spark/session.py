"""A quiet Spark session on this machine, and retries of jobs on a machine that is too busy."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bench.local_spark import local_builder, quiet_logging

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Result = TypeVar("_Result")

# Errors of Spark for a worker that did not start in time.
_STARVED = ("failed to connect back", "Timed out while waiting for the Python worker")


def local_session(folder: Path, master: str, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Returns the process's session; its files go to `folder`. Blocks while Java starts, which may take long."""
    ours = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2", **quiet_logging(folder)}
    builder = local_builder(folder, master, "rowlock's tests", {**ours, **(settings or {})})
    interrupted = signal.getsignal(signal.SIGINT)
    session = builder.getOrCreate()
    # Spark installs a handler of SIGINT, which would hide Ctrl-C from all later tests.
    signal.signal(signal.SIGINT, interrupted)
    session.sparkContext.setLogLevel("ERROR")
    # Spark finds the format by itself, but looks only once: if that fails, it continues without it.
    from rowlock.spark.source import RowlockSource

    session.dataSource.register(RowlockSource)
    return session


def retried(action: Callable[[], _Result], attempts: int = 3) -> _Result:
    """Returns the action's result. Repeats it only if Spark's Python worker did not start in time."""
    for _ in range(attempts - 1):
        try:
            return action()
        except Exception as error:
            if not any(sign in str(error) for sign in _STARVED):
                raise
    return action()
