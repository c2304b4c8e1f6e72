"""Curves of growth: points of one quantity, how steeply it grows from one to the next, and where it bends.

Between two neighbouring points a quantity grows like the size to the power of an exponent: 0 is constant, 1 is
proportional, and 0.1 means that ten times the size makes 1.26 times the quantity. A curve bends where the exponent
differs most from the one before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

# A smaller change of the exponent is within what a noisy machine makes of a straight line.
_BEND = 0.2


@dataclass(frozen=True, slots=True)
class Curve:
    """One quantity at several sizes, in ascending order of sizes. `per` says what the sizes count."""

    name: str
    unit: str
    per: str
    sizes: tuple[int, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.sizes) != len(self.values):
            raise ValueError(f"{len(self.sizes)} sizes with {len(self.values)} values")
        if any(later <= earlier for earlier, later in pairwise(self.sizes)):
            raise ValueError(f"sizes ascend, but not in {self.sizes}")

    @property
    def exponents(self) -> list[float]:
        """The exponent of each step from one size to the next."""
        points = pairwise(zip(self.sizes, self.values, strict=True))
        return [math.log(to / of) / math.log(larger / size) for (size, of), (larger, to) in points]


@dataclass(frozen=True, slots=True)
class Bend:
    """Where a curve bends: the size, and the exponents before and after it."""

    size: int
    before: float
    after: float


def bend_of(curve: Curve) -> Bend | None:
    """Returns where the curve bends most; None if it bends nowhere, or has fewer than three points."""
    bends = [
        Bend(size, before, after)
        for size, (before, after) in zip(curve.sizes[1:], pairwise(curve.exponents), strict=False)
    ]
    sharpest = max(bends, key=lambda bend: abs(bend.after - bend.before), default=None)
    if sharpest is None or abs(sharpest.after - sharpest.before) < _BEND:
        return None
    return sharpest


def sentence(curve: Curve) -> str:
    """Returns what the curve does, for a table: `× 0.91 from 10,000 to 1,000,000 rows; bends at 100,000`."""
    text = f"× {curve.values[-1] / curve.values[0]:.2g} from {curve.sizes[0]:,} to {curve.sizes[-1]:,} {curve.per}"
    bend = bend_of(curve)
    if bend is None:
        return f"{text}; no bend"
    return f"{text}; bends at {bend.size:,}: exponent {bend.before:.2f} before, {bend.after:.2f} after"


def markdown(curves: Sequence[Curve], others: Sequence[float]) -> str:
    """Returns curves of the same sizes as a Markdown table, a quantity a line.

    The last line has the cores that other programs used meanwhile, at each size.
    """
    sizes = curves[0].sizes
    if any(curve.sizes != sizes for curve in curves):
        raise ValueError("a table needs curves of the same sizes")
    lines = [f"| {curves[0].per} | {' | '.join(f'{size:,}' for size in sizes)} | growth |"]
    lines.append(f"| --- |{' ---: |' * len(sizes)} --- |")
    for curve in curves:
        values = [_number(value) for value in curve.values]
        lines.append(f"| {curve.name}, {curve.unit} | {' | '.join(values)} | {sentence(curve)} |")
    lines.append(f"| others' cores | {' | '.join(f'{cores:.2f}' for cores in others)} | |")
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
