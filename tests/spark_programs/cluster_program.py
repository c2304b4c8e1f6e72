"""A user's program that makes its own session, runs rowlock.spark.check, writes and reads. Prints JSON.

Arguments: the master ("connect" for Spark Connect), the server, a folder for files, then the preparations:
"pyfile=FILE", "archive=FILE", "configure", before which it also runs a check.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import rowlock.spark

from bench.local_spark import quiet_logging

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main() -> None:
    master, server, folder, *words = sys.argv[1:]
    given = dict(word.partition("=")[::2] for word in words)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["SPARK_LOCAL_HOSTNAME"] = "localhost"
    spark = session(master, Path(folder), given.get("archive"))
    if "pyfile" in given:
        if master == "connect":
            spark.addArtifacts(given["pyfile"], pyfile=True)
        else:
            spark.sparkContext.addPyFile(given["pyfile"])
    found: dict[str, object] = {}
    if "configure" in given:
        found["problems_before"] = rowlock.spark.check(spark, server, timeout=60).problems
        rowlock.spark.configure(spark)
    report = rowlock.spark.check(spark, server, timeout=60)
    found["problems"] = report.problems
    found["places"] = [[place.place, place.folder, place.python, place.has_reached] for place in report.places]
    if report.is_well:
        rows = [(b"k", {"f:q": b"1"})]
        frame = spark.createDataFrame(rows, "row BINARY, columns MAP<STRING, BINARY>")
        frame.write.format("rowlock").mode("append").option("server", server).save("shipped")
        found["count"] = spark.read.format("rowlock").option("server", server).load("shipped").count()
    if master != "connect":
        found["application"] = spark.sparkContext.applicationId
    print(json.dumps(found), flush=True)
    spark.stop()


def session(master: str, folder: Path, archive: str | None) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    # Not with the project's local_session, which chooses the Python.
    builder = builder.remote("local[1]") if master == "connect" else builder.master(master)
    for key, value in {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **quiet_logging(folder),
    }.items():
        builder = builder.config(key, value)
    if archive is not None:
        builder = builder.config("spark.archives", archive)
    made: SparkSession = builder.getOrCreate()
    return made


if __name__ == "__main__":
    main()
