"""Draws curves of growth as SVG pictures, with both axes logarithmic."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from bench.growth.curves import Curve

_SIZE_INCHES = (9.5, 4.5)


def draw(curves: Sequence[Curve], title: str, path: Path) -> None:
    """Draws curves of the same sizes into an SVG file; the same curves make the same bytes."""
    # Without pyplot, which would need a display and change global state. The salt makes ids that are not random.
    with rc_context({"svg.hashsalt": "rowlock"}):
        figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
        axes = figure.subplots()
        for curve in curves:
            axes.plot(curve.sizes, curve.values, marker="o", label=curve.name)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(curves[0].per)
        axes.set_ylabel(", ".join(sorted({curve.unit for curve in curves})))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axes.grid(visible=True, which="major", alpha=0.3)
        axes.set_title(title)
        figure.legend(loc="outside right upper", fontsize="small")
        figure.savefig(path, format="svg", metadata={"Date": None})
