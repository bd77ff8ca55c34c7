"""The progress of a comparison in a notebook: one line, which changes."""

from __future__ import annotations

from a3c_zoo.comparison.plan import Plan, PlannedRun
from a3c_zoo.comparison.trainings import ComparisonWatcher, Trained
from a3c_zoo.engines import JobProgress
from a3c_zoo.records import score
from a3c_zoo.runs.notebook import NotebookLine


class NotebookWatcher(ComparisonWatcher):
    """Shows the progress in a line."""

    def __init__(self, line: NotebookLine) -> None:
        self._line, self._number, self._total = line, 1, 0

    def planned(self, plan: Plan) -> None:
        self._total = len(plan.runs)

    def running(self, run: PlannedRun, progress: JobProgress | None) -> None:
        now = f": {progress.steps:,} steps, return {score(progress.mean_return)}" if progress else ""
        self._line.show(f"run {self._number} of {self._total}, {run.method} on {run.env}, seed {run.seed}{now}")

    def trained(self, trained: Trained) -> None:
        self._number += 1

    def evaluating(self, done: int, total: int) -> None:
        self._line.show(f"evaluating: {done} of {total} checkpoints", at_once=done == total)

    def message(self, text: str) -> None:
        self._line.show(text)
