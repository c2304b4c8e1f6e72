"""The shared state of the steps with Spark, in addition to that of all steps."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from bench.demo.account import Account
from bench.demo.corrections import Rounds
from bench.demo.stage import Stage


@dataclass(slots=True)
class SparkStage:
    """`flights`, `planes` and `weather` are read from the CSV files at each use.

    `rounds` is the work of the writers; `before` and `after` are the mean delay by hour, for the chart.
    """

    stage: Stage
    spark: SparkSession
    flights: DataFrame
    planes: DataFrame
    weather: DataFrame
    rounds: list[Rounds]
    before: dict[int, float] = field(default_factory=dict)
    after: dict[int, float] = field(default_factory=dict)

    @property
    def account(self) -> Account:
        return self.stage.account

    @property
    def address(self) -> str:
        return self.stage.address

    @property
    def flight_count(self) -> int:
        return len(self.stage.expected)
