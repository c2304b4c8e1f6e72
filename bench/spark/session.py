"""The Spark session that is measured: two local task slots, loopback only, no output on the terminal."""

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
    """Runs a session whose files go to `folder`. Blocks while Java starts; Java ends with this program."""
    session = local_builder(folder, _MASTER, "rowlock's bench", {"spark.driver.memory": "2g"}).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def java_pid(session: SparkSession) -> int:
    """Returns the id of the process that the driver started, the ancestor of Java and the Python workers."""
    # py4j's gateway has no types; PySpark adds the process to it.
    gateway = session.sparkContext._gateway
    return cast("subprocess.Popen[bytes]", gateway.proc).pid  # type: ignore[union-attr]


def facts(session: SparkSession) -> dict[str, str]:
    """Returns the properties of Spark that a reader of figures must know."""
    # py4j has no types.
    java = session.sparkContext._jvm.System.getProperty("java.version")  # type: ignore[union-attr]
    return {
        "pyspark": session.version,
        "java": str(java),
        "master": _MASTER,
        "parquet": session.conf.get("spark.sql.parquet.compression.codec") or "",
    }
