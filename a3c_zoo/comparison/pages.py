"""The parts of a report's page, how figures look in its tables, and the page as HTML and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Final

import jinja2
from markupsafe import Markup

from a3c_zoo.comparison.drawing import Panel, to_inline_svg
from a3c_zoo.comparison.measures import UNITS
from a3c_zoo.comparison.results import COSTS, DURATIONS, SCORES, EnvironmentResults, PairResults
from a3c_zoo.comparison.statistics import OVER_ENVIRONMENTS, STATISTICS, TimeToThreshold
from a3c_zoo.errors import printable
from a3c_zoo.records import score
from a3c_zoo.version import __version__

#: Stands for a missing figure.
NONE: Final = "–"


@dataclass(frozen=True, slots=True)
class TextTable:
    """Texts in rows, below the titles of their columns.

    Attributes:
        marked: numbers of the rows to highlight.
        words: how many columns, from the first on, hold words instead of figures.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    marked: frozenset[int] = frozenset()
    words: int = 1


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A part of a page under a title: paragraphs, description → plot, tables, and lines of code."""

    title: str
    texts: Sequence[str] = ()
    figures: Mapping[str, Panel] = field(default_factory=dict)
    tables: Sequence[TextTable] = ()
    codes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ReportPage:
    """A report.

    Attributes:
        verdict: its first lines, one sentence each.
        curves: rows of panels, two for each environment: the picture beside the page.
    """

    title: str
    subtitle: str
    verdict: Sequence[str]
    sections: Sequence[ReportSection]
    curves: Sequence[Sequence[Panel]]


def seconds(value: float) -> str:
    """A time: seconds up to ten minutes, then minutes."""
    return f"{value:.3g} s" if value < 600 else f"{value / 60:.1f} min"


def number(value: float) -> str:
    """A figure with three significant digits; from 1,000 on a whole number."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def ranged(value: float, low: float, high: float, show: Callable[[float], str] = number) -> str:
    """A figure and its interval or range."""
    return f"{show(value)} ({show(low)} to {show(high)})"


def shown(value: float | None, show: Callable[[float], str]) -> str:
    """A figure, or the sign for a missing one."""
    return NONE if value is None else show(value)


def show_for(name: str) -> Callable[[float], str]:
    """How a field of `Measures` is written, by its unit."""
    times = dict.fromkeys(("s", "CPU s", "s of training"), seconds)
    return {"return": score, **times}.get(UNITS[name], number)


def scores(found: EnvironmentResults) -> TextTable:
    """The returns of the methods' evaluations: a column for each comparison statistic."""
    statistics = [name for name in STATISTICS if name not in OVER_ENVIRONMENTS]
    rows = [
        [name, text, *(ranged(*method.scores[key][statistic], show=score) for statistic in statistics)]
        for key, (text, _) in SCORES.items()
        for name, method in found.methods.items()
        if key in method.scores
    ]
    columns = ("method", "evaluation return", *(name.replace("_", " ") for name in statistics))
    return TextTable(columns, rows, "Evaluation returns over seeds, with 95 % intervals", words=2)


def times(found: EnvironmentResults) -> list[TextTable]:
    """The times to the threshold, if the environment has one."""
    if found.threshold is None:
        return []
    rows = []
    for name, method in found.methods.items():
        time, steps = method.times["seconds_to_threshold"], method.times["steps_to_threshold"]
        rows.append([name, f"{time.reached} of {time.runs}", _median(time, seconds), _median(steps, number)])
    caption = (
        f"To a mean return of {found.threshold:g} over 100 training episodes: medians with 95 % intervals. Runs "
        f"that never reached it count as censored at their end; {NONE} stands for an end that was not reached."
    )
    return [TextTable(("method", "reached by", "seconds of training", "agent steps"), rows, caption)]


def _median(time: TimeToThreshold, show: Callable[[float], str]) -> str:
    ends = time.median, time.low, time.high
    if ends == (None, None, None):
        return NONE
    median, low, high = (shown(each, show) for each in ends)
    return f"{median} ({low} to {high})"


def costs(found: EnvironmentResults) -> TextTable:
    """Speed, time and memory of a run."""
    rows = []
    for name, method in found.methods.items():
        spreads = [(method.costs.get(key), show_for(key)) for key in COSTS]
        texts = (NONE if each is None else ranged(*each, show) for each, show in spreads)
        rows.append([name, *texts])
    return TextTable(("method", *COSTS.values()), rows, "Speed and cost of a run: medians, and the range of all runs")


def chances(pairs: Sequence[PairResults]) -> list[TextTable]:
    """Probabilities of improvement, of each pair of methods."""
    rows = []
    for pair in pairs:
        names = f"{pair.method} over {pair.other}"
        for key, chance in pair.times.items():
            text = ranged(chance.value, chance.low, chance.high)
            rows.append([names, f"to the threshold {DURATIONS[key][1]}", text, f"{chance.unknown:.0%}"])
        rows += [[names, SCORES[key][1], ranged(*better), NONE] for key, better in pair.scores.items()]
    caption = "Probability of improvement: that a run of the first is better than a run of the second. A tie counts "
    caption += "half. So does a pair whose order is unknown because a run ended too early."
    columns = ("", "in what", "probability, 95 % interval", "not known")
    return [TextTable(columns, rows, caption, words=4)] if rows else []


def html(page: ReportPage) -> str:
    """The page as one file that needs no other. Every text from runs is escaped."""
    return _render("report.html.j2", page, autoescape=True)


def markdown(page: ReportPage) -> str:
    """The page as Markdown, with tables."""
    return re.sub(r"\n{3,}", "\n\n", _render("report.md.j2", page, autoescape=False)).strip() + "\n"


def _render(name: str, page: ReportPage, autoescape: bool) -> str:
    environment = jinja2.Environment(autoescape=autoescape, undefined=jinja2.StrictUndefined)
    environment.filters |= {"plain": plain, "svg": lambda panel: Markup(to_inline_svg(panel))}
    template = environment.from_string(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))
    return template.render(page=page, version=__version__)


def plain(text: Any) -> str:
    """A text on one line that Markdown shows as it is."""
    return re.sub(r"([\\`*_|<>\[\]#$&~])", r"\\\1", printable(" ".join(str(text).split())))
