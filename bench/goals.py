"""The target of a figure: a sentence, and a number that the median must reach or must not exceed."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from bench.measure import Measurement


class Aim(enum.Enum):
    """The side of its target on which a figure should be."""

    AT_LEAST = "≥"
    AT_MOST = "≤"


@dataclass(frozen=True, slots=True)
class Goal:
    """One number to measure, and its target. `unit` is empty for a ratio."""

    name: str
    sentence: str
    aim: Aim
    target: float
    unit: str

    def holds(self, measured: Measurement) -> bool:
        """Returns whether the median is on the right side of the target."""
        median = measured.value.median
        return median >= self.target if self.aim is Aim.AT_LEAST else median <= self.target
