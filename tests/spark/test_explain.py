"""The output of explain() for a DataFrame of rowlock.spark.load."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import rowlock
import rowlock.spark
from rowlock.pytest_plugin import RowlockServer

from tests.spark.session import retried

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MAPPING = "id STRING :key, delay INT info:delay, dest STRING info:dest"


@pytest.fixture
def options(rowlock_server: RowlockServer, rowlock_client: rowlock.Client) -> dict[str, Any]:
    table = rowlock_client.create_table("t", ["info"])
    with table.batch() as batch:
        for number in range(20):
            dest = "a/b.c[d];" if number % 2 else "A/B.C[D];"
            batch.put(f"k{number:02}", {"info:delay": number.to_bytes(4, "big"), "info:dest": dest})
    return {"server": rowlock_server.address, "mapping": _MAPPING}


def _plan(capsys: pytest.CaptureFixture[str], frame: DataFrame, mode: str | None = None) -> str:
    retried(lambda: frame.explain(mode=mode))
    return capsys.readouterr().out


def test_explain_shows_the_server_s_filters(
    spark: SparkSession, options: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    frame = retried(lambda: rowlock.spark.load(spark, "t", start="k05", filter="delay > 15", **options))
    assert sorted(row["delay"] for row in retried(frame.collect)) == [16, 17, 18, 19]
    shown = "rowlock t, start k05, filter delay > 15"
    assert f"BatchScan {shown}[id#" in _plan(capsys, frame)
    assert _plan(capsys, frame.where("delay < 18"), "extended").count(f"] {shown}\n") == 3
    assert f"BatchScan {shown}\nOutput [3]" in _plan(capsys, frame, "formatted")
    assert options["server"] not in _plan(capsys, frame, "formatted")
    frame.createOrReplaceTempView("late")
    try:
        assert f"BatchScan {shown}[id#" in spark.sql("EXPLAIN SELECT count(*) FROM late").collect()[0][0]
    finally:
        spark.catalog.dropTempView("late")


def test_each_load_is_shown_by_its_own_options(
    spark: SparkSession, options: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark ignores the letter case of format names, and two filters may differ only in case."""
    filters = ("dest = 'a/b.c[d];'", "dest = 'A/B.C[D];'", "dest = 'a/b.c[d];'")
    arguments = [{"filter": given} for given in filters] + [{"schema": "Delay INT"}]
    frames = [retried(partial(rowlock.spark.load, spark, "t", **options, **given)) for given in arguments]
    for frame, given in zip(frames, filters, strict=False):
        assert f"BatchScan rowlock t, filter {given}[" in _plan(capsys, frame)
        assert {row["dest"] for row in retried(frame.collect)} == {given[8:-1]}
    assert "BatchScan rowlock t[Delay#" in _plan(capsys, frames[-1])
    assert retried(frames[-1].count) == 20


def test_an_invalid_load_is_refused_as_by_the_format(spark: SparkSession, options: dict[str, Any]) -> None:
    with pytest.raises(Exception, match="names the column 'dellay', which does not exist"):
        retried(lambda: rowlock.spark.load(spark, "t", filter="dellay > 15", **options))
