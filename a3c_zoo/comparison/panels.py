"""The plots of a report: each run a thin line, each method a thick one with a band.

In an HTML page every panel is a picture of its own, so that a phone shows one below the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import EngFormatter, FuncFormatter, NullFormatter

from a3c_zoo.comparison.figures import COLOURS, Line, style, to_bytes, to_inline_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

PANEL_INCHES = (5.2, 3.6)
GRID = 200
#: Ends so many times apart are shown on a logarithmic axis.
LOG_RATIO = 4


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot.

    Attributes:
        lines: method → its runs. threshold: a horizontal line, None for none.
        has_points: whether each value is a measurement of its own, to be seen as a point.
        has_log_x: the x axis is logarithmic where methods end at very different places.
        bands: method → x, lower and upper edge, for a method whose only line is not a run.
    """

    title: str
    x_label: str
    y_label: str
    lines: Mapping[str, Sequence[Line]]
    threshold: float | None = None
    has_points: bool = False
    has_log_x: bool = False
    bands: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]] = field(
        default_factory=dict
    )


#: Values of R runs at G places, `[R, G]` → a middle, and the band's lower and upper edge, each `[G]`.
Band = Callable[["NDArray[np.float64]"], "tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]"]


def middle_and_range(values: NDArray[np.float64]) -> tuple[Any, Any, Any]:
    """Mean, least and greatest of the runs: a band that claims nothing."""
    return values.mean(axis=0), values.min(axis=0), values.max(axis=0)


def on_grid(lines: Sequence[Line], is_log: bool = False) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Runs at common places, `[G]` and `[R, G]`, where all of them have values; linear in between."""
    lines = [line for line in lines if len(line.x)]
    if not lines:
        return np.zeros(0), np.zeros((0, 0))
    first, last = max(line.x[0] for line in lines), min(line.x[-1] for line in lines)
    if last <= first:
        return np.zeros(0), np.zeros((len(lines), 0))
    grid = np.geomspace(first, last, GRID) if is_log and first > 0 else np.linspace(first, last, GRID)
    return grid, np.array([np.interp(grid, line.x, line.y) for line in lines])


def svg_of(panel: Panel, band: Band = middle_and_range) -> Markup:
    """A panel as an `<svg>` element, to be put into a page."""
    with style():
        canvas = Canvas(figsize=PANEL_INCHES, layout="constrained")
        draw(canvas.subplots(), panel, band)
    return Markup(to_inline_svg(canvas))


def write_curves(panels: Sequence[Sequence[Panel]], folder: Path, band: Band = middle_and_range) -> None:
    """Writes `curves.png` and `curves.svg`: a row of panels for each inner sequence."""
    rows, columns = len(panels), max(map(len, panels))
    with style():
        canvas = Canvas(figsize=(PANEL_INCHES[0] * columns, PANEL_INCHES[1] * rows), layout="constrained")
        axes = canvas.subplots(rows, columns, squeeze=False)
        for row, row_axes in zip(panels, axes, strict=True):
            for panel, panel_axes in zip(row, row_axes, strict=True):
                draw(panel_axes, panel, band)
    for suffix in (".png", ".svg"):
        (folder / f"curves{suffix}").write_bytes(to_bytes(canvas, suffix))


def draw(axes: Axes, panel: Panel, band: Band) -> None:
    """Draws a panel."""
    is_log = panel.has_log_x and _differ_much(panel)
    for number, (method, lines) in enumerate(panel.lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        marker = "o" if panel.has_points else None
        width, alpha = (2.2, 1.0) if method in panel.bands else (0.8, 0.4)
        for line in lines:
            axes.plot(line.x, line.y, color=colour, marker=marker, markersize=2.5, linewidth=width, alpha=alpha)
        grid, values = on_grid(lines, is_log)
        if len(values) > 1 and len(grid):
            middle, low, high = band(values)
            axes.fill_between(grid, low, high, color=colour, alpha=0.18, linewidth=0)
            axes.plot(grid, middle, color=colour, linewidth=2.2)
        if method in panel.bands:
            axes.fill_between(*panel.bands[method], color=colour, alpha=0.18, linewidth=0)
        axes.plot([], [], color=colour, linewidth=2.2, label=method)
    if panel.threshold is not None:
        axes.axhline(panel.threshold, color="#808080", linewidth=1, linestyle=(0, (4, 3)))
    axes.set_title(panel.title, loc="left")
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    if is_log:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    elif not panel.bands:
        axes.set_xlim(left=0)
    axes.legend(loc="best")


def _differ_much(panel: Panel) -> bool:
    ends = [max(line.x[-1] for line in lines if len(line.x)) for lines in panel.lines.values() if any(map(_any, lines))]
    return len(ends) > 1 and max(ends) > LOG_RATIO * min(ends) > 0


def _any(line: Line) -> bool:
    return len(line.x) > 0
