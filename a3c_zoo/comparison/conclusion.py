"""The end of a comparison: its results, its report, and what the caller gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a3c_zoo.comparison.looks import keep_looks, looked_at
from a3c_zoo.errors import ZooError
from a3c_zoo.figures.measures import MeasuredRun, labels_of, measure
from a3c_zoo.figures.results import Results
from a3c_zoo.report.places import REPORT_FILES, REPORT_PAGE, opening
from a3c_zoo.report.results_json import to_json
from a3c_zoo.store.run_records import RunRecord
from a3c_zoo.words import counted

if TYPE_CHECKING:
    from a3c_zoo.report.pages import ReportSection


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """A finished comparison.

    Attributes:
        results: every figure with its unit; the contents of `results.json`.
        left_out: run → why its figures are not in the results.
        out: the folder of the report, with `REPORT_FILES`.
        verdict: the conclusions, one sentence each.
        failed: the names of the runs that failed: in training, in their evaluation, or when they were read.
        answers: those sentences of the verdict that answer a question → whether a difference is shown.
    """

    results: dict[str, Any]
    left_out: dict[str, str]
    out: Path
    verdict: tuple[str, ...]
    failed: tuple[str, ...] = ()
    answers: Mapping[str, bool] = field(default_factory=dict)

    def __repr__(self) -> str:
        envs: dict[str, Any] = self.results["environments"]
        methods = [f"{' and '.join(env['methods'])} on {name}" for name, env in envs.items()]
        runs = f"{len(self.results['runs'])} runs, {len(self.left_out)} left out"
        return f"<Comparison of {'; '.join(methods)}: {runs}; {self.out}>\n{' '.join(self.verdict)}"

    @property
    def answer(self) -> tuple[str, ...]:
        """The sentences that answer a question; the first one of the verdict where none does."""
        return tuple(self.answers) or self.verdict[:1]

    def summary(self) -> str:
        """The verdict, the files of the report, and what opens it. The answer is at the end, where a reader looks."""
        rest = [text for text in self.verdict if text not in self.answer]
        files = [f"  {self.out / name}" for name in REPORT_FILES if name != REPORT_PAGE]
        return "\n".join([*rest, *files, *self.answer, f"  {opening(self.out / REPORT_PAGE)}"])


def measured_runs(
    records: Sequence[RunRecord], left_out: Mapping[Path, str]
) -> tuple[list[MeasuredRun], dict[str, str]]:
    """Measures runs. Returns them, and name → reason for those that cannot be used."""
    labels = labels_of([*(each.path for each in records), *left_out])
    measured = [measure(record, labels[record.path]) for record in records]
    return measured, {labels[path]: reason for path, reason in left_out.items()}


def conclude(
    results: Results, out: Path, failed: Sequence[str] = (), more: Sequence[ReportSection] = ()
) -> Comparison:
    """Writes the report into a folder that was claimed.

    Once no run is missing, the look is written down (`keep_looks`). This comes before the first file, which may show
    its claims. Films are made then, too, but only of runs that were made for the comparison.

    Args:
        failed: see `Comparison`. more: is put behind the report's own sections.

    Raises:
        ZooError: there is no run.
    """
    from a3c_zoo.report.report import page_of, report_files, write_report  # matplotlib and jinja2 only here
    from a3c_zoo.report.report_films import films_of
    from a3c_zoo.report.verdict import answers, notes

    if not results.runs:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in results.left_out.items())
        raise ZooError(f"there is no run to compare{f' ({reasons})' if reasons else ''}")
    results = looked_at(results)
    making = results.making
    missing = making.missing if making else {}
    films = films_of(results.runs) if making and not missing else None
    page = page_of(results, films)
    if missing:
        page = replace(page, verdict=[unfinished(missing, len(results.runs)), *notes(results)])
    page = replace(page, sections=[*page.sections, *more])
    files = report_files(results, page, out)
    if not missing:
        keep_looks(results, out)
    write_report(files, out)
    left_out = dict(results.left_out)
    return Comparison(to_json(results), left_out, out, tuple(page.verdict), tuple(failed), answers(results))


def unfinished(missing: Mapping[str, Mapping[str, int]], there: int) -> str:
    """The sentence above a report whose comparison has not ended. there: how many runs it has."""
    number = sum(sum(methods.values()) for methods in missing.values())
    of_methods = [
        f"{method} on {env}: {count}" for env, methods in missing.items() for method, count in methods.items()
    ]
    verb = "is" if number == 1 else "are"
    has = f"It has {counted(there, 'runs')}, and {counted(number, 'runs')} {verb} missing"
    return f"This report is not finished, and claims nothing yet. {has}: {', '.join(of_methods)}."
