"""The course of a comparison: train what is missing, evaluate each run, and report after each.

The plan says which runs; `compare` and `tune` make plans.
"""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from a3c_zoo.comparison import seed_blocks
from a3c_zoo.comparison.conclusion import Comparison, conclude, measured_runs
from a3c_zoo.comparison.looks import keep_look_of_rule
from a3c_zoo.comparison.plan import Plan
from a3c_zoo.comparison.trainings import ComparisonWatcher, Trained, train_plan
from a3c_zoo.engines import Engine
from a3c_zoo.engines.shared_folder import reserved
from a3c_zoo.errors import ZooError
from a3c_zoo.figures import decisions
from a3c_zoo.figures.decisions import Decisions
from a3c_zoo.figures.measures import MeasuredRun
from a3c_zoo.figures.results import Making, Results, results_of
from a3c_zoo.figures.sequential import SequentialRule, SequentialTest
from a3c_zoo.report.places import claimed
from a3c_zoo.report.results_json import by_env
from a3c_zoo.runs.signals import stop_on_signals
from a3c_zoo.store.run import Run
from a3c_zoo.store.run_records import RunRecord, read_runs

if TYPE_CHECKING:
    from a3c_zoo.report.pages import ReportSection

#: After a report, the next one waits for this many times the seconds that it took: many short runs need few reports.
REPORT_PAUSE: Final = 4

#: (environment, method) → how many of its runs are still to come.
ToCome = Mapping[tuple[str, str], int]


def carry_out(
    plan: Plan,
    rule: SequentialRule | None,
    episodes: int,
    out: Path,
    watcher: ComparisonWatcher,
    engine: Engine,
    more: Sequence[ReportSection] = (),
    question: str = "",
) -> Comparison:
    """Trains the missing runs of a plan, evaluates all, and writes the report. Raises what `compare` does.

    Args:
        rule: decides after each block of seeds whether the next one is needed; None for the whole plan.
        episodes: how many each of a run's checkpoints plays in each mode.
        more: is put behind the report's own sections. question: see `compare`.
    """
    watcher.planned(plan)
    played = Played(left_out=dict(plan.left_out))
    decided = None
    digest = plan.digest
    with claimed(out, digest) as folder:
        reports = _Reports(plan, digest, played, watcher, engine, folder, question)
        course = Course(plan, episodes, watcher, engine, played, reports.write_so_far)
        with stop_on_signals() as stop:
            stop.allow_interrupts()
            if rule is None:
                course.play(plan)
            else:
                decided = course.play_until_decided(rule, folder)
        comparison = reports.write_last(decided, more)
    watcher.reported(folder, 0)
    return comparison


def final_returns_of(
    plan: Plan, episodes: int, watcher: ComparisonWatcher, engine: Engine
) -> dict[str, list[float]]:
    """Trains and evaluates a plan without a report. Returns method → the final returns of its runs that have one."""
    watcher.planned(plan)
    played = Played()
    with stop_on_signals() as stop:
        stop.allow_interrupts()
        Course(plan, episodes, watcher, engine, played).play(plan)
    returns = dict[str, list[float]]()
    for run in (each.measures for each in played.measured()[0]):
        if run.final_return is not None:
            returns.setdefault(run.method, []).append(run.final_return)
    return returns


@dataclass(slots=True)
class Played:
    """Trained and evaluated runs: their records, name → why others are left out, and the names of failed ones.

    lost: see `Results`.
    """

    records: list[RunRecord] = field(default_factory=list)
    left_out: dict[Path, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    lost: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(
        self, trained: Sequence[Trained], records: Sequence[RunRecord], without_figures: Mapping[Path, str]
    ) -> None:
        """Adds runs that were trained.

        Args:
            records: of the runs with figures. without_figures: why the others have none.
        """
        methods = {each.path: each.run.method for each in trained}
        lost = [
            each.run for each in trained if each.path in without_figures and not Run(each.path).says_nothing
        ]
        self.records += [replace(record, method=methods[record.path]) for record in records]
        self.left_out |= without_figures
        self.failed += [path.name for path in without_figures]
        self.lost += Counter((run.env, run.method) for run in lost)

    def measured(self) -> tuple[list[MeasuredRun], dict[str, str]]:
        """The measured runs; and name → reason for those that are left out."""
        return measured_runs(self.records, self.left_out)


class Course:
    """Trains and evaluates runs of a plan, and adds them to what was played.

    Args:
        episodes: see `carry_out`.
        report_so_far: is told after each evaluation how many runs are still to come.
    """

    def __init__(
        self,
        plan: Plan,
        episodes: int,
        watcher: ComparisonWatcher,
        engine: Engine,
        played: Played,
        report_so_far: Callable[[ToCome], None] = lambda to_come: None,
    ) -> None:
        self._plan = plan
        self._episodes = episodes
        self._watcher = watcher
        self._engine = engine
        self._played = played
        self._report_so_far = report_so_far

    def play(self, part: Plan) -> None:
        """Trains and evaluates the runs of the plan, or of a part of it.

        Runs that are there are evaluated first. If one run trains at a time, each one is evaluated before the next one
        begins; else all are at the end, seed by seed, because machines that train must not be disturbed.
        """
        to_come = Counter((run.env, run.method) for run in part.runs)

        def evaluate_and_report(trained: Sequence[Trained]) -> None:
            self._evaluate(trained)
            to_come.subtract((each.run.env, each.run.method) for each in trained)
            self._report_so_far(+to_come)

        if finished := [Trained(run, run.done) for run in part.runs if run.done is not None]:
            evaluate_and_report(finished)

        def on_end(trained: Trained) -> None:
            if self._engine.slots == 1 and trained.run.done is None:
                evaluate_and_report([trained])

        ended = train_plan(part, self._watcher, self._engine, on_end)
        if self._engine.slots > 1:
            missing = [each for each in ended if each.run.done is None]
            for seed in dict.fromkeys(each.run.seed for each in missing):
                evaluate_and_report([each for each in missing if each.run.seed == seed])

    def play_until_decided(self, rule: SequentialRule, folder: Path) -> Decisions:
        """Plays block after block, until the rule has decided all pairs or allows no further look.

        folder: of the report, which the runs name as the one that has looked at them.
        """
        test = SequentialTest(rule)
        stopped = ""
        while not test.is_over:
            self.play(seed_blocks.block_of(self._plan, test))
            runs, _ = self._played.measured()
            values = decisions.final_returns(test, runs)
            if values is None:
                stopped = "a run has no final return, so there was no further look"
                break
            look = test.look(values)
            keep_look_of_rule(look, rule, runs, folder)
            self._watcher.message(decisions.look_in_words(look, test))
        return Decisions(rule, tuple(test.looks), tuple(test.open), stopped)

    def _evaluate(self, trained: Sequence[Trained]) -> None:
        """Evaluates runs, and adds them to what was played."""
        failed = {each.path: each.fault for each in trained if each.fault is not None}
        usable = [each.path for each in trained if each.fault is None]
        message = self._watcher.message
        # Reserved: a comparison with another number of episodes replaces the evaluations, which must be read before.
        with reserved(self._plan.runs_dir, "evaluations", "evaluates these runs", message) as give_sign:
            faults = self._engine.evaluate(usable, self._episodes, self._watcher.evaluating, give_sign)
            unharmed = [path for path in usable if path not in faults]
            records, left_out = read_runs(unharmed, trust=True)  # their configurations are the planned ones
        unusable = left_out | faults  # the watcher knows of the trainings that failed
        for each in trained:
            if each.path in unusable:
                message(_about_unusable(each, unusable[each.path]))
        self._played.add(trained, records, failed | unusable)


def _about_unusable(trained: Trained, reason: str) -> str:
    """What a watcher is told of a run that was trained and has no figures, with the cure."""
    run = trained.run
    remove = shlex.join(["a3c-zoo", "rm", str(trained.path)])
    return (
        f"{run.method} on {run.env}, seed {run.seed}: {reason}. The same command (with another --out, if it has one) "
        f"tries again; to train this run again, first: {remove}"
    )


class _Reports:
    """The reports of a comparison: some while it runs, and the last one.

    Args:
        digest: the plan's. folder: was claimed.
    """

    def __init__(
        self,
        plan: Plan,
        digest: str,
        played: Played,
        watcher: ComparisonWatcher,
        engine: Engine,
        folder: Path,
        question: str,
    ) -> None:
        self._plan = plan
        self._digest = digest
        self._places = {(run.env, run.method, run.seed): place for place, run in enumerate(plan.runs)}
        self._played = played
        self._watcher = watcher
        self._engine = engine
        self._folder = folder
        self._question = question
        self._next_s = 0.0

    def write_so_far(self, to_come: ToCome) -> None:
        """Writes a report of the runs so far, unless the last one was just written, or no run is to come."""
        began_s = time.monotonic()
        if not to_come or not self._played.records or began_s < self._next_s:
            return
        try:
            conclude(self._results(to_come), self._folder)
        except ZooError as error:  # the next one, or the last, may be written
            self._watcher.message(f"no report so far: {error}")
            return
        self._watcher.reported(self._folder, sum(to_come.values()))
        ended_s = time.monotonic()
        self._next_s = ended_s + REPORT_PAUSE * (ended_s - began_s)

    def write_last(self, decided: Decisions | None, more: Sequence[ReportSection]) -> Comparison:
        """Writes the report of all runs. more: see `carry_out`. Raises ZooError if there is no run."""
        return conclude(self._results({}, decided), self._folder, self._played.failed, more)

    def _results(self, to_come: ToCome, decided: Decisions | None = None) -> Results:
        """The results of the runs so far, in the order of the plan."""
        self._played.records.sort(key=self._place)
        measured, left_out = self._played.measured()
        plan = self._plan
        notes = tuple(self._engine.notes())
        making = Making(plan.schedules, self._engine.slots, plan.tuning, notes, by_env(to_come), self._digest)
        return results_of(measured, left_out, making, decided, self._played.lost, self._question)

    def _place(self, record: RunRecord) -> int:
        """Where the plan has a run; a run of no plan is behind them."""
        if record.seed is None:
            return len(self._places)
        return self._places.get((record.env, record.method, record.seed), len(self._places))
