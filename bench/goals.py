"""What a figure should be: a sentence, and a number on the right side of its target."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from bench.measure import Measurement


class Aim(enum.Enum):
    """On which side of its target a figure should be."""

    AT_LEAST = "≥"
    AT_MOST = "≤"


@dataclass(frozen=True, slots=True)
class Goal:
    """One number that is to be measured. `unit` is empty for a ratio."""

    name: str
    sentence: str
    aim: Aim
    target: float
    unit: str

    def holds(self, measured: Measurement) -> bool:
        """The median is on the right side of the target."""
        median = measured.value.median
        return median >= self.target if self.aim is Aim.AT_LEAST else median <= self.target
