"""The parts of a report's page, how figures look in its tables, and the page as HTML and as Markdown."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from a3c_zoo.errors import printable
from a3c_zoo.figures.claims import Claim, percent
from a3c_zoo.figures.durations import TimeToThreshold
from a3c_zoo.figures.figure_table import COSTS, FIGURES, SCORES
from a3c_zoo.figures.improvement import EarlierChance
from a3c_zoo.figures.results import EnvironmentResults, PairResults
from a3c_zoo.figures.statistics import OVER_ENVIRONMENTS, STATISTICS
from a3c_zoo.report.drawing import Panel, to_inline_svg
from a3c_zoo.report.report_films import Film
from a3c_zoo.version import __version__
from a3c_zoo.words import return_text

#: Stands for a missing figure.
NONE: Final = "–"


@dataclass(frozen=True, slots=True)
class TextTable:
    """Texts in rows, below the titles of their columns.

    Attributes:
        marked: numbers of the rows to highlight.
        words: how many columns, from the first on, hold words instead of figures.
        paths: text in the first column → folder, to which the page in HTML has a link.
        folded: the line that stands for the table until a reader opens it; "" for a table that is open.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    marked: frozenset[int] = frozenset()
    words: int = 1
    paths: Mapping[str, Path] = field(default_factory=dict)
    folded: str = ""


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A part of a page under a title: paragraphs, description → plot, films, tables, and lines of code.

    Attributes:
        picture: the name of a PNG file beside the page with all plots of this part, for the page in Markdown; "" for
            none.
        is_folded: whether a reader has to open it.
    """

    title: str
    texts: Sequence[str] = ()
    figures: Mapping[str, Panel] = field(default_factory=dict)
    tables: Sequence[TextTable] = ()
    codes: Sequence[str] = ()
    films: Sequence[Film] = ()
    picture: str = ""
    is_folded: bool = False


@dataclass(frozen=True, slots=True)
class ReportPage:
    """A report.

    Attributes:
        verdict: its first lines, one sentence each.
        curves: rows of panels, one or two for each environment: the picture beside the page.
    """

    title: str
    subtitle: str
    verdict: Sequence[str]
    sections: Sequence[ReportSection]
    curves: Sequence[Sequence[Panel]]


def seconds(value: float) -> str:
    """A time: seconds up to ten minutes, then minutes."""
    if abs(value) < 600:
        return f"{value:.3g} s"
    return f"{value / 60:.1f} min"


def number(value: float) -> str:
    """A figure with three significant digits; a whole number from 1,000 on, up to a thousand million."""
    if 999.5 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def ranged(value: float, low: float | None, high: float | None, show: Callable[[float], str] = number) -> str:
    """A figure and its interval or range; the sign for a missing figure in place of one that is not known."""
    if low is None or high is None:
        return f"{show(value)} ({NONE})"
    return f"{show(value)} ({show(low)} to {show(high)})"


def shown(value: float | None, show: Callable[[float], str]) -> str:
    """A figure, or the sign for a missing one."""
    return NONE if value is None else show(value)


def show_for(name: str) -> Callable[[float], str]:
    """How a field of `Measures` is written, by its unit."""
    times = dict.fromkeys(("s", "CPU s", "s of training"), seconds)
    return {"return": return_text, **times}.get(FIGURES[name].unit, number)


def scores(results: EnvironmentResults) -> TextTable:
    """The returns of the methods' evaluations: a column for each comparison statistic."""
    statistics = [name for name in STATISTICS if name not in OVER_ENVIRONMENTS]
    rows = [
        [
            name,
            figure.title,
            *(ranged(*method.scores[figure.name][statistic], show=return_text) for statistic in statistics),
        ]
        for figure in SCORES
        for name, method in results.methods.items()
        if figure.name in method.scores
    ]
    columns = ("method", "evaluation return", *(name.replace("_", " ") for name in statistics))
    return TextTable(columns, rows, "Evaluation returns over seeds, with 95 % intervals", words=2)


def times(results: EnvironmentResults) -> list[TextTable]:
    """The times to the threshold, if the environment has one."""
    if results.threshold is None:
        return []
    rows = []
    for name, method in results.methods.items():
        if not method.times:  # means of several episodes do not tell
            rows.append([name, *[NONE] * 5])
            continue
        time = method.times["seconds_to_threshold"]
        steps = method.times["steps_to_threshold"]
        cpu = NONE
        if "cpu_s_to_threshold" in method.times:
            cpu = _median(method.times["cpu_s_to_threshold"], seconds)
        least = percent(time.at_least) if time.reached else NONE
        figures = (_median(time, seconds), cpu, _median(steps, number))
        rows.append([name, f"{time.reached} of {time.runs}", least, *figures])
    caption = (
        f"To a mean return of {results.threshold:g} over 100 training episodes: medians with 95 % intervals. Runs "
        f"that never reached it count as censored at their end; {NONE} stands for an end that was not reached or that "
        "so few runs do not tell, and for the interval of fewer than five runs. At least: the lower bound of the "
        "chance that a run reaches it (95 %, one-sided), which is no claim of the report. CPU time is an estimate: a "
        "run's CPU seconds, times the part of its training seconds that had passed at the threshold."
    )
    columns = ("method", "reached by", "at least", "seconds of training", "CPU seconds", "agent steps")
    return [TextTable(columns, rows, caption)]


def _median(time: TimeToThreshold, show: Callable[[float], str]) -> str:
    median, low, high = (shown(number, show) for number in (time.median, time.low, time.high))
    if (time.low, time.high) == (None, None):
        if time.median is None:
            return NONE
        return f"{median} ({NONE})"
    return f"{median} ({low} to {high})"


def costs(results: EnvironmentResults) -> TextTable:
    """Speed, time and memory of a run."""
    rows = []
    for name, method in results.methods.items():
        spreads = [(method.costs.get(cost.name), show_for(cost.name)) for cost in COSTS]
        texts = (NONE if spread is None else ranged(*spread, show) for spread, show in spreads)
        rows.append([name, *texts])
    columns = ("method", *(cost.title for cost in COSTS))
    return TextTable(columns, rows, "Speed and cost of a run: medians, and the range of all runs")


def chances(env: str | None, pairs: Sequence[PairResults], claims: Sequence[Claim]) -> list[TextTable]:
    """What pairs of methods differ in, and what the report claims of it."""
    worth = {(claim.question.method, claim.question.other, claim.question.measure): claim for claim in claims
             if claim.question.env == env}  # fmt: skip
    rows = []
    for pair in pairs:
        names = f"{pair.method} over {pair.other}"
        for key, chance in pair.chances.items():
            figure = FIGURES[key]
            if figure.kind == "time":
                meaning = f"to the threshold {figure.better}"
            else:
                meaning = figure.better
            if isinstance(chance, EarlierChance):
                unknown = percent(chance.unknown)
            else:
                unknown = NONE
            claim = worth.get((pair.method, pair.other, key))
            if claim is None:
                p = [NONE, NONE]
            else:
                p = [percent(claim.question.p), percent(claim.p_of_all)]
            gap = pair.differences[key]
            difference = ranged(gap.value, gap.low, gap.high, show_for(key))
            rows.append(
                [names, meaning, ranged(chance.value, chance.low, chance.high), difference, unknown, *p]
            )
    caption = (
        "Probability: that a run of the first is better than a run of the second. A tie counts half. So does a pair "
        "whose order is unknown because a run ended too early. Difference: of interquartile means, and of mean times, "
        "each cut off where a method's longest run ended. "
        "p is that of the worst case of the unknown orders, so it may be above 5 % where the interval leaves out ½. "
        "p over all claims: adjusted for the number of claims; a claim holds if it is at most 5 %."
    )
    columns = ("", "in what", "probability", "difference", "not known", "p", "p over all claims")
    if rows:
        return [TextTable(columns, rows, caption, words=2)]
    return []


def html(page: ReportPage, out: Path) -> str:
    """The page as one file that needs no other. Every text from runs is escaped. out: its folder, where links begin."""
    return _render(
        "report.html.j2",
        page,
        autoescape=True,
        link=lambda path: quote(os.fsencode(os.path.relpath(path, out))),
    )


def markdown(page: ReportPage) -> str:
    """The page as Markdown, with tables."""
    return re.sub(r"\n{3,}", "\n\n", _render("report.md.j2", page, autoescape=False)).strip() + "\n"


def _render(name: str, page: ReportPage, autoescape: bool, **filters: Callable[..., str]) -> str:
    environment = jinja2.Environment(autoescape=autoescape, undefined=jinja2.StrictUndefined)
    environment.filters |= {
        "plain": plain,
        "svg": lambda panel: Markup(to_inline_svg(panel)),
        "base64": lambda data: base64.b64encode(data).decode(),
        **filters,
    }
    template = environment.from_string(
        resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    )
    return template.render(page=page, version=__version__)


def plain(text: Any) -> str:
    """A text on one line that Markdown shows as it is."""
    return re.sub(r"([\\`*_|<>\[\]#$&~])", r"\\\1", printable(" ".join(str(text).split())))
