"""The race of a study's trials: all run a few steps, the better ones go on, and nothing is trained twice.

Successive halving without waiting for others (Li et al. 2020, "A System for Massively Parallel Hyperparameter Tuning",
arXiv:1810.05934, algorithm 2). A trial that is not promoted now keeps its runs, and may be promoted later.

| seeds | what they are for |
| --- | --- |
| `TUNING_SEEDS` | the runs of trials |
| `CHOICE_SEEDS` | the choice among the best trials |
| `REPORT_SEEDS` | the comparison of the chosen trial with the set of the start and the default one |

No seed is in two rows (Eimer et al. 2023, arXiv:2306.01324), and none is one that users tend to give.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from a3c_zoo.comparison.known_runs import KnownRuns
from a3c_zoo.comparison.methods import Method
from a3c_zoo.comparison.plan import Budget, plan_run
from a3c_zoo.comparison.trainings import ComparisonWatcher
from a3c_zoo.config.search import SearchedKey
from a3c_zoo.engines import Engine, JobProgress, TrainingJob
from a3c_zoo.engines.slots import Post, side_by_side
from a3c_zoo.errors import ConfigError, RunDirectoryError, ZooError, first_line
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.records import FINISHED
from a3c_zoo.store.checkpoint_evaluations import evaluations_of
from a3c_zoo.store.checkpoints import checkpoint_steps
from a3c_zoo.store.run import Run

if TYPE_CHECKING:  # they need Optuna
    from a3c_zoo.tuning.contenders import Contender
    from a3c_zoo.tuning.studies import StudySettings, TuningStudy

TUNING_SEEDS: Final = range(1_000_001, 1_001_001)
CHOICE_SEEDS: Final = range(2_000_001, 2_001_001)
REPORT_SEEDS: Final = range(3_000_001, 3_001_001)
#: One trial in `REDUCTION` goes on to the next rung, which has `REDUCTION` times the steps; there are `RUNGS` rungs.
REDUCTION, RUNGS = 3, 3
#: If this many trials in a row cannot be trained, the search ends: the others could not be trained, either.
MOST_FAULTS: Final = 3
#: How long a run of a killed process may take to save its state, in seconds.
SAVING_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Turn:
    """A trial that is to reach a rung."""

    number: int
    rung: int


class TuningWatcher(ComparisonWatcher):
    """Is told how the race goes, and then how the comparisons do."""

    def raced(self, contenders: Sequence[Contender]) -> None:
        """Called when trials have reached a rung, with all trials."""

    def training(self, turn: Turn, seed: int, progress: JobProgress | None) -> None:
        """Called when a trial begins to train, and about once a second while it does."""


def rungs_of(steps: int, least: int, is_racing: bool) -> list[int]:
    """The agent steps at which trials are judged. least: the fewest steps that a run can have."""
    parts = range(RUNGS - 1, -1, -1) if is_racing else (0,)
    return [rung for part in parts if (rung := -(-steps // REDUCTION**part)) >= least]


def method_of(settings: StudySettings, label: str, texts: Mapping[str, str] | None = None) -> Method:
    """The method of a trial, or of the start. On each rung its schedules fall over the whole budget, as in the end."""
    overrides = [*settings.overrides, *(f"{key}={text}" for key, text in (texts or {}).items())]
    for name, section in settings.config.items():
        if isinstance(section, dict) and "schedule_steps" in section and section["schedule_steps"] is None:
            overrides.append(f"{name}.schedule_steps={settings.steps}")
    agent = get_registry().agent(settings.agent)
    return Method(label, agent, label=label, hyperparams=settings.hyperparams, overrides=tuple(overrides))


@dataclass(slots=True)
class Race:
    """Trains up to `trials` trials of a study, in one of perhaps several processes.

    After the moment `deadline_s` of `time.monotonic` no trial begins or goes on. Those that train come to their rung.

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
        """Returns when nothing is left to train here. Raises ZooError if several trials in a row cannot be trained."""
        self.watcher.raced(self.study.contenders())
        at_once = max(1, self.engine.slots // self.study.settings.seeds)
        while time.monotonic() < self.deadline_s:
            self.is_in_time = any(each.scores for each in self.study.contenders())
            with ExitStack() as taken:
                with self.study.lock("next"):
                    turns = list(itertools.islice(self._next_turns(taken), at_once))
                if not turns:
                    return
                self._take_turns(turns)
        contenders = self.study.contenders()
        self.is_cut = self._missing(contenders) > 0 or bool(self._waiting(contenders))

    def _missing(self, contenders: Sequence[Contender]) -> int:
        """How many trials are to be added yet."""
        return max(0, self.trials - sum(each.state != "FAIL" for each in contenders))

    def _waiting(self, contenders: Sequence[Contender]) -> list[Turn]:
        """The trials that are to be trained and whose runs are here: begun ones, promoted ones."""
        rungs = self.study.settings.rungs
        free = {each.number for each in contenders if each.state == "RUNNING" and each.is_here}
        begun = [Turn(number, rungs[0]) for number in sorted(free) if not contenders[number].scores]
        promoted = promotions(contenders, rungs, is_last=not self._missing(contenders))
        return [turn for turn in (*begun, *promoted) if turn.number in free]

    def _next_turns(self, taken: ExitStack) -> Iterator[Turn]:
        """The trials to train next, which this process then has: begun ones, promoted ones, new ones."""
        contenders = self.study.contenders()
        for turn in self._waiting(contenders):
            if lock := self.study.take(turn.number):
                taken.callback(lock.release)
                if self.study.contenders()[turn.number] == contenders[turn.number]:  # nobody has trained it meanwhile
                    yield turn
        for _ in range(self._missing(contenders)):
            number = self.study.add(self.keys)
            if lock := self.study.take(number):
                taken.callback(lock.release)
                yield Turn(number, self.study.settings.rungs[0])

    def _take_turns(self, turns: Sequence[Turn]) -> None:
        """Trains the seeds of trials up to their rungs, evaluates them, and keeps the scores."""
        contenders = self.study.contenders()
        jobs: dict[tuple[Turn, int], TrainingJob] = {}
        faults: dict[Turn, str] = {}
        for turn in turns:
            try:
                seeds = TUNING_SEEDS[: self.study.settings.seeds]
                jobs |= {(turn, seed): self._job(contenders[turn.number], turn.rung, seed) for seed in seeds}
            except ConfigError as error:  # values that do not go together
                faults[turn] = first_line(error)
        work = [functools.partial(self._train, turn, seed, job) for (turn, seed), job in jobs.items()]
        ends = zip(jobs, side_by_side(self.engine, work), strict=True)
        faults |= {turn: fault for (turn, _), fault in ends if fault}
        played = [job.path for (turn, _), job in jobs.items() if turn not in faults]
        unplayed = self.engine.evaluate(played, self.study.settings.episodes, self.watcher.evaluating, lambda: None)
        faults |= {turn: unplayed[job.path] for (turn, _), job in jobs.items() if job.path in unplayed}
        for turn in turns:
            if turn in faults:
                self.study.end(turn.number, faults[turn])
                self.watcher.message(f"trial {turn.number} failed: {faults[turn]}")
            else:
                scores = {seed: _last_return(job.path) for (each, seed), job in jobs.items() if each == turn}
                self.study.report(turn.number, turn.rung, scores)
            self._faults = self._faults + 1 if turn in faults else 0
        if self._faults >= MOST_FAULTS:
            raise ZooError(f"{self._faults} trials in a row failed; the last one: {faults[turns[-1]]}")
        self.watcher.raced(self.study.contenders())

    def _job(self, contender: Contender, rung: int, seed: int) -> TrainingJob:
        """The training of one seed up to a rung: a new run, or one that goes on."""
        settings = self.study.settings
        method = method_of(settings, f"trial {contender.number}", contender.texts)
        entry = get_registry().env(settings.env)
        known = KnownRuns(get_registry(), Path(), reuse=False)
        planned = plan_run(get_registry(), entry, method, seed, Budget(settings.steps), known)
        stem = f"{self.study.name}-t{contender.number:03d}-s{seed}"
        own = self.study.run_of(contender.number, seed)
        name, is_there = _directory(self.study.runs_dir, stem, own)
        self.study.run_of(contender.number, seed, name)
        # No checkpoint is needed but the one at the end of each rung.
        overrides = (*planned.command.overrides, "run.checkpoint_every_steps=null")
        command = replace(planned.command, steps=rung, overrides=overrides)
        return TrainingJob(command, planned.config.run.workers, self.study.runs_dir, name, is_there)

    def _train(self, turn: Turn, seed: int, job: TrainingJob, post: Post) -> str | None:
        """Trains a job, unless it is done. Returns why it has no figures."""
        outcome = Run(job.path).outcome if job.resumes else None
        if outcome and outcome.reason in FINISHED and outcome.steps >= turn.rung:
            return None

        def tell(progress: JobProgress | None) -> None:
            post(lambda: self.watcher.training(turn, seed, progress))

        tell(None)
        return self.engine.train(job, tell)


def promotions(contenders: Sequence[Contender], rungs: Sequence[int], is_last: bool) -> list[Turn]:
    """The trials that may go on: the best of each rung, a third of those that have not failed, the highest rung first.

    One that ended below the next rung cannot go on, and leaves its place to another.

    is_last: no new trial comes. Then a third is rounded up, so that one reaches the last rung.
    """
    found = []
    for rung, following in reversed(list(itertools.pairwise(rungs))):
        sound = [each for each in contenders if rung in each.scores and each.state != "FAIL"]
        quota = (len(sound) + (REDUCTION - 1) * is_last) // REDUCTION
        able = [each for each in sound if following in each.scores or each.state == "RUNNING"]
        best = sorted(able, key=lambda each: -each.scores[rung])[:quota]
        found += [Turn(each.number, following) for each in best if following not in each.scores]
    return found


def _directory(runs_dir: Path, name: str, own: str | None) -> tuple[str, bool]:
    """The name of a run's directory, and whether there is a run to go on with. One without a checkpoint cannot.

    own: the directory that the trial has had. All others are of another study, and are left as they are.
    """
    for each in filter(None, (own, name, *(f"{name}-{copy}" for copy in range(2, 1000)))):
        run = Run(runs_dir / each)
        if not run.path.exists():
            return each, False
        if each != own:
            continue
        end_s = time.monotonic() + SAVING_S
        while run.is_running() and time.monotonic() < end_s:  # of a process that was killed; it saves its state
            time.sleep(0.1)
        with suppress(RunDirectoryError):
            if run.meta and checkpoint_steps(run):
                return each, True
    raise ZooError(f"cannot find a free name for {name} in {runs_dir}; give another --study")


def _last_return(run: Path) -> float:
    """The mean return of the evaluation of a run's last checkpoint, sampled actions."""
    return [each for each in evaluations_of(run) if not each.evaluation.deterministic][-1].evaluation.mean_return
