"""The common settings of the project's Spark sessions: loopback only, UTC, no output on the terminal."""

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
    """Returns settings with which Java logs only errors, to standard error; writes their file to `folder`."""
    settings = folder / "log4j2.properties"
    settings.write_text(_LOG_SETTINGS)
    return {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={settings.as_uri()}"}


def local_builder(folder: Path, master: str, name: str, settings: Mapping[str, str]) -> SparkSession.Builder:
    """Returns a builder of a session whose files go to `folder`; it needs no network and no host name.

    `settings` override the common ones. Raises NoJavaError when there is no Java.
    """
    prepare_environment()
    # Otherwise Spark resolves this machine's host name.
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
