"""The demo's picture: what it proves, how quickly flights are loaded and read, and delays before and after."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

_INCHES = (9.0, 3.8)
_DOTS_PER_INCH = 110
_LOAD, _READ, _BEFORE, _AFTER = "#4878a8", "#7fb0d8", "#b0b0b0", "#c05030"


def draw(
    path: Path, headline: str, rates: Mapping[str, float], before: Mapping[int, float], after: Mapping[int, float]
) -> None:
    """Writes a PNG.

    headline: what the demo has proved. rates: flights a second. before and after: mean delay in minutes by hour of day.
    """
    # Without pyplot, which would need a display and change global state.
    figure = Figure(figsize=_INCHES, dpi=_DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(headline, fontsize=12, fontweight="bold")
    speeds, delays = figure.subplots(1, 2, width_ratios=(1.15, 1))
    bars = speeds.barh(
        list(rates),
        [rate / 1000 for rate in rates.values()],
        color=[_READ if "reads" in name else _LOAD for name in rates],
    )
    speeds.bar_label(bars, fmt="%.3g", padding=3)
    speeds.margins(x=0.15)
    speeds.invert_yaxis()
    speeds.set_title("thousand flights a second, up to 19 values each", fontsize=10)
    delays.plot(list(before), list(before.values()), color=_BEFORE, label="before")
    delays.plot(list(after), list(after.values()), color=_AFTER, label="after corrections")
    delays.set_title("mean delay at arrival, in minutes", fontsize=10)
    delays.set_xlabel("planned hour of departure")
    delays.legend(frameon=False)
    for axes in (speeds, delays):
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", metadata={"Software": None})
