"""Studies: what a tuning keeps in Optuna's storage, and which process works on which trial.

Optuna's sampler proposes the values of a trial, Optuna's pruner says whether it goes on, and Optuna's storage
keeps it. Two things are our own. A trial is added as one record, see `TuningStudy.add`. A process takes a trial by
a lock that the kernel frees: Optuna finds the trials of killed processes only in databases, only after a time
without a sign of life, and makes them fail.
"""

from __future__ import annotations

import functools
import math
import os
import platform
import random
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Concatenate, Final, Literal, ParamSpec, TypeVar

import filelock
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.pruners import BasePruner, SuccessiveHalvingPruner
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial
from pydantic import Field, NonNegativeInt, PositiveInt, TypeAdapter, ValidationError

from a3c_zoo.config import Config
from a3c_zoo.config.models import PLUGINS
from a3c_zoo.config.search import SearchedKey
from a3c_zoo.config.sets import resolve_config
from a3c_zoo.config.yaml import display
from a3c_zoo.engines.shared_folder import LOCKS_DIR
from a3c_zoo.errors import ZooError, unknown_name
from a3c_zoo.files import valid_name
from a3c_zoo.plugins.registry import get_registry, imported_by
from a3c_zoo.store.directory import disk_errors
from a3c_zoo.tuning.choices import MOST_EPISODES, MOST_SEEDS, MOST_TRIALS, SAMPLERS
from a3c_zoo.tuning.contenders import REDUCTION, Contender, sound
from a3c_zoo.tuning.storages import (
    ELSEWHERE,
    JOURNAL,
    PATIENCE_S,
    STUDIES_DIR,
    Lock,
    damage_errors,
    elsewhere,
    keep_elsewhere,
    open_storage,
    storage_errors,
    storage_of,
)
from a3c_zoo.words import listed

_P = ParamSpec("_P")
_R = TypeVar("_R")
#: Attribute of a study: how it was made (`StudySettings`). The number is that of what a study keeps.
SETTINGS: Final = "a3c-zoo settings 2"
#: Attribute of a study: the latest values of the options that may change.
OPTIONS: Final = "a3c-zoo options"
#: Attribute of a study: how its search ended, see `has_searched`.
SEARCHED: Final = "a3c-zoo searched"
#: Attribute of a study: how it ended.
RESULT: Final = "a3c-zoo result"
#: Attribute of a trial: where its runs lie.
PLACE: Final = "place"
#: Attribute of a trial: a part of the name of its lock, drawn when it was added.
MARK: Final = "mark"
#: Attribute of a trial: seed → name of the run's directory.
RUNS: Final = "runs"
#: A number of seeds, and a time limit.
Seeds = Annotated[int, Field(ge=1, le=MOST_SEEDS)]
Seconds = Annotated[float, Field(gt=0)]
#: What makes a score differ from equal ones is less than this, see `TuningStudy.report`.
TIE_BREAK: Final = 1e-9
#: A score without that part is the kept one with so many digits.
DIGITS: Final = 8
#: Fewer scores than this say nothing about the importance of keys.
MIN_SCORES: Final = 10
#: The best part of the trials, whose values are compared with those of all trials.
BEST_PART: Final = 0.25


@dataclass(frozen=True, slots=True)
class StudySettings:
    """What all processes of a study share: options of `a3c-zoo tune`, and what follows from them.

    Attributes:
        rungs: the agent steps at which a trial is judged, rising; the last is `steps`.
        seeds: the number of runs of each trial.
        episodes: the number of episodes in each evaluation.
        config: the values with which the search begins.
        space: "section.key" → kind → values.
    """

    env: str
    agent: str
    hyperparams: str | None
    overrides: list[str]
    steps: PositiveInt
    rungs: Annotated[list[PositiveInt], Field(min_length=1)]
    seeds: Seeds
    episodes: Annotated[int, Field(ge=1, le=MOST_EPISODES)]
    sampler: Literal["tpe", "random", "gp"]
    config: dict[str, Any]
    space: dict[str, Any]


@dataclass(frozen=True, slots=True)
class StudyOptions:
    """The options that may change while a study goes on. No other option comes from a study."""

    trials: Annotated[int, Field(ge=1, le=MOST_TRIALS)]
    timeout: Seconds | None
    final_seeds: Seeds


@dataclass(frozen=True, slots=True)
class SearchEnd:
    """How a search ended, see `has_searched`."""

    trials: NonNegativeInt
    wanted: NonNegativeInt
    timeout: Seconds | None
    first_seed: Annotated[int, Field(ge=1, lt=2**31)]


@dataclass(frozen=True, slots=True)
class StudyEnd:
    """How a study ended: what `play_finale` returns, and `SearchEnd`."""

    study: str
    env: str
    agent: str
    trial: NonNegativeInt
    values: dict[str, str]
    choice: dict[str, float]
    file: str
    options: list[str]
    report: str
    verdict: list[str]
    not_shown_better_than: list[str]
    failed: list[str]
    trials: NonNegativeInt
    wanted: NonNegativeInt
    timeout: Seconds | None
    first_seed: Annotated[int, Field(ge=1, lt=2**31)]
    final_seeds: Seeds


#: Attribute of a study → what it holds.
RECORDS: Final = {OPTIONS: StudyOptions, SEARCHED: SearchEnd, RESULT: StudyEnd}


def resolve_settings(settings: StudySettings) -> Config:
    """The configuration with which the search begins, each value with its source."""
    registry = get_registry()
    return resolve_config(
        registry,
        registry.env(settings.env),
        registry.agent(settings.agent),
        hyperparams=settings.hyperparams,
        overrides=settings.overrides,
    )


def _chosen_hooks(config: Config) -> list[str]:
    """Run hooks whose settings, or the hooks themselves, come from a set, a file or an option."""
    hooks = get_registry().hooks
    return [
        f"{PLUGINS}.{name}"
        for name, section in config.plugins.items()
        if section.model_fields_set or not hooks[name].on_by_default
    ]


def _asks_the_storage(
    method: Callable[Concatenate[TuningStudy, _P], _R],
) -> Callable[Concatenate[TuningStudy, _P], _R]:
    """A method of a study whose errors name the storage, see `storage_errors`."""

    @functools.wraps(method)
    def asking(study: TuningStudy, /, *arguments: _P.args, **options: _P.kwargs) -> _R:
        with storage_errors(f"--storage {study.where}"):
            return method(study, *arguments, **options)

    return asking


class TuningStudy:
    """A study in its storage, seen from a folder of runs.

    Each method raises ZooError if the storage cannot be used.

    Attributes:
        where: names the storage in messages.
    """

    def __init__(
        self, name: str, storage: str | None, runs_dir: Path, settings: StudySettings | None = None
    ) -> None:
        """Opens a study, or makes it with these settings. Raises ZooError if others made it, or nobody.

        A study without a trial is made anew: who has seen how long it will take may want other settings. Without
        settings nothing is written, so a study that may only be read can be looked at.
        """
        self.name = name
        self.where = storage_of(storage, name)
        self.runs_dir = runs_dir
        self._place = f"{platform.node()}:{runs_dir.resolve()}"
        with storage_errors(f"--storage {self.where}"), damage_errors(self.where):
            self._storage = open_storage(storage, name, is_new=settings is not None)
            names = optuna.get_all_study_names(self._storage)
            if name not in names and settings is None:
                raise unknown_name("study", name, names, listing="a3c-zoo list studies")
            if name in names:
                self._study = optuna.load_study(storage=self._storage, study_name=name)
            else:  # perhaps another process has made it by now
                self._study = optuna.create_study(
                    storage=self._storage, study_name=name, direction="maximize", load_if_exists=True
                )
            what = f"study '{name}' ({self.where}) is not one of a3c-zoo tune, or of another version"
            foreign = ZooError(f"{what}; name another")
            if self._study.directions != [StudyDirection.MAXIMIZE]:  # `create_study` takes what is there
                raise foreign
            if settings is not None and not self._trials():
                self.keep(SETTINGS, asdict(settings))
            try:
                self.settings = TypeAdapter(StudySettings).validate_python(self.attribute(SETTINGS))
            except ValidationError:
                raise foreign from None
            self._study.pruner = _pruner(self.settings.rungs)
            self._refuse_other_keys()  # raises what a damaged trial does
        if settings is not None:
            self._refuse_others(settings)
            if storage is not None and Path(self.where).resolve() != Path(storage_of(None, name)).resolve():
                keep_elsewhere(name, storage, {"env": settings.env, "agent": settings.agent})

    def _refuse_other_keys(self) -> None:
        """Raises ZooError for a trial with a key that is not searched: another program has made it."""
        for contender in self.contenders():
            if others := contender.texts.keys() - self.settings.space.keys():
                what = f"trial {contender.number} has a value of {listed(sorted(others))}"
                text = f"study '{self.name}' ({self.where}) is damaged: {what}, which it does not search"
                raise ZooError(f"{text}; name another")

    def refuse_strangers(self) -> None:
        """Raises ZooError if going on would do more than train: a stranger may have made the study.

        That is to import a module as its environment or as a wrapper, or to have run hooks with settings of the study.
        """
        named = [self.settings.env] if imported_by(self.settings.env) else []
        for text in self.settings.overrides:
            if text.partition("=")[0].strip().rpartition(".")[2] == "wrappers":
                named.append(f"-o {text}")
        if named:
            raise self._needs_trust(f"import what {listed(named)} names")
        hooks = _chosen_hooks(resolve_settings(self.settings))
        if hooks:  # such as one that sends metrics to an address
            raise self._needs_trust(f"choose run hooks and their settings ({', '.join(hooks)})")

    def _needs_trust(self, what: str) -> ZooError:
        cure = f"--study {self.name} with its environment and options, in place of --resume"
        return ZooError(f"--storage {self.where}: the study would {what}. If you trust it, type {cure}")

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
            text = f"study '{self.name}' ({self.where}) has other settings now"
            raise ZooError(f"{text}; name a new one: --study NAME")

    @_asks_the_storage
    def attribute(self, key: str) -> Any:
        """What the study keeps under a name such as `RESULT`; None before. Raises ZooError if it is damaged."""
        kept = self._study.user_attrs.get(key)
        if kept is None or key not in RECORDS:
            return kept
        try:
            return asdict(TypeAdapter(RECORDS[key]).validate_python(kept))
        except ValidationError:
            text = (
                f"study '{self.name}' ({self.where}) is damaged: '{key}' has other values than a study keeps"
            )
            raise ZooError(f"{text}; name another") from None

    @_asks_the_storage
    def keep(self, key: str, value: Any) -> None:
        """Keeps plain data under a name such as `RESULT`."""
        self._study.set_user_attr(key, value)

    @_asks_the_storage
    def _trials(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False)

    def contenders(self) -> list[Contender]:
        """All trials."""
        return [self._contender(trial) for trial in self._trials()]

    def _contender(self, trial: FrozenTrial) -> Contender:
        texts = {key: _text(key, value, trial.distributions[key]) for key, value in trial.params.items()}
        scores = {int(rung): round(float(value), DIGITS) for rung, value in trial.intermediate_values.items()}
        is_here = trial.user_attrs.get(PLACE) == self._place
        return Contender(trial.number, texts, scores, trial.state.name, is_here)

    def open_elsewhere(self) -> dict[str, list[int]]:
        """The trials of other machines or folders of runs that have not ended: place → numbers."""
        trials: dict[str, list[int]] = {}
        for trial in self._trials():
            if trial.state is TrialState.RUNNING and trial.user_attrs.get(PLACE) != self._place:
                trials.setdefault(str(trial.user_attrs.get(PLACE)), []).append(trial.number)
        return trials

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Within it no other process takes or ends trials of this folder of runs, or keeps how the search ended."""
        with storage_errors(f"--storage {self.where}"), self.lock("next"):
            yield

    def lock(self, what: str) -> filelock.BaseFileLock:
        """A lock among processes with this folder of runs. The kernel frees it when its holder ends."""
        return self._lock_file(f"{self.name}-{what}")

    def _lock_file(self, name: str) -> filelock.BaseFileLock:
        folder = self.runs_dir / LOCKS_DIR
        with disk_errors(folder, "make"):
            folder.mkdir(parents=True, exist_ok=True)
        return Lock(folder / f"{name}.lock", timeout=PATIENCE_S)

    def take(self, number: int) -> filelock.BaseFileLock | None:
        """Takes a trial, until the lock is released or this process ends; None if another process has it.

        A study of the same name in another storage has trials of the same numbers, but with other marks.
        """
        mark = str(self._trials()[number].user_attrs.get(MARK, ""))
        what = valid_name(f"t{number}-{mark}", f"--storage {self.where}: the mark of trial {number}")
        return _taken(self.lock(what))

    def claim(self, run: str) -> filelock.BaseFileLock | None:
        """Takes the name of a run that is to be made; None if a process has it, perhaps of another study."""
        return _taken(self._lock_file(run))

    @_asks_the_storage
    def add(self, keys: Sequence[SearchedKey]) -> int:
        """Adds a trial with the values that the sampler proposes, and returns its number.

        It is one record. `Study.ask` makes a record for the trial and one for each value: a kill between them
        would leave a trial without some values, and without a place. So a copy of the study is asked.
        """
        trials = self._trials()
        distributions = {each.key: _distribution(each) for each in keys}
        sampler = getattr(optuna.samplers, SAMPLERS[self.settings.sampler])(seed=len(trials))
        copy = optuna.create_study(direction="maximize", sampler=sampler)
        copy.add_trials(trials)
        params = copy.ask(distributions).params
        trial = create_trial(
            state=TrialState.RUNNING,
            params=params,
            distributions=distributions,
            user_attrs={PLACE: self._place, MARK: secrets.token_hex(8)},
        )
        trial_id = self._storage.create_new_trial(self._study._study_id, template_trial=trial)
        return self._storage.get_trial(trial_id).number

    def run_of(self, number: int, seed: int) -> str | None:
        """The directory of a trial's run; None before it has one."""
        name = self._trials()[number].user_attrs.get(RUNS, {}).get(str(seed))
        if name is None:
            return None
        return valid_name(str(name), f"--storage {self.where}: the run of trial {number}")

    @_asks_the_storage
    def keep_run(self, number: int, seed: int, name: str) -> None:
        """Keeps the directory of a trial's run, before the run begins."""
        runs = self._trials()[number].user_attrs.get(RUNS, {})
        if runs.get(str(seed)) != name:
            self._open(number).set_user_attr(RUNS, {**runs, str(seed): name})

    @_asks_the_storage
    def report(self, number: int, rung: int, by_seed: Mapping[int, float]) -> None:
        """Keeps what the seeds of a trial reached on a rung. Ends it on the last rung, and if Optuna prunes it.

        Optuna's pruner lets all trials go on that tie with one that may, and in a hard environment all have the
        same return. So the kept score has a tiny part more, which is drawn from the trial's number. If this process
        is killed before it has asked the pruner, the trial goes on.
        """
        trial = self._open(number)
        mean = fmean(by_seed.values())
        trial.set_user_attr(f"returns after {rung}", {str(seed): value for seed, value in by_seed.items()})
        # It is kept already if a process was killed before it ended the trial.
        is_kept = rung in self._trials()[number].intermediate_values
        if not is_kept:
            trial.report(mean + TIE_BREAK * random.Random(number).random(), rung)
        if rung == self.settings.steps:
            self._study.tell(number, mean)
        elif trial.should_prune():
            self._study.tell(number, state=TrialState.PRUNED)

    @_asks_the_storage
    def end(self, number: int, fault: str = "") -> None:
        """Ends a trial that did not get to the last rung; fault: why it could not be trained."""
        self._open(number).set_user_attr("fault", fault)
        self._study.tell(number, state=TrialState.FAIL if fault else TrialState.PRUNED)

    def _open(self, number: int) -> optuna.Trial:
        return optuna.Trial(self._study, self._trials()[number]._trial_id)

    def importances(self) -> dict[str, float]:
        """How much each key mattered on the first rung, which all trials reach; shares of 1.

        Optuna looks only at trials that were trained to the end, and takes their last value. So it gets a copy of
        the study in which each trial ended on the first rung. Empty for few scores, and if the best quarter is all
        trials, because its worst one is as good as the last.
        """
        rung = self.settings.rungs[0]
        scores = {each.number: each.scores[rung] for each in self.contenders() if rung in each.scores}
        values = sorted(scores.values())
        if len(values) < MIN_SCORES or values[-math.ceil(BEST_PART * len(values))] == values[0]:
            return {}
        copy = optuna.create_study(direction="maximize")
        for trial in self._trials():
            if trial.number in scores:
                scored = create_trial(
                    params=trial.params, distributions=trial.distributions, value=scores[trial.number]
                )
                copy.add_trial(scored)
        evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=BEST_PART)
        return optuna.importance.get_param_importances(copy, evaluator=evaluator)


def _taken(lock: filelock.BaseFileLock) -> filelock.BaseFileLock | None:
    """Takes a lock without waiting; None if another process has it."""
    with suppress(filelock.Timeout):
        lock.acquire(timeout=0)
    return lock if lock.is_locked else None


def _pruner(rungs: Sequence[int]) -> BasePruner:
    """The best third of the trials on a rung goes on, rounded down; of the first two, the better one."""
    least = max(1, rungs[-1] // REDUCTION ** (len(rungs) - 1))
    return SuccessiveHalvingPruner(min_resource=least, reduction_factor=REDUCTION)


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
    """A row for each study that this folder knows. A damaged one has its fault. No database is asked."""
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
    row = _blank(name, storage_of(storage, name))
    if storage is not None and "://" in storage:
        return row | {key: (about or {}).get(key) for key in ("env", "agent")} | {"state": "elsewhere"}
    try:
        study = TuningStudy(name, storage, Path("runs"))
        has_ended = bool(study.attribute(RESULT))
    except ZooError as error:
        return row | {"fault": str(error)}
    trials = study.contenders()
    steps, best = max((each.rank for each in sound(trials)), default=(None, None))
    row |= {"env": study.settings.env, "agent": study.settings.agent, "trials": len(trials)}
    return row | {"steps": steps, "best": best, "state": "ended" if has_ended else "open"}


def _blank(name: str, place: str) -> dict[str, Any]:
    nothing: dict[str, Any] = dict.fromkeys(("env", "agent", "trials", "steps", "best"))
    return {"name": name, **nothing, "state": "damaged", "storage": place, "fault": ""}
