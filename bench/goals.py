"""The target of a figure: a sentence, and a number that the median must reach or must not exceed."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from bench.measure import Measurement


class Aim(enum.Enum):
    """The side of its target on which a figure should be."""

    AT_LEAST = "≥"
    AT_MOST = "≤"


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another target, of one of a figure's details: the figure also holds if that detail's median reaches it."""

    detail: str
    target: float


@dataclass(frozen=True, slots=True)
class Goal:
    """One number to measure, and its target. `unit` is empty for a ratio."""

    name: str
    sentence: str
    aim: Aim
    target: float
    unit: str
    alternative: Alternative | None = field(default=None, kw_only=True)

    def holds(self, measured: Measurement) -> bool:
        """Returns whether the median is on the right side of the target, or the detail of the alternative is."""
        if self._reaches(measured.value.median, self.target):
            return True
        if self.alternative is None:
            return False
        return self._reaches(measured.details[self.alternative.detail].median, self.alternative.target)

    def _reaches(self, median: float, target: float) -> bool:
        return median >= target if self.aim is Aim.AT_LEAST else median <= target
