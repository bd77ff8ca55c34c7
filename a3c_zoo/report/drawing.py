"""Draws panels: single runs thin, each group's middle thick with a band. Needs no display and leaves no state."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator, NullFormatter
from matplotlib.transforms import ScaledTranslation

from a3c_zoo.figures.curves import Line
from a3c_zoo.figures.statistics import MIN_SEEDS, Band, band, interquartile_mean
from a3c_zoo.store.tables import Floats

#: From Okabe and Ito 2008, "Color Universal Design": colour-blind readers can tell them apart. The first ones stand out
#: most from white and from black.
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
#: They tell groups apart in print without colours, and when colours repeat: 24 groups differ in one of the two.
DASHES: Final = ("-", "--", "-.", ":")
#: Width and height of a picture with one plot, in inches, if its legend has at most `PLOT_ROWS` rows.
PLOT_INCHES: Final = (7.0, 4.2)
PLOT_ROWS: Final = 3
#: Width and height of one of several panels, in inches, if its legend has at most `PANEL_ROWS` rows.
PANEL_INCHES: Final = (5.2, 3.6)
PANEL_ROWS: Final = 1
#: What each further row of a legend adds to the height, in inches.
ROW_INCHES: Final = 0.215
#: Height of an x axis's numbers and label. A panel's legend lies below them.
LABEL_INCHES: Final = 0.425
#: Points of a line in a picture. More are not visible, and make large files.
POINTS: Final = 300
#: The x axis is logarithmic if the ends of two groups differ by more than this factor.
LOG_RATIO: Final = 4
#: Characters in a row of a legend below a single plot. Each label takes 16 more than its text, for its line and its
#: number of runs.
LEGEND_CHARACTERS: Final = 84
#: Characters in a row of a legend below a panel.
PANEL_CHARACTERS: Final = 62
#: How a group's middle looks beyond the end of its shortest run: finer dashes than those that tell groups apart.
BEYOND: Final[Mapping[str, Any]] = MappingProxyType(
    {"linestyle": (0, (1.6, 1.6)), "linewidth": 1.4, "zorder": 3}
)
#: Pixels of an inch in a notebook, and in a file.
NOTEBOOK_DPI: Final = 100
FILE_DPI: Final = 160
#: Fonts of files. SVG: text stays text. PDF: TrueType, because many journals take no Type 3 fonts.
FONTS: Final[Mapping[Any, Any]] = MappingProxyType({"svg.fonttype": "none", "pdf.fonttype": 42})
#: The width of the line of a single run among several.
THIN: Final = 0.7
#: Text and axes in a picture of its own. A picture in a page takes the page's colour instead.
_INK: Final = "#1b1c1d"


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """The runs of one colour, and their middle with a band at `points` `[P]`; both are None if there is no band.

    Attributes:
        beyond: the middle of the longer runs, behind the end of the shortest; None if it is not drawn.
    """

    runs: Sequence[Line]
    points: Floats | None = None
    band: Band | None = None
    beyond: Line | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """One plot.

    Attributes:
        groups: label → group.
        threshold: the level of a horizontal line; None for no line.
        has_points: whether each value is a measurement of its own, shown as a point.
        is_log: whether the x axis is logarithmic. begins_at_zero: whether a linear one begins at 0.
        is_step: whether values hold up to the next point, as those of a share of runs do.
        has_lines: whether lines join the values of a run. If not, x counts things: its numbers are whole.
        bars: label → length; a panel with bars has no groups.
    """

    title: str
    x_label: str
    y_label: str
    groups: Mapping[str, Group]
    threshold: float | None = None
    has_points: bool = False
    is_log: bool = False
    begins_at_zero: bool = True
    is_step: bool = False
    has_lines: bool = True
    bars: Mapping[str, float] = field(default_factory=dict)


def interval(values: Floats) -> Band:
    """The interquartile mean of runs `[R, P]` with its 95 % interval."""
    return band(values[:, None, :])


def spread(values: Floats) -> Band:
    """The mean of runs `[R, P]`, the least and the greatest: a band that claims nothing."""
    return Band(values.mean(axis=0), values.min(axis=0), values.max(axis=0))


def group_of(lines: Sequence[Line], is_log: bool = False, goes_on: bool = False) -> Group:
    """A group of runs, with a band if there are several with a common part of the axis. Empty lines are left out.

    The band is an `interval` with five lines, and with fewer a `spread`.

    Args:
        goes_on: whether the group has its middle `beyond` the end of its shortest line, too.
    """
    lines = [line for line in lines if len(line.x)]
    if len(lines) < 2:
        return Group(lines)
    points, values = on_grid(lines, is_log)
    if len(points):
        beyond = beyond_end(lines) if goes_on else None
        return Group(lines, points, _summary(values), beyond)
    return Group(lines)


def _summary(values: Floats) -> Band:
    """The middle of runs `[R, P]` with its band."""
    summary = spread if len(values) < MIN_SEEDS else interval
    return summary(values)


def _middle(values: Floats) -> Floats:
    """The middle of runs `[R, P]` alone: that of `_summary`."""
    if len(values) < MIN_SEEDS:
        return np.asarray(values.mean(axis=0))
    return interquartile_mean(values.T[:, :, None])


def beyond_end(lines: Sequence[Line]) -> Line | None:
    """The middle of the lines that go on when the shortest one has ended; None if all end together.

    Where one more has ended, the middle is that of the rest. It may jump there, so a NaN parts the pieces.
    """
    ends = sorted({line.x[-1] for line in lines})
    pieces = []
    for start, end in pairwise(ends):
        points = np.linspace(start, end, max(2, math.ceil(POINTS * (end - start) / ends[-1])))
        longer = [line for line in lines if line.x[-1] >= end]
        values = np.array([np.interp(points, line.x, line.y) for line in longer])
        pieces.append(Line(np.append(points, end), np.append(_middle(values), np.nan)))
    if not pieces:
        return None
    return Line(np.concatenate([each.x for each in pieces]), np.concatenate([each.y for each in pieces]))


def thick(sizes: Collection[int], of_many: str, of_few: str) -> str:
    """Says what the thick lines of a picture are.

    Args:
        sizes: the number of curves in each group.
        of_many: what the line of a group with at least `MIN_SEEDS` curves is. of_few: what that of a smaller group is.
    """
    if not sizes or max(sizes) < MIN_SEEDS:
        return of_few
    if min(sizes) >= MIN_SEEDS:
        return of_many
    return f"{of_many} (below {MIN_SEEDS} runs: {of_few})"


def on_grid(lines: Sequence[Line], is_log: bool = False) -> tuple[Floats, Floats]:
    """Runs at common points `[P]` and `[R, P]`, linear in between; no point if the runs have no common part."""
    start, end = max(line.x[0] for line in lines), min(line.x[-1] for line in lines)
    if start > end:
        return np.empty(0), np.empty((len(lines), 0))
    if is_log and start > 0:
        points = np.geomspace(start, end, POINTS)
    else:
        points = np.linspace(start, end, POINTS)
    return points, np.array([np.interp(points, line.x, line.y) for line in lines])


def ends_differ(groups: Mapping[str, Sequence[Line]]) -> bool:
    """Whether the ends of groups differ so much that an axis should be logarithmic."""
    by_group = ([line.x[-1] for line in lines if len(line.x)] for lines in groups.values())
    ends = [max(group_ends) for group_ends in by_group if group_ends]
    return len(ends) > 1 and max(ends) > LOG_RATIO * min(ends) > 0


def thinned(line: Line, points: int = POINTS) -> Line:
    """At most `points` points of a line. The first and the last are among them."""
    last = len(line.x) - 1
    kept = np.unique(np.linspace(0, last, min(last + 1, points)).round().astype(np.int64))
    return Line(line.x[kept], line.y[kept])


class PlotFigure(Figure):
    """A figure of matplotlib that a notebook shows, also without pyplot. A PDF of it has the fonts of journals."""

    def savefig(self, fname: Any, *, transparent: bool | None = None, **kwargs: Any) -> None:
        """As matplotlib's; the user's settings count, except those of fonts."""
        with matplotlib.rc_context(dict(FONTS)):
            super().savefig(fname, transparent=transparent, **kwargs)

    def _repr_png_(self) -> bytes:
        """The picture, for notebooks."""
        return to_bytes(self, ".png", dpi=NOTEBOOK_DPI)


def draw_plot(panel: Panel, note: str = "") -> PlotFigure:
    """Draws one panel with a legend above it, and small print below, if there is any."""
    with style():
        width, height = PLOT_INCHES
        columns, more = _legend(panel, LEGEND_CHARACTERS, PLOT_ROWS)
        figure = PlotFigure(figsize=(width, height + more), layout="constrained")
        axes = figure.subplots()
        draw_panel(axes, panel)
        axes.set_title(panel.title, loc="left", fontweight="bold")
        figure.legend(loc="outside upper right", ncols=columns)
        if note:
            figure.supxlabel(note, fontsize="small", x=0.01, ha="left")
        figure.draw_without_rendering()  # ticks take their look when they are first drawn
    return figure


def draw_grid(panels: Sequence[Sequence[Panel]]) -> Figure:
    """Draws a row of panels for each inner sequence, each panel with a legend below, where no curve is."""
    rows, columns = len(panels), max(map(len, panels))
    width, height = PANEL_INCHES
    height += max(_legend(panel, PANEL_CHARACTERS, PANEL_ROWS)[1] for row in panels for panel in row)
    with style():
        figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False)
        for row, row_axes in zip(panels, grid, strict=True):
            for panel, axes in zip(row, row_axes, strict=True):
                draw_panel(axes, panel)
                axes.set_title(panel.title, loc="left")
                if panel.groups:
                    # So far below the axes in inches, however high they are: the layout is made in passes.
                    below = axes.transAxes + ScaledTranslation(0, -LABEL_INCHES, figure.dpi_scale_trans)
                    place = {"loc": "upper left", "bbox_to_anchor": (-0.02, 0), "bbox_transform": below}
                    axes.legend(
                        **place, borderaxespad=0.0, ncols=_legend(panel, PANEL_CHARACTERS, PANEL_ROWS)[0]
                    )
        _lay_out_once(figure)
    return figure


def _lay_out_once(figure: Figure) -> None:
    """Places all parts now. With an engine, each file that is written would place them anew, and draw all twice."""
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.execute(figure)
    figure.set_layout_engine(None)  # "none" would keep the place of one


def _legend(panel: Panel, characters: int, usual: int) -> tuple[int, float]:
    """Labels side by side in a legend, and the inches that its rows take beyond the `usual` number of rows."""
    longest = max(map(len, panel.groups), default=0)
    columns = max(1, min(characters // (longest + 16), len(panel.groups)))
    return columns, ROW_INCHES * max(0, math.ceil(len(panel.groups) / columns) - usual)


def draw_panel(axes: Axes, panel: Panel) -> None:
    """Draws a panel's groups or bars, its threshold and its axes."""
    if panel.bars:
        axes.barh(
            list(panel.bars)[::-1], list(panel.bars.values())[::-1], color=COLOURS[0], height=0.6, zorder=2
        )
        axes.grid(visible=False, axis="y")
        axes.set_xlabel(panel.x_label)
        return
    for number, (label, group) in enumerate(panel.groups.items()):
        _draw_group(axes, panel, label, group, number)
    if panel.threshold is not None:
        axes.axhline(panel.threshold, color="#808080", linewidth=1, linestyle=(0, (1, 2)), zorder=1)
        axes.annotate(
            f"threshold {panel.threshold:g}",
            (0, panel.threshold),  # on the left: curves begin low
            (3, 2),
            axes.get_yaxis_transform(),
            textcoords="offset points",
            fontsize="small",
            color="#767676",
        )
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.margins(x=0.01 if panel.has_lines else 0.05)
    axes.xaxis.set_major_formatter(FuncFormatter(_short))
    if not panel.has_lines:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    elif panel.is_log:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    elif panel.begins_at_zero:
        axes.set_xlim(left=0)


def _short(value: float, position: int | None = None) -> str:
    """A number on an axis: 250000 as 250k, but 0.5 as it is, not as 500m."""
    if abs(value) >= 1:
        return EngFormatter(sep="")(value)
    return f"{value:g}"


def _draw_group(axes: Axes, panel: Panel, label: str, group: Group, number: int) -> None:
    """Draws a group of a panel. number: its place, which decides colour and dashes."""
    colour = COLOURS[number % len(COLOURS)]
    cycle = number // math.lcm(len(COLOURS), len(DASHES))
    dashes = DASHES[(number + cycle) % len(DASHES)] if panel.has_lines else ""  # each cycle has other pairs
    runs = group.runs
    if panel.has_lines:
        runs = list(map(thinned, runs))
    # matplotlib leaves out labels that begin with `_`.
    label = f" {label}" if label.startswith("_") else label
    points: dict[str, Any] = {"marker": "o" if panel.has_points else "", "markersize": 2.5}
    thick: dict[str, Any] = {
        "color": colour,
        "linestyle": dashes,
        "linewidth": 2.0,
        "label": label,
        "zorder": 4,
    }
    if len(runs) > 1:
        thick["label"] = f"{label} ({len(runs)} runs)"
        for run in runs:
            axes.plot(run.x, run.y, color=colour, linewidth=THIN, alpha=0.35, **points)
    if group.points is not None and group.band is not None:
        step: Any = "post" if panel.is_step else None
        axes.fill_between(
            group.points, group.band.low, group.band.high, color=colour, alpha=0.18, linewidth=0, step=step
        )
        axes.plot(
            group.points, group.band.value, drawstyle="steps-post" if panel.is_step else "default", **thick
        )
        if group.beyond is not None:
            axes.plot(group.beyond.x, group.beyond.y, color=colour, **BEYOND)
    elif len(runs) == 1:
        axes.plot(runs[0].x, runs[0].y, **points, **thick)
    else:  # several runs without a common part, or none: the legend shows a thin line
        axes.plot([], [], **thick | {"linestyle": "-", "linewidth": THIN})


@contextmanager
def style() -> Iterator[None]:
    """Sets the look of every picture, while it is drawn and while it is written."""
    # No matplotlibrc of the user. The setting `backend` stays untouched: reading it would choose a backend.
    settings: dict[Any, Any] = {
        key: value for key, value in matplotlib.rcParamsDefault.items() if key != "backend"
    }
    settings |= {f"{part}.color": _INK for part in ("text", "xtick", "ytick")}
    settings |= {"axes.edgecolor": _INK, "axes.labelcolor": _INK, "axes.titlecolor": _INK}
    settings |= {"axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False}
    settings |= {"axes.grid": True, "grid.color": "#808080", "grid.alpha": 0.25, "grid.linewidth": 0.6}
    settings |= {"text.parse_math": False}  # a `$` in a name is a dollar
    settings |= {"font.size": 10, "svg.hashsalt": "a3c-zoo", **FONTS}
    with matplotlib.rc_context(settings):
        yield


def to_bytes(figure: Figure, suffix: str, dpi: int = FILE_DPI) -> bytes:
    """The picture as the contents of a file, ".png", ".svg" or ".pdf", on white."""
    return _written(figure, suffix.removeprefix("."), dpi=dpi, facecolor="white")


def to_inline_svg(panel: Panel) -> str:
    """The panel as an `<svg>` element for a page: as wide as its place, transparent, in the colour of the text."""
    text = _written(draw_grid([[panel]]), "svg", transparent=True).decode().replace(_INK, "currentColor")
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    return re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', 'role="img"', text[text.index("<svg") :], count=1)


def _written(figure: Figure, format: str, **options: Any) -> bytes:
    written = io.BytesIO()
    with style():
        # The same figure gives the same file.
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(format)
        figure.savefig(written, format=format, metadata=metadata, **options)
    return written.getvalue()
