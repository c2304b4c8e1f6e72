"""The state that the steps with Spark share, besides that of all steps."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from bench.demo.corrections import Rounds
from bench.demo.output import Output
from bench.demo.state import DemoState


@dataclass(slots=True)
class SparkState:
    """Spark reads `flights`, `planes` and `weather` from the CSV files at each use.

    `rounds` is the work of the writers; `before` and `after` are the mean delays by hour, for the picture.
    """

    state: DemoState
    spark: SparkSession
    flights: DataFrame
    planes: DataFrame
    weather: DataFrame
    rounds: list[Rounds]
    before: dict[int, float] = field(default_factory=dict)
    after: dict[int, float] = field(default_factory=dict)

    @property
    def output(self) -> Output:
        return self.state.output

    @property
    def address(self) -> str:
        return self.state.address

    @property
    def flight_count(self) -> int:
        return len(self.state.expected)
