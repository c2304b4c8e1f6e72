"""A quiet Spark session on this machine alone, and how a job survives a machine that is too busy."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rowlock.spark import prepare_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Result = TypeVar("_Result")

_LOG_SETTINGS = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""
# What Spark says of a worker that the machine gave no time to start.
_STARVED = ("failed to connect back", "Timed out while waiting for the Python worker")


def local_session(folder: Path, master: str, settings: Mapping[str, str] | None = None) -> SparkSession:
    """The process's session; its files go to `folder`. Blocks for Java to start, many seconds on a busy machine."""
    prepare_environment()
    # Else Spark looks up what this machine's name stands for.
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["SPARK_LOCAL_HOSTNAME"] = "localhost"
    from pyspark.sql import SparkSession

    log_settings = folder / "log4j2.properties"
    log_settings.write_text(_LOG_SETTINGS)
    builder = SparkSession.builder.master(master).appName("rowlock's tests")
    for name, value in {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log_settings.as_uri()}",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(settings or {}),
    }.items():
        builder = builder.config(name, value)
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
