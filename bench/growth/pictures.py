"""Draws curves of growth as SVG pictures, with both axes logarithmic."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from bench.growth.curves import Curve

_SIZE_INCHES = (8, 4.5)


def draw(curves: Sequence[Curve], title: str, path: Path) -> None:
    """Draws curves of one unit, named at their last points' side, into a file."""
    figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
    axes = figure.subplots()
    for curve in curves:
        axes.plot(curve.sizes, curve.values, marker="o", label=curve.name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(curves[0].per)
    axes.set_ylabel(curves[0].unit)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.set_title(title)
    axes.legend(fontsize="small")
    # No date and no random ids: the same curves make the same file.
    figure.savefig(path, metadata={"Date": None})
