"""What a display shows of a comparison: a table where it can change in place, a line for each run elsewhere."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING

from a3c_zoo.comparison.plan import Plan, PlannedRun, side_by_side_s
from a3c_zoo.comparison.trainings import ComparisonWatcher, Trained
from a3c_zoo.display.displays import Display
from a3c_zoo.display.pieces import duration
from a3c_zoo.engines import JobProgress
from a3c_zoo.records import Outcome
from a3c_zoo.store.run import Run
from a3c_zoo.words import return_text

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(slots=True)
class _Row:
    """A method on an environment.

    Attributes:
        runs, failed: numbers of runs in the plan, and of failed ones. ended: the outcomes of finished runs.
        now: the run that trains now, in words. whole_s: how long it takes at its speed, None if not measured yet.
    """

    runs: int = 0
    failed: int = 0
    ended: list[Outcome] = field(default_factory=list)
    now: str = ""
    whole_s: float | None = None

    def mean(self, figure: str) -> float | None:
        """The mean of a figure over the finished runs that have it."""
        values = [value for outcome in self.ended if (value := getattr(outcome, figure)) is not None]
        return fmean(values) if values else None


class ComparisonView(ComparisonWatcher):
    """Shows the progress of a comparison.

    Args:
        slots: how many runs train at once, at most.

    Attributes:
        report: the folder of the report; None before it is written.
    """

    def __init__(self, display: Display, slots: int = 1) -> None:
        self._display = display
        self._rows: defaultdict[tuple[str, str], _Row] = defaultdict(_Row)
        self._slots = slots
        self._waiting: list[PlannedRun] = []
        self._spent_s: dict[tuple[str, str, int], float] = {}  # of the runs that train now
        self._footer = ""
        self._evaluated = ""  # how many checkpoints, in words; "" while runs train
        self.report: Path | None = None

    def planned(self, plan: Plan) -> None:
        for run in plan.runs:
            self._rows[run.env, run.method].runs += 1
        self._waiting = plan.missing

    def running(self, run: PlannedRun, progress: JobProgress | None) -> None:
        """Shows the run in the row of its method: seed, share of the budget that is spent, mean return."""
        self._evaluated = ""
        row = self._rows[run.env, run.method]
        row.now = f"seed {run.seed}"
        spent_s = 0.0
        if progress is not None:
            budget = run.budget
            spent_s = progress.training_s
            if budget.steps:
                share = progress.steps / budget.steps
            else:
                share = spent_s / (budget.time_limit_s or 1)
            row.now += f", {min(share, 1.0):.0%}, return {return_text(progress.mean_return)}"
            row.whole_s = spent_s / share if share > 0 else None
        self._spent_s[_key(run)] = spent_s
        times_s = [(self._takes_s(each), self._spent_s.get(_key(each), 0.0)) for each in self._waiting]
        left = side_by_side_s(
            [max((takes_s or 0.0) - spent_s, 0.0) for takes_s, spent_s in times_s], self._slots
        )
        is_known = all(takes_s is not None for takes_s, _ in times_s)
        self._show(f"{'about' if is_known else 'more than'} {duration(left)} of training left")

    def _takes_s(self, run: PlannedRun) -> float | None:
        """How long a run takes, as this comparison has measured it, else as earlier runs tell."""
        row = self._rows[run.env, run.method]
        if row.ended:
            return median(each.total_s for each in row.ended)
        return row.whole_s or run.guess_s

    def trained(self, trained: Trained) -> None:
        """Counts the run as finished or failed. A failed one has a line of its own, and any one without a terminal."""
        run = trained.run
        row = self._rows[trained.run.env, trained.run.method]
        figures = ""
        self._spent_s.pop(_key(run), None)
        row.now = ""
        row.failed += trained.fault is not None
        if trained.fault is None and (outcome := Run(trained.path).outcome):
            row.ended.append(outcome)
            figures = f", {outcome.steps_per_s:,.0f} steps/s, return {_shown(outcome.mean_return_100)}"
        if run.done is None:
            self._waiting.remove(run)
        if run.done:
            how = "finished before"
        else:
            how = "trained" if trained.fault is None else "FAILED"
        if trained.by_another:
            how = "trained by another comparison"
        if not self._display.is_live or trained.fault is not None:
            fault = f": {trained.fault}" if trained.fault else ""
            self._display.say(
                f"{run.method} on {run.env}, seed {run.seed}: {how}{figures}{fault} → {trained.path}"
            )
        self._show("", at_once=self._display.is_live)

    def evaluating(self, done: int, total: int) -> None:
        self._evaluated = f"evaluated {done:,} of {total:,} checkpoints"
        self._show(f"evaluating: {done:,} of {total:,} checkpoints", at_once=done in (0, total))

    def reported(self, folder: Path, missing: int) -> None:
        """Says once where the report is, which is written anew from then on."""
        if missing and self.report is None:
            self._display.say(f"report so far: {folder / 'report.html'}")
        self.report = folder

    def message(self, text: str) -> None:
        self._display.say(text)

    def _show(self, footer: str, at_once: bool = False) -> None:
        """Shows the table with a line below it; "" keeps the line that is there."""
        self._footer = footer or self._footer
        if at_once or self._display.is_due:
            self._display.show(self)

    def line(self) -> str:
        """How far the evaluation is: the runs have lines of their own."""
        return self._evaluated

    def block(self, width: int) -> Table:
        """A line for each method. The figures of the running run are cut off if the terminal has no room for them."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, padding=(0, 2, 0, 0), width=width, caption_justify="left")
        table.caption = Text(self._footer, "not dim not italic cyan")
        envs = {env for env, _ in self._rows}
        for name in ("environment", "method") if len(envs) > 1 else ("method",):
            table.add_column(name, no_wrap=True)
        for name in ("runs", "steps/s", "return"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("now", no_wrap=True, overflow="ellipsis", ratio=1)
        for (env, method), row in self._rows.items():
            done = Text(f"{len(row.ended)} of {row.runs}", "green" if len(row.ended) == row.runs else "")
            done.append(f" ({row.failed} failed)" if row.failed else "", "red")
            speed = row.mean("steps_per_s")
            names = (env, method) if len(envs) > 1 else (method,)
            figures = "-" if speed is None else f"{speed:,.0f}", _shown(row.mean("mean_return_100"))
            table.add_row(*map(Text, names), done, *figures, row.now)
        return table


def _key(run: PlannedRun) -> tuple[str, str, int]:
    return run.env, run.method, run.seed


def _shown(mean: float | None) -> str:
    return "-" if mean is None else return_text(mean)
