"""The steps of the demo that need Spark, in order, and the chart at the end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from bench.demo.picture import draw
from bench.demo.spark_stage import SparkStage
from bench.demo.stage import Stage
from bench.demo.steps import spark_join, spark_load
from bench.demo.steps.spark_start import started

SPARK_STEPS: tuple[tuple[str, Callable[[SparkStage], None]], ...] = (
    ("Write all flights with Spark", spark_load.spark_load),
    ("Join them with planes and weather, while two writers correct delays", spark_join.spark_join),
)


def with_spark(stage: Stage, flights: pa.Table, flight_count: int | None, folder: Path, picture: Path) -> None:
    """Starts Spark, runs the steps, and draws the chart.

    `flights` are those of the CSV files; `folder` is for Spark's files.
    """
    stage.account.step("Start Spark")
    with started(stage, flights, flight_count, folder) as spark_stage:
        for title, step in SPARK_STEPS:
            stage.account.step(title)
            step(spark_stage)
        draw(picture, stage.rates, spark_stage.before, spark_stage.after)
    stage.account.say(f"chart written to {picture}")
