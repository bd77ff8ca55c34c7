"""The progress of a comparison: a live table on a terminal, a line for each run elsewhere."""

from __future__ import annotations

import time
from dataclasses import dataclass

from rich.table import Table

from a3c_zoo.cli.panel import LiveDisplay, duration
from a3c_zoo.comparison.plan import Plan, PlannedRun
from a3c_zoo.comparison.trainings import ComparisonWatcher, Look, Trained
from a3c_zoo.records import score


@dataclass(slots=True)
class _Row:
    """A method on an environment.

    Attributes:
        runs, done, failed: numbers of runs in the plan, finished, and failed.
        now: the run that trains now, in words.
    """

    runs: int = 0
    done: int = 0
    failed: int = 0
    now: str = ""
    mean_return: float | None = None
    steps_per_s: float | None = None


class Board(ComparisonWatcher):
    """Shows the progress of a comparison on the command line.

    Args:
        to_stderr: write to stderr in place of stdout.
    """

    def __init__(self, to_stderr: bool) -> None:
        self._display = LiveDisplay(to_stderr)
        self._rows: dict[tuple[str, str], _Row] = {}
        self._left: list[float] = []
        self._footer = ""
        self._said_s = 0.0

    def planned(self, plan: Plan) -> None:
        for run in plan.runs:
            self._rows.setdefault((run.env, run.method), _Row()).runs += 1
        self._left = [run.guess_s for run in plan.missing]

    def running(self, run: PlannedRun, look: Look | None) -> None:
        """Shows the run in the row of its method: seed, share of the budget that is spent, mean return, steps/s."""
        row = self._rows[run.env, run.method]
        row.now, share = f"seed {run.seed}", 0.0
        if look is not None:
            budget = run.budget
            share = look.steps / budget.steps if budget.steps else look.training_s / (budget.time_limit_s or 1)
            share = min(share, 1.0)
            row.now += f", {share:.0%}"
            row.mean_return = look.mean_return
            row.steps_per_s = look.steps / look.training_s if look.training_s else None
        self._show(f"about {duration(sum(self._left) - share * self._left[0])} of training left")

    def trained(self, trained: Trained) -> None:
        """Counts the run as finished or failed. A failed one has a line of its own, and any one without a terminal."""
        row = self._rows[trained.run.env, trained.run.method]
        row.now = ""
        row.done += trained.fault is None
        row.failed += trained.fault is not None
        if trained.run.done is None:
            self._left = self._left[1:]
        what = "finished before" if trained.run.done else "trained" if trained.fault is None else "FAILED"
        if trained.by_another:
            what = "trained by another comparison"
        if not self._display.is_live or trained.fault is not None:
            fault = f": {trained.fault}" if trained.fault else ""
            run = trained.run
            self._display.say(f"{run.method} on {run.env}, seed {run.seed}: {what}{fault} → {trained.path}")
        self._show("")

    def evaluating(self, done: int, total: int) -> None:
        self._show(f"evaluating: {done} of {total} checkpoints")
        now = time.monotonic()
        if not self._display.is_live and (now - self._said_s > 10 or done in (0, total)):
            self._said_s = now
            self._display.say(f"evaluated {done} of {total} checkpoints")

    def message(self, text: str) -> None:
        self._display.say(text)

    def close(self) -> None:
        self._display.close()

    def _show(self, footer: str) -> None:
        self._footer = footer or self._footer
        if self._display.is_live:
            self._display.draw(self._table())

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), caption=self._footer, caption_justify="left")
        table.add_column("environment")
        table.add_column("method")
        for name in ("runs", "steps/s", "return, last 100"):
            table.add_column(name, justify="right")
        table.add_column("now", min_width=14)
        for (env, method), row in self._rows.items():
            failed = f" ({row.failed} failed)" if row.failed else ""
            table.add_row(
                env,
                method,
                f"{row.done} of {row.runs}{failed}",
                "-" if row.steps_per_s is None else f"{row.steps_per_s:,.0f}",
                "-" if row.mean_return is None else score(row.mean_return),
                row.now,
            )
        return table
