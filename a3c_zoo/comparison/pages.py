"""A report's pages, from what they say: one self-contained HTML file, and the same in Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from a3c_zoo.version import __version__


@dataclass(frozen=True, slots=True)
class Table:
    """Texts and figures in rows.

    Attributes:
        columns: their titles. rows: texts. marked: numbers of the rows to be seen first.
        words: so many columns, from the first on, hold words and not figures.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    marked: frozenset[int] = frozenset()
    words: int = 1

    @property
    def is_words(self) -> bool:
        """Whether no column holds figures; its cells may then break into lines."""
        return self.words >= len(self.columns)


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture, as SVG of our own making, and what it shows."""

    svg: Markup
    caption: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report under a title: paragraphs, figures, tables, and lines of code."""

    title: str
    texts: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    codes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """What a report says. verdict: its first lines, one sentence each."""

    title: str
    subtitle: str
    verdict: Sequence[str]
    sections: Sequence[Section] = field(default_factory=list)


def html(report: Report) -> str:
    """The report as one file that needs no other; whatever comes from runs is escaped."""
    return _render("report.html.j2", report, autoescape=True)


def markdown(report: Report) -> str:
    """The report as Markdown, with tables."""
    return re.sub(r"\n{3,}", "\n\n", _render("report.md.j2", report, autoescape=False)).strip() + "\n"


def _render(name: str, report: Report, autoescape: bool) -> str:
    environment = jinja2.Environment(autoescape=autoescape, undefined=jinja2.StrictUndefined)
    environment.filters["plain"] = plain
    template = environment.from_string(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))
    return template.render(
        title=report.title,
        subtitle=report.subtitle,
        verdict=report.verdict,
        sections=report.sections,
        version=__version__,
    )


def plain(text: Any) -> str:
    """A text that Markdown shows as it is, on one line."""
    return re.sub(r"([\\`*_|<>\[\]#])", r"\\\1", " ".join(str(text).split()))
