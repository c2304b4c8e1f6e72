"""The Spark session that is measured: two local task slots, bound to loopback, and nothing on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from bench.local_spark import local_builder

if TYPE_CHECKING:
    import subprocess

    from pyspark.sql import SparkSession

_MASTER = "local[2]"


@contextmanager
def running_session(folder: Path) -> Iterator[SparkSession]:
    """A session whose files go to `folder`. Blocks for Java to start; Java ends with this program."""
    session = local_builder(folder, _MASTER, "rowlock's bench", {"spark.driver.memory": "2g"}).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def java_pid(session: SparkSession) -> int:
    """The process that the driver started, from which Java and the Python workers descend."""
    # py4j's gateway has no types; PySpark puts the process on it.
    gateway = session.sparkContext._gateway
    return cast("subprocess.Popen[bytes]", gateway.proc).pid  # type: ignore[union-attr]


def facts(session: SparkSession) -> dict[str, str]:
    """What a reader must know of Spark to judge a figure."""
    # The virtual machine's own word on itself; py4j has no types.
    java = session.sparkContext._jvm.System.getProperty("java.version")  # type: ignore[union-attr]
    return {
        "pyspark": session.version,
        "java": str(java),
        "master": _MASTER,
        "parquet": session.conf.get("spark.sql.parquet.compression.codec") or "",
    }
