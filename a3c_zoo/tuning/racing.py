"""The race of a study's trials: all run a few steps, the better ones go on, and nothing is trained twice.

Asynchronous successive halving (Li et al. 2020, "A System for Massively Parallel Hyperparameter Tuning",
arXiv:1810.05934) by Optuna's `SuccessiveHalvingPruner`: see `TuningStudy.report`. The loop is our own, because
Optuna's `Study.optimize` makes a trial fail on Ctrl-C, and never goes on with a trial whose process was killed.

The runs of trials have `TUNING_SEEDS`. The finale has seeds of its own (Eimer et al. 2023, arXiv:2306.01324),
see `finale.draw_seeds`. None is one that users tend to give.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from a3c_zoo.comparison.methods import Method
from a3c_zoo.comparison.plan import Budget, plan_method
from a3c_zoo.comparison.trainings import ComparisonWatcher
from a3c_zoo.config.search import SearchedKey
from a3c_zoo.engines import Engine, JobProgress, TrainingJob
from a3c_zoo.engines.slots import Post, side_by_side
from a3c_zoo.errors import ConfigError, RunDirectoryError, ZooError, first_line
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.store.checkpoint_evaluations import evaluations_of
from a3c_zoo.store.checkpoints import checkpoint_steps
from a3c_zoo.store.run import Run
from a3c_zoo.tuning.choices import MOST_SEEDS
from a3c_zoo.tuning.contenders import REDUCTION, Contender, next_rung

if TYPE_CHECKING:  # they need Optuna
    from a3c_zoo.tuning.studies import StudySettings, TuningStudy

TUNING_SEEDS: Final = range(1_000_001, 1_000_001 + MOST_SEEDS)
#: The most rungs of a race.
RUNGS: Final = 3
#: If this many trials in a row cannot be trained, the search ends: the others could not be trained, either.
MOST_FAULTS: Final = 3
#: How long a run of a killed process may take to save its state, in seconds.
SAVING_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Advance:
    """A trial that is to train up to a rung."""

    number: int
    rung: int


class TuningWatcher(ComparisonWatcher):
    """Is told how the race goes, and then how the comparisons do."""

    def raced(self, contenders: Sequence[Contender]) -> None:
        """Called when trials have reached a rung, with all trials."""

    def training(self, advance: Advance, seed: int, progress: JobProgress | None) -> None:
        """Called when a trial begins to train, and about once a second while it does."""


def rungs_of(steps: int, least: int, is_racing: bool) -> list[int]:
    """The agent steps at which trials are judged. least: the fewest steps that a run can have."""
    parts = range(RUNGS - 1, -1, -1) if is_racing else (0,)
    return [rung for part in parts if (rung := -(-steps // REDUCTION**part)) >= least]


def method_of(settings: StudySettings, label: str, texts: Mapping[str, str] | None = None) -> Method:
    """The method of a trial, or of the start. On each rung its schedules fall over the whole budget."""
    overrides = [*settings.overrides, *(f"{key}={text}" for key, text in (texts or {}).items())]
    for name, section in settings.config.items():
        if isinstance(section, dict) and "schedule_steps" in section and section["schedule_steps"] is None:
            overrides.append(f"{name}.schedule_steps={settings.steps}")
    agent = get_registry().agent(settings.agent)
    return Method(label, agent, label=label, hyperparams=settings.hyperparams, overrides=tuple(overrides))


@dataclass(slots=True)
class Race:
    """Trains up to `trials` trials of a study, in one of perhaps several processes.

    After the moment `deadline_s` of `time.monotonic` no trial begins or goes on. Those that train then come to
    their rung.

    Attributes:
        is_in_time: whether a trial had a score before that moment.
        is_cut: whether that moment came before all trials were trained as far as they may go.
    """

    study: TuningStudy
    keys: Sequence[SearchedKey]
    trials: int
    deadline_s: float
    engine: Engine
    watcher: TuningWatcher
    is_in_time: bool = False
    is_cut: bool = False
    _faults: int = 0

    def run(self) -> None:
        """Returns when nothing is left to train here. Raises ZooError if `MOST_FAULTS` trials in a row fail."""
        self.watcher.raced(self.study.contenders())
        at_once = max(1, self.engine.slots // self.study.settings.seeds)
        while time.monotonic() < self.deadline_s:
            self.is_in_time = any(each.scores for each in self.study.contenders())
            with ExitStack() as locks:
                with self.study.turn():
                    advances = self._take_advances(at_once, locks)
                if not advances:
                    return
                self._carry_out(advances, locks)
        contenders = self.study.contenders()
        self.is_cut = self._missing(contenders) > 0 or any(each.may_go_on_here for each in contenders)

    def _missing(self, contenders: Sequence[Contender]) -> int:
        """How many trials are to be added yet."""
        return max(0, self.trials - sum(each.state != "FAIL" for each in contenders))

    def _take_advances(self, most: int, locks: ExitStack) -> list[Advance]:
        """Takes trials that may go on, then adds new ones. This process has them until `locks` closes."""
        contenders = self.study.contenders()
        advances = list[Advance]()
        for number in [each.number for each in contenders if each.may_go_on_here]:
            if len(advances) == most:
                return advances
            if self._take(number, locks):
                contender = self.study.contenders()[number]  # another process may have trained it meanwhile
                if contender.may_go_on_here:
                    advances.append(Advance(number, next_rung(contender, self.study.settings.rungs)))
        for _ in range(self._missing(contenders)):
            if len(advances) == most:
                return advances
            number = self.study.add(self.keys)
            if self._take(number, locks):
                advances.append(Advance(number, self.study.settings.rungs[0]))
        return advances

    def _take(self, number: int, locks: ExitStack) -> bool:
        """Takes a trial until `locks` closes. Returns False if another process has it."""
        lock = self.study.take(number)
        if lock is None:
            return False
        locks.callback(lock.release)
        return True

    def _carry_out(self, advances: Sequence[Advance], locks: ExitStack) -> None:
        """Trains the seeds of trials up to their rungs, evaluates them, and keeps the scores.

        This process has the names of new runs until `locks` closes.
        """
        jobs: dict[Advance, dict[int, TrainingJob]] = {}
        faults: dict[Advance, str] = {}
        for advance in advances:
            try:
                jobs[advance] = self._jobs(advance, locks)
            except ConfigError as error:  # values that do not go together
                faults[advance] = first_line(error)
        faults |= self._train_all(jobs)
        trained = {advance: by_seed for advance, by_seed in jobs.items() if advance not in faults}
        faults |= self._evaluate(trained)
        for advance in advances:
            if advance in faults:
                self.study.end(advance.number, faults[advance])
                self.watcher.message(f"trial {advance.number} failed: {faults[advance]}")
                self._faults += 1
            else:
                returns = {seed: _last_return(job.path) for seed, job in jobs[advance].items()}
                self.study.report(advance.number, advance.rung, returns)
                self._faults = 0
        if self._faults >= MOST_FAULTS:
            raise ZooError(f"{self._faults} trials in a row failed; the last one: {faults[advances[-1]]}")
        self.watcher.raced(self.study.contenders())

    def _jobs(self, advance: Advance, locks: ExitStack) -> dict[int, TrainingJob]:
        """Seed → its training up to the rung. Raises ConfigError for values that do not go together."""
        contender = self.study.contenders()[advance.number]
        seeds = TUNING_SEEDS[: self.study.settings.seeds]
        return {seed: self._job(contender, advance.rung, seed, locks) for seed in seeds}

    def _job(self, contender: Contender, rung: int, seed: int, locks: ExitStack) -> TrainingJob:
        """The training of one seed up to a rung: a new run, or one that goes on."""
        settings = self.study.settings
        registry = get_registry()
        method = method_of(settings, f"trial {contender.number}", contender.texts)
        planned = plan_method(registry, registry.env(settings.env), method, Budget(settings.steps))
        command = planned.command(seed)
        config = planned.config(registry, seed)
        stem = f"{self.study.name}-t{contender.number:03d}-s{seed}"
        name, is_there = _directory(self.study, stem, self.study.run_of(contender.number, seed), locks)
        self.study.keep_run(contender.number, seed, name)
        # No checkpoint at tenths of the budget is needed. Those by time keep what a killed training would lose.
        overrides = [text for text in command.overrides if not text.startswith("run.checkpoint_every_s=")]
        overrides.append("run.checkpoint_every_steps=null")
        command = replace(command, steps=rung, overrides=tuple(overrides))
        return TrainingJob(command, config.run.workers, self.study.runs_dir, name, is_there)

    def _train_all(self, jobs: Mapping[Advance, Mapping[int, TrainingJob]]) -> dict[Advance, str]:
        """Trains all jobs. Returns why trials have no figures."""
        trainings = []
        for advance, by_seed in jobs.items():
            trainings += [(advance, seed, job) for seed, job in by_seed.items()]
        work = [functools.partial(self._train, *training) for training in trainings]
        ends = side_by_side(self.engine, work)
        return {advance: fault for (advance, _, _), fault in zip(trainings, ends, strict=True) if fault}

    def _train(self, advance: Advance, seed: int, job: TrainingJob, post: Post) -> str | None:
        """Trains a job, unless it is done. Returns why it has no figures."""
        outcome = Run(job.path).outcome if job.resumes else None
        if outcome and outcome.has_spent_its_budget and outcome.steps >= advance.rung:
            return None

        def tell(progress: JobProgress | None) -> None:
            post(lambda: self.watcher.training(advance, seed, progress))

        tell(None)
        return self.engine.train(job, tell)

    def _evaluate(self, jobs: Mapping[Advance, Mapping[int, TrainingJob]]) -> dict[Advance, str]:
        """Evaluates all jobs. Returns why trials have no figures."""
        advances = {job.path: advance for advance, by_seed in jobs.items() for job in by_seed.values()}
        episodes = self.study.settings.episodes
        faults = self.engine.evaluate([*advances], episodes, self.watcher.evaluating, lambda: None)
        return {advances[path]: fault for path, fault in faults.items()}


def _directory(study: TuningStudy, name: str, own: str | None, locks: ExitStack) -> tuple[str, bool]:
    """The name of a run's directory, and whether a run with a checkpoint is there to go on with.

    This process has a name without a directory until `locks` closes.

    Args:
        own: the directory that the trial has had. All others are of another study, and are left as they are.
    """
    for each in filter(None, (own, name, *(f"{name}-{copy}" for copy in range(2, 1000)))):
        run = Run(study.runs_dir / each)
        if not run.path.exists():
            claim = study.claim(each)
            if claim is None:
                continue
            locks.callback(claim.release)
            return each, False
        if each != own:
            continue
        end_s = time.monotonic() + SAVING_S
        while run.is_running() and time.monotonic() < end_s:  # its process was killed, and it saves its state
            time.sleep(0.1)
        with suppress(RunDirectoryError):
            if run.meta and checkpoint_steps(run):
                return each, True
    raise ZooError(f"cannot find a free name for {name} in {study.runs_dir}; give another --study")


def _last_return(run: Path) -> float:
    """The mean return of the evaluation of a run's last checkpoint, sampled actions."""
    sampled = [each.evaluation for each in evaluations_of(run) if not each.evaluation.deterministic]
    return sampled[-1].mean_return
