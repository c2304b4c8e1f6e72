"""Runs the steps of the demo that need Spark, in order, and draws the picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from bench.demo.picture import draw
from bench.demo.spark_state import SparkState
from bench.demo.state import DemoState
from bench.demo.steps import spark_join, spark_load
from bench.demo.steps.spark_start import started

SPARK_STEPS: tuple[tuple[str, Callable[[SparkState], None]], ...] = (
    ("Write all flights with Spark", spark_load.spark_load),
    ("Join them with planes and weather while two writers correct delays", spark_join.spark_join),
)


def with_spark(state: DemoState, flights: pa.Table, flight_count: int | None, folder: Path, picture: Path) -> None:
    """Starts Spark, runs the steps, and draws. flights: those of the CSV files; folder: for Spark's files."""
    state.output.step("Start Spark")
    with started(state, flights, flight_count, folder) as spark_state:
        for title, step in SPARK_STEPS:
            state.output.step(title)
            step(spark_state)
        headline = state.output.headline(f"{len(flights):,} flights, a killed server")
        draw(picture, headline, state.rates, spark_state.before, spark_state.after)
    state.output.line(f"picture written to {picture}")
