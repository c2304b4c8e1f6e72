"""`configure` in a thread, and the report of `check`. The ways to install are in tests/spark_programs."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import pytest
import rowlock
import rowlock.spark
from rowlock.spark.probe import PACKAGES

from tests.spark.session import retried

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_thread_that_configures_the_session_writes(spark: SparkSession, server: str) -> None:
    frame = spark.createDataFrame([(b"k", {"f:q": b"1"})], "row BINARY, columns MAP<STRING, BINARY>")
    failures: list[BaseException] = []

    def write() -> None:
        try:
            rowlock.spark.configure(spark)
            retried(lambda: frame.write.format("rowlock").mode("append").option("server", server).save("shipped"))
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert failures == []
    with rowlock.connect(server) as client:
        assert client.table("shipped").row("k") == {b"f:q": b"1"}


def test_a_check_describes_each_process_and_prints_as_a_table(spark: SparkSession, server: str) -> None:
    report = retried(lambda: rowlock.spark.check(spark, server))
    assert report.is_well
    assert [place.place for place in report.places] == ["driver", "planning", "executor"]
    for place in report.places:
        assert place.python == sys.executable
        assert place.has_reached
        assert set(place.versions) == set(PACKAGES)
        assert place.versions["rowlock"] == rowlock.__version__
    table = str(report)
    assert table.splitlines()[0].split() == [
        "place",
        "host",
        "Python",
        "rowlock",
        "pyspark",
        "pyarrow",
        "grpcio",
        "server",
        "executable",
    ]
    assert table.endswith("no problems found")


def test_a_check_reports_the_processes_that_do_not_reach_the_server(spark: SparkSession) -> None:
    report = retried(lambda: rowlock.spark.check(spark, "127.0.0.1:1", timeout=1))
    assert len(report.problems) == 3
    for problem, place in zip(report.problems, ("driver", "planning", "executor"), strict=True):
        assert problem.startswith(f"{place} on ")
        assert "server not reached: ServerUnavailableError: no rowlock server answers at 127.0.0.1:1" in problem
    assert str(report).count("not reached") == 6


def test_a_check_without_a_server_contacts_none(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROWLOCK_SERVER", raising=False)
    report = retried(lambda: rowlock.spark.check(spark))
    assert report.is_well
    assert {place.server for place in report.places} == {""}
