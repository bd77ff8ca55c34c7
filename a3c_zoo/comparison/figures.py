"""Draws curves: groups of runs with a band each, and every single run. Needs no display, and leaves no state."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from a3c_zoo.comparison.curves import Floats, at
from a3c_zoo.comparison.statistics import Band, band

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Of Okabe and Ito 2008, "Color Universal Design": told apart by the colour-blind; in an order that begins with those
#: that stand out from white and from black.
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
#: With the colours' second round and for print without colours.
DASHES: Final = ("-", "--", "-.", ":")
SIZE_INCHES: Final = (7.0, 4.2)
#: More points of a line are not seen, and make large files.
POINTS: Final = 300
#: So many stand side by side in a legend: 16 for a sample of the line and the number of runs, and the label.
LEGEND_CHARACTERS: Final = 84
#: Text and axes while a figure is drawn; replaced in a picture that stands in a page.
_INK: Final = "#1b1c1d"


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One run: `[K]` each, x rising."""

    x: Floats
    y: Floats


def group_band(lines: Sequence[Line]) -> tuple[Floats, Band]:
    """Where all lines of a group have values, at points `[P]`: their interquartile mean with its interval.

    Raises:
        ValueError: they have no part of the axis in common.
    """
    start, end = max(line.x[0] for line in lines), min(line.x[-1] for line in lines)
    if start > end:
        raise ValueError("no common part")
    points = np.linspace(start, end, POINTS)
    curves = np.stack([at(line.x, line.y, points) for line in lines])
    return points, band(curves[:, None, :])


def draw(
    groups: Mapping[str, Sequence[Line]],
    *,
    x_label: str,
    y_label: str,
    title: str = "",
    note: str = "",
    threshold: float | None = None,
) -> Figure:
    """Draws each group in a colour of its own: single runs thin; over several, their interquartile mean and its band.

    Args:
        groups: label → its runs. note: a line of small print below. threshold: a level to be reached.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    with style():
        figure = Figure(figsize=SIZE_INCHES, layout="constrained")
        axes = figure.subplots()
        for number, (label, lines) in enumerate(groups.items()):
            _draw_group(axes, label, lines, COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)])
        if threshold is not None:
            axes.axhline(threshold, color="#808080", linewidth=1, linestyle=(0, (1, 2)), zorder=1)
            axes.annotate(
                f"threshold {threshold:g}",
                (0, threshold),  # on the left: curves begin low
                (3, 2),
                axes.get_yaxis_transform(),
                textcoords="offset points",
                fontsize="small",
                color="#767676",
            )
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.margins(x=0.01)
        if title:
            axes.set_title(title, loc="left", fontweight="bold")
        columns = LEGEND_CHARACTERS // max(len(label) + 16 for label in groups)
        figure.legend(loc="outside upper right", ncols=min(max(1, columns), len(groups)))
        if note:
            figure.supxlabel(note, fontsize="small", x=0.01, ha="left")
    return figure


@contextmanager
def style() -> Iterator[None]:
    """How every picture looks, while it is drawn and while it is written."""
    import matplotlib

    # Nobody's matplotlibrc. What is not about looks stays: looking at the backend's setting would choose one.
    settings: dict[Any, Any] = {key: value for key, value in matplotlib.rcParamsDefault.items() if key != "backend"}
    settings |= {f"{part}.color": _INK for part in ("text", "xtick", "ytick")}
    settings |= {"axes.edgecolor": _INK, "axes.labelcolor": _INK, "axes.titlecolor": _INK}
    settings |= {"axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False}
    settings |= {"axes.grid": True, "grid.color": "#808080", "grid.alpha": 0.25, "grid.linewidth": 0.6}
    settings |= {"font.size": 10, "svg.fonttype": "none", "svg.hashsalt": "a3c-zoo"}
    with matplotlib.rc_context(settings):
        yield


def _draw_group(axes: Axes, label: str, lines: Sequence[Line], colour: str, dashes: str) -> None:
    if len(lines) == 1:
        axes.plot(*_thinned(lines[0]), color=colour, linestyle=dashes, linewidth=1.8, label=label, zorder=3)
        return
    for line in lines:
        axes.plot(*_thinned(line), color=colour, linewidth=0.7, alpha=0.35, zorder=2)
    label = f"{label} ({len(lines)} runs)"
    try:
        points, estimate = group_band(lines)
    except ValueError:
        axes.plot([], [], color=colour, linewidth=0.7, label=label)
        return
    axes.fill_between(points, estimate.low, estimate.high, color=colour, alpha=0.18, linewidth=0, zorder=2)
    axes.plot(points, estimate.value, color=colour, linestyle=dashes, linewidth=2, label=label, zorder=4)


def _thinned(line: Line) -> tuple[Floats, Floats]:
    if len(line.x) <= POINTS:
        return line.x, line.y
    kept = np.linspace(0, len(line.x) - 1, POINTS).round().astype(np.int64)
    return line.x[kept], line.y[kept]


def to_bytes(figure: Figure, suffix: str) -> bytes:
    """The picture as the contents of a file, ".png" or ".svg", on white: readable wherever it is shown."""
    written = io.BytesIO()
    with style():
        metadata = {"Date": None} if suffix == ".svg" else None  # the same figure, the same file
        figure.savefig(written, format=suffix.removeprefix("."), dpi=160, facecolor="white", metadata=metadata)
    return written.getvalue()


def to_inline_svg(figure: Figure) -> str:
    """The picture as an `<svg>` element for a page.

    It is as wide as there is room, and has no background; text and axes have the colour of the page's text.
    """
    written = io.BytesIO()
    with style():
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    text = written.getvalue().decode().replace(_INK, "currentColor")
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    return re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', 'role="img"', text[text.index("<svg") :], count=1)
