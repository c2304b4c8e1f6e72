"""The figures from Spark are measured against real servers; how good they are is for `make spark-bench` to say."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.spark.figures import groups
from bench.spark.stage import Stage
from tests.drawn_cases import drawn
from tests.spark.session import retried

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS = 2_000


def test_each_group_measures_its_figures(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage(tmp_path, spark, _ROWS, _ROWS, rounds=1, warm_up_rounds=0)
    allowed = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(allowed) or "false"
    try:
        # The other ones are the jobs of `typed-one`, on another layout.
        of_other_jobs = [group for group in groups(None) if not group.goals[0].name.startswith("typed-three-")]
        for group in drawn(of_other_jobs, 1, "groups"):
            measured = retried(partial(group.measure, stage))
            assert set(measured) == {goal.name for goal in group.goals}
            assert all(measurement.value.high >= measurement.value.low >= 0 for measurement in measured.values())
    finally:
        spark.conf.set(allowed, before)
