"""What every Spark session of the project has in common: this machine alone, UTC, nothing shown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rowlock.spark import prepare_environment

if TYPE_CHECKING:
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


def quiet_logging(folder: Path) -> dict[str, str]:
    """Settings for a Java that tells errors alone, on standard error; their file goes to `folder`."""
    settings = folder / "log4j2.properties"
    settings.write_text(_LOG_SETTINGS)
    return {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={settings.as_uri()}"}


def local_builder(folder: Path, master: str, name: str, settings: Mapping[str, str]) -> SparkSession.Builder:
    """A builder of a session whose files go to `folder`; needs no network and no host name.

    `settings` come over ours. Raises NoJavaError when there is no Java to run it.
    """
    prepare_environment()
    # Else Spark looks up what this machine's name stands for.
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["SPARK_LOCAL_HOSTNAME"] = "localhost"
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **settings,
    }.items():
        builder = builder.config(key, value)
    return builder
