"""A figure: one sentence, one number and the function that measures it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.bench import Bench
from bench.goals import Aim, Goal
from bench.measure import Measurement

Measure = Callable[[Bench], Measurement]


@dataclass(frozen=True, slots=True)
class Figure(Goal):
    """One number and how it is measured."""

    measure: Measure


def at_least(name: str, target: float, sentence: str, measure: Measure) -> Figure:
    """Returns the figure of a ratio that should reach its target."""
    return Figure(name, sentence, Aim.AT_LEAST, target, "", measure)


def at_most(name: str, target: float, unit: str, sentence: str, measure: Measure) -> Figure:
    """Returns the figure of a quantity that should not exceed its target."""
    return Figure(name, sentence, Aim.AT_MOST, target, unit, measure)
