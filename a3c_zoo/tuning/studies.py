"""Studies: what a tuning keeps in Optuna's storage, and which process works on which trial.

A trial is added with all of its values at once, and its score on a rung is one record: a kill leaves nothing half done.
"""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import filelock
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from a3c_zoo.config.search import SearchedKey
from a3c_zoo.config.yaml import display
from a3c_zoo.engines.shared_folder import TURNS_DIR
from a3c_zoo.errors import ZooError, unknown_name
from a3c_zoo.store.directory import disk_errors
from a3c_zoo.tuning.contenders import Contender, sound
from a3c_zoo.tuning.storages import (
    ELSEWHERE,
    JOURNAL,
    PATIENCE_S,
    STUDIES_DIR,
    Lock,
    elsewhere,
    keep_elsewhere,
    open_storage,
    place_of,
    storage_errors,
)

#: Attribute of a study: how it was made (`StudySettings`).
SETTINGS: Final = "a3c-zoo settings"
#: Attribute of a study: the latest values of the options that may change.
OPTIONS: Final = "a3c-zoo options"
#: Attribute of a study: how its search ended, see `has_searched`.
SEARCHED: Final = "a3c-zoo searched"
#: Attribute of a study: how it ended.
RESULT: Final = "a3c-zoo result"
#: Attribute of a trial: where its runs lie.
PLACE: Final = "place"
#: Attribute of a trial: seed → name of the run's directory.
RUNS: Final = "runs"
#: Attribute of a trial: the mark by which the process that adds it finds its number.
MARK: Final = "mark"
#: Option → class of Optuna. The number of trials is its seed: the same scores give the same proposal.
SAMPLERS: Final = {"tpe": "TPESampler", "random": "RandomSampler", "gp": "GPSampler"}
#: Fewer scores than this say nothing about the importance of keys.
MIN_SCORES: Final = 10
#: The best part of the trials, whose values are compared with those of all trials.
BEST_PART: Final = 0.25


@dataclass(frozen=True, slots=True)
class StudySettings:
    """What all processes of a study share: options of `a3c-zoo tune`, and what follows from them.

    Attributes:
        rungs: the agent steps at which a trial is judged, rising; the last is `steps`.
        config: the values with which the search begins. space: "section.key" → kind → values.
    """

    env: str
    agent: str
    hyperparams: str | None
    overrides: list[str]
    steps: int
    rungs: list[int]
    seeds: int
    episodes: int
    sampler: str
    config: dict[str, Any]
    space: dict[str, Any]


class TuningStudy:
    """A study in its storage, seen from a folder of runs. Its errors are those that `storage_errors` knows.

    Attributes:
        where: names the storage in messages.
    """

    def __init__(self, name: str, storage: str | None, runs_dir: Path, settings: StudySettings | None = None) -> None:
        """Opens a study, or makes it with these settings. Raises ZooError if others made it, or nobody.

        A study without a trial is made anew: who has seen how long it will take may want other settings.
        """
        self.name = name
        self.where = place_of(storage, name)
        self.runs_dir = runs_dir
        self._place = f"{platform.node()}:{runs_dir.resolve()}"
        with storage_errors(f"--storage {self.where}"):
            opened = open_storage(storage, name, is_new=settings is not None)
            names = optuna.get_all_study_names(opened)
            if name not in names and settings is None:
                raise unknown_name("study", name, names, listing="a3c-zoo list studies")
            self._study = optuna.create_study(
                storage=opened, study_name=name, direction="maximize", load_if_exists=True
            )
            if settings is not None and not self._trials():
                self._study.set_user_attr(SETTINGS, asdict(settings))
            try:
                self.settings = StudySettings(**self.attribute(SETTINGS))
            except TypeError:
                raise ZooError(f"study '{name}' ({self.where}) is not one of a3c-zoo tune; name another") from None
        if settings is not None:
            self._refuse_others(settings)
            if storage is not None and Path(self.where).resolve() != Path(place_of(None, name)).resolve():
                keep_elsewhere(name, storage, {"env": settings.env, "agent": settings.agent})

    def _refuse_others(self, wanted: StudySettings) -> None:
        for key, mine in asdict(wanted).items():
            if (theirs := getattr(self.settings, key)) != mine:
                if isinstance(mine, dict):
                    values = ""
                else:
                    values = f": {display(theirs)}, not {display(mine)}"
                text = f"study '{self.name}' ({self.where}) was made with another {key}{values}"
                raise ZooError(f"{text}; name a new one: --study NAME")

    def refuse_made_anew(self) -> None:
        """Raises ZooError if another process has made this study anew, while this one asked its user."""
        if self.attribute(SETTINGS) != asdict(self.settings):
            raise ZooError(f"study '{self.name}' ({self.where}) has other settings now; name a new one: --study NAME")

    def attribute(self, key: str, value: Any = None) -> Any:
        """What the study keeps under a name such as `RESULT`, None before. value: plain data to keep from now on."""
        if value is not None:
            self._study.set_user_attr(key, value)
        return self._study.user_attrs.get(key)

    def _trials(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False)

    def contenders(self) -> list[Contender]:
        """All trials."""
        return [self._contender(trial) for trial in self._trials()]

    def _contender(self, trial: FrozenTrial) -> Contender:
        texts = {key: _text(key, value, trial.distributions[key]) for key, value in trial.params.items()}
        is_here = trial.user_attrs.get(PLACE) == self._place
        return Contender(trial.number, texts, trial.intermediate_values, trial.state.name, is_here)

    def open_elsewhere(self) -> dict[str, list[int]]:
        """Machine and folder of runs, other than those here → the numbers of their trials that have not ended."""
        found: dict[str, list[int]] = {}
        for trial in self._trials():
            if trial.state is TrialState.RUNNING and trial.user_attrs.get(PLACE) != self._place:
                found.setdefault(str(trial.user_attrs.get(PLACE)), []).append(trial.number)
        return found

    def lock(self, what: str) -> filelock.BaseFileLock:
        """A lock among the processes that train into this folder of runs. The kernel frees it when its holder ends."""
        folder = self.runs_dir / TURNS_DIR
        with disk_errors(folder, "make"):
            folder.mkdir(parents=True, exist_ok=True)
        return Lock(folder / f"{self.name}-{what}.lock", timeout=PATIENCE_S)

    def take(self, number: int) -> filelock.BaseFileLock | None:
        """Takes a trial, until the lock is released or this process ends; None if another process has it."""
        lock = self.lock(f"t{number}")
        with suppress(filelock.Timeout):
            lock.acquire(timeout=0)
        return lock if lock.is_locked else None

    def add(self, keys: Sequence[SearchedKey]) -> int:
        """Adds a trial with the values that the sampler proposes, and returns its number.

        The sampler learns from trials that may go on, too: it sees them as if they had ended on their rung. Optuna's
        `gp` learns from trials alone that have ended: it sees all of them as if the first rung were the last one.
        """
        known = self._trials()
        distributions = {each.key: _distribution(each) for each in keys}
        sampler = getattr(optuna.samplers, SAMPLERS[self.settings.sampler])(seed=len(known))
        seen = optuna.create_study(direction="maximize", sampler=sampler)
        for trial in known:
            if scores := trial.intermediate_values:
                is_gp = self.settings.sampler == "gp"
                first = scores.get(self.settings.rungs[0])
                pruned = {"state": TrialState.PRUNED, "intermediate_values": scores}
                seen.add_trial(_copy(trial, **({"value": first} if is_gp else pruned)))
        params = seen.ask(distributions).params
        mark = f"{platform.node()}-{time.time_ns()}"
        about: dict[str, Any] = {"distributions": distributions, "user_attrs": {PLACE: self._place, MARK: mark}}
        self._study.add_trial(create_trial(state=TrialState.RUNNING, params=params, **about))
        return next(each.number for each in self._trials() if each.user_attrs.get(MARK) == mark)

    def run_of(self, number: int, seed: int, name: str | None = None) -> str | None:
        """The directory of a trial's run, None before it has one. name: to keep from now on, before the run begins."""
        kept: dict[str, str] = self._trials()[number].user_attrs.get(RUNS, {})
        if name is not None and name != kept.get(str(seed)):
            self._open(number).set_user_attr(RUNS, kept := {**kept, str(seed): name})
        return kept.get(str(seed))

    def report(self, number: int, rung: int, by_seed: Mapping[int, float]) -> None:
        """Keeps what the seeds of a trial reached on a rung. On the last one the trial ends."""
        trial = self._open(number)
        mean = sum(by_seed.values()) / len(by_seed)
        trial.set_user_attr(f"returns after {rung}", {str(seed): value for seed, value in by_seed.items()})
        trial.report(mean, rung)
        if rung == self.settings.steps:
            self._study.tell(number, mean)

    def end(self, number: int, fault: str = "") -> None:
        """Ends a trial that did not get to the last rung; fault: why it could not be trained."""
        self._open(number).set_user_attr("fault", fault)
        self._study.tell(number, state=TrialState.FAIL if fault else TrialState.PRUNED)

    def _open(self, number: int) -> optuna.Trial:
        return optuna.Trial(self._study, self._trials()[number]._trial_id)

    def importances(self) -> dict[str, float]:
        """How much each key mattered on the first rung, which all trials reach; shares of 1.

        Empty for few scores, and if the best quarter is all trials, because its worst one is as good as the last.
        """
        rung = self.settings.rungs[0]
        first = optuna.create_study(direction="maximize")
        scored = [trial for trial in self._trials() if rung in trial.intermediate_values]
        values = sorted(trial.intermediate_values[rung] for trial in scored)
        if len(values) < MIN_SCORES or values[-math.ceil(BEST_PART * len(values))] == values[0]:
            return {}
        first.add_trials([_copy(trial, value=trial.intermediate_values[rung]) for trial in scored])
        evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=BEST_PART)
        return optuna.importance.get_param_importances(first, evaluator=evaluator)


def _copy(trial: FrozenTrial, **values: Any) -> FrozenTrial:
    return create_trial(params=trial.params, distributions=trial.distributions, **values)


def _distribution(key: SearchedKey) -> BaseDistribution:
    """Choices are texts: Optuna keeps no lists."""
    if key.kind == "choice":
        return CategoricalDistribution(list(dict.fromkeys(display(value, 0) for value in key.values)))
    (low, high) = key.values
    kind = IntDistribution if key.is_whole else FloatDistribution
    return kind(low, high, log=key.kind == "log")


def _text(key: str, value: Any, distribution: BaseDistribution) -> str:
    if not isinstance(distribution, FloatDistribution | IntDistribution):
        return str(value)
    ends = distribution.low, distribution.high
    return SearchedKey(key, "uniform", ends, isinstance(distribution, IntDistribution)).text_of(value)


def list_studies() -> list[dict[str, Any]]:
    """A row for each study that this folder knows; one that is damaged has its fault. No database is asked."""
    rows = []
    for folder in sorted(path for path in STUDIES_DIR.glob("*") if path.is_dir()):
        if os.path.lexists(folder / JOURNAL):
            rows.append(_row(folder.name))
        try:
            rows += [_row(folder.name, place, about) for place, about in elsewhere(folder.name).items()]
        except ZooError as error:
            rows.append(_blank(folder.name, str(folder / ELSEWHERE)) | {"fault": str(error)})
    return rows


def _row(name: str, storage: str | None = None, about: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The row of a study in a journal, or of one in a database, with what is known `about` it."""
    row = _blank(name, place_of(storage, name))
    if storage is not None and "://" in storage:
        return row | dict(about or {}) | {"state": "elsewhere"}
    try:
        study = TuningStudy(name, storage, Path("runs"))
    except ZooError as error:
        return row | {"fault": str(error)}
    trials = study.contenders()
    steps, best = max((each.rank for each in sound(trials)), default=(None, None))
    row |= {"env": study.settings.env, "agent": study.settings.agent, "trials": len(trials)}
    return row | {"steps": steps, "best": best, "state": "ended" if study.attribute(RESULT) else "open"}


def _blank(name: str, place: str) -> dict[str, Any]:
    nothing: dict[str, Any] = dict.fromkeys(("env", "agent", "trials", "steps", "best"))
    return {"name": name, **nothing, "state": "damaged", "storage": place, "fault": ""}
