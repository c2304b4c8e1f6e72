"""A group of figures: one set-up of servers and jobs, whose rounds give several figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.goals import Goal
from bench.measure import Measurement
from bench.spark.stage import Stage


@dataclass(frozen=True, slots=True)
class Group:
    """Figures that are measured together. `measure` returns one measurement a goal, by its name."""

    goals: Sequence[Goal]
    measure: Callable[[Stage], Mapping[str, Measurement]]
