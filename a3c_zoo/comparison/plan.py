"""The plan of a comparison: every method, environment and seed, and which of these runs exist already."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from a3c_zoo.comparison.known_runs import KnownRuns
from a3c_zoo.comparison.methods import Method, method_of_kind, parsed_method, refuse_equal
from a3c_zoo.config import Config
from a3c_zoo.config.models import BESIDE_TRAINING, BUDGETS
from a3c_zoo.config.sets import comparison_steps, dump_config, resolve_config, tuning_cost
from a3c_zoo.config.train_command import TrainCommand
from a3c_zoo.errors import ConfigError, ZooError
from a3c_zoo.plugins.entries import EnvEntry
from a3c_zoo.plugins.registry import Registry, get_registry
from a3c_zoo.plugins.typed_names import env_name
from a3c_zoo.runs.evaluate_checkpoints import CHECKPOINTS
from a3c_zoo.store.run import method_name
from a3c_zoo.words import listed

MAX_SEEDS: Final = 1000
#: A shorter training leaves nothing to evaluate.
MIN_TIME_LIMIT_S: Final = 1.0
#: Seconds between checkpoints that no run is long enough to have: 30 years.
NEVER_S: Final = 1e9
#: The options to use in place of `-o KEY=VALUE`, for keys that a plan sets.
INSTEAD: Final = dict.fromkeys([f"run.{key}" for key in BUDGETS], "--steps")


@dataclass(frozen=True, slots=True)
class Budget:
    """How long each run trains: agent steps, or seconds of training. Without either: the environment's own budget."""

    steps: int | None = None
    time_limit_s: float | None = None

    def __str__(self) -> str:
        if self.steps is None:
            return f"{self.time_limit_s:g} s"
        return f"{self.steps:,} steps"


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of a plan.

    Attributes:
        command: what the training is given; `config` is made from it.
        done: the finished run that has exactly this configuration; None if it must be trained.
        guess_s: how long it will take, in seconds; None if no earlier run tells how fast the method is.
        schedule_steps: the length of schedules in the method's set, in agent steps, if the comparison replaces this
            length by the budget; None if it replaces none.
        tuning: the cost of finding the method's set, see `tuning_cost`.
    """

    env: str
    method: str
    seed: int
    budget: Budget
    config: Config
    command: TrainCommand
    done: Path | None
    guess_s: float | None
    schedule_steps: int | None = None
    tuning: Mapping[str, int] | str = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MethodPlan:
    """What all runs of a method on an environment have, whatever their seeds.

    Attributes:
        overrides: the method's, and those of the comparison. schedule_steps, tuning: see `PlannedRun`.
    """

    env: str
    method: Method
    budget: Budget
    overrides: tuple[str, ...]
    schedule_steps: int | None
    tuning: Mapping[str, int] | str

    def command(self, seed: int) -> TrainCommand:
        """What the training with a seed is given."""
        return TrainCommand(
            self.env,
            self.method.agent.name,
            seed,
            self.budget.steps,
            self.budget.time_limit_s,
            self.method.hyperparams,
            self.overrides,
        )

    def config(self, registry: Registry, seed: int) -> Config:
        """The configuration of the run with a seed.

        Raises:
            ConfigError: it cannot be trained, or the budget is too small for it.
        """
        config = self.command(seed).config(registry)
        steps = self.budget.steps
        least = config.rollout_steps
        if steps is not None and steps < least:
            learns = f"{self.method.text} learns from {least:,} steps at a time"
            raise ConfigError(f"--steps {steps}: too small for one evaluation; {learns}")
        return config

    def run(self, registry: Registry, seed: int, known: KnownRuns) -> PlannedRun:
        """The run with a seed. known: the runs that are there. Raises ConfigError as `config` does."""
        config = self.config(registry, seed)
        return PlannedRun(
            self.env,
            self.method.label or method_name(self.method.agent.name, config.env.stack),
            seed,
            self.budget,
            config,
            self.command(seed),
            known.same(config),
            known.guess(config, self.budget.steps, self.budget.time_limit_s),
            self.schedule_steps,
            self.tuning,
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """All runs of a comparison.

    Attributes:
        runs: seed by seed, in each the environments, in each the methods; see `training_order`.
        reuse: whether finished runs are used again. host: the machines that train; None: they equal this machine.
        left_out: damaged run that would have been used → reason.
        outdated: finished run that would have been used if other sources had not made it → reason.
        has_steps: whether the user gave `--steps`, beside which there can be no `--time-limit`.
    """

    runs: tuple[PlannedRun, ...]
    runs_dir: Path
    reuse: bool
    left_out: dict[Path, str] = field(default_factory=dict)
    outdated: dict[Path, str] = field(default_factory=dict)
    host: Mapping[str, Any] | None = None
    has_steps: bool = False

    @property
    def training_order(self) -> list[int]:
        """The places in `runs`, in the order of training: seed by seed, those of a seed shuffled, each time alike.

        A drift of the machine hits all methods alike then, and none is always the first of its seed.
        """
        blocks: dict[int, list[int]] = {}
        for place, run in enumerate(self.runs):
            blocks.setdefault(run.seed, []).append(place)
        return [place for seed, block in blocks.items() for place in Random(seed).sample(block, len(block))]

    @property
    def schedules(self) -> str:
        """The rule for the lengths of schedules, and which sets have another one."""
        if self.runs[0].budget.steps is None:
            return "The budget is in seconds, so schedules keep the lengths of the methods' sets."
        sets = dict.fromkeys(
            f"{run.method} on {run.env} after {run.schedule_steps:,} steps"
            for run in self.runs
            if run.schedule_steps
        )
        if sets:
            also = f" By the methods' sets they end elsewhere: {listed(sets)}."
        else:
            also = ""
        return f"All schedules, such as that of the learning rate, end with the budget.{also}"

    @property
    def tuning(self) -> dict[str, dict[str, Mapping[str, int] | str]]:
        """Environment → method → what finding its set cost, where the set says so."""
        costs: dict[str, dict[str, Mapping[str, int] | str]] = {}
        for run in self.runs:
            if run.tuning:
                costs.setdefault(run.env, {})[run.method] = run.tuning
        return costs

    @property
    def digest(self) -> str:
        """A text that is equal for plans of the same runs."""
        told = "\n".join(f"{run.method}\n{dump_config(run.config)}" for run in self.runs)
        return hashlib.blake2b(told.encode(), digest_size=8).hexdigest()

    @property
    def missing(self) -> list[PlannedRun]:
        """The runs that must be trained."""
        return [run for run in self.runs if run.done is None]

    def guess_s(self, slots: int = 1) -> float:
        """How long training takes with so many runs at once, in seconds, without the methods of unknown speed."""
        return side_by_side_s([run.guess_s or 0.0 for run in self.missing], slots)

    @property
    def unknown(self) -> list[str]:
        """The methods whose speed is not known yet, because there is no earlier run."""
        return list(dict.fromkeys(run.method for run in self.missing if run.guess_s is None))


def side_by_side_s(times_s: Sequence[float], slots: int) -> float:
    """How long runs of these lengths take, `slots` of them at once: at least as long as the longest."""
    if times_s:
        return max(sum(times_s) / min(slots, len(times_s)), *times_s)
    return 0.0


def make_plan(
    *,
    envs: Sequence[str],
    agents: Sequence[str],
    baselines: Sequence[str],
    methods: Sequence[str] = (),
    seeds: Sequence[int],
    steps: int | None,
    time_limit: float | None,
    runs_dir: Path,
    reuse: bool,
    host: Mapping[str, Any] | None = None,
) -> Plan:
    """Plans seed by seed, in each the environments, in each the methods.

    Args:
        methods: as users write them (`methods.FORM`), in place of agents and baselines. host: see `Plan`.

    Raises:
        ZooError: a name is unknown, something is given twice or is missing, or two methods are the same.
        ConfigError: a configuration cannot be trained, or a budget is too small for it.
    """
    if not envs:
        raise ZooError("name an environment to compare on, or runs to read: --from. See: a3c-zoo list envs")
    if not 0 < len(seeds) <= MAX_SEEDS:
        raise ZooError(f"--seeds: give 1 to {MAX_SEEDS:,} of them")
    registry = get_registry()
    envs = [env_name(registry, name) for name in envs]
    _refuse_twice("environment", envs)
    _refuse_twice("seed", seeds)
    entries = [(entry, _budget(registry, entry, steps, time_limit)) for entry in map(registry.env, envs)]
    if methods and (agents or baselines):
        raise ZooError(
            "--method names agents and baselines with their settings: leave out --agent and --baseline"
        )
    named = [parsed_method(registry, text) for text in methods]
    of_baselines = [method_of_kind(registry, "baseline", name) for name in baselines]
    known = KnownRuns(registry, runs_dir, reuse, host)
    plans: dict[str, list[MethodPlan]] = {}
    for entry, budget in entries:
        compared = named
        if not named:
            own = [method_of_kind(registry, "agent", name) for name in agents or [entry.default_agent]]
            compared = [*own, *of_baselines]
        plans[entry.name] = [plan_method(registry, entry, method, budget) for method in compared]
    runs: list[PlannedRun] = []
    for seed in seeds:
        for env, methods_there in plans.items():
            planned = [each.run(registry, seed, known) for each in methods_there]
            _refuse_twice("method", [run.method for run in planned])
            refuse_equal({run.method: run.config for run in planned}, env)
            runs += planned
    if len({run.method for run in runs}) < 2:
        others = "a --baseline, a second --agent, or several --method"
        raise ZooError(f"there is nothing to compare {runs[0].method} with: give {others}")
    return Plan(
        tuple(runs), runs_dir, reuse, known.left_out, known.outdated, host, has_steps=steps is not None
    )


def _refuse_twice(kind: str, given: Sequence[Any]) -> None:
    twice = [each for number, each in enumerate(given) if each in given[:number]]
    if twice:
        raise ZooError(f"{kind} {twice[0]} is given twice")


def _budget(registry: Registry, entry: EnvEntry, steps: int | None, time_limit_s: float | None) -> Budget:
    if steps is not None and time_limit_s is not None:
        raise ZooError("--steps and --time-limit: give one of them; a run ends where its budget does")
    if time_limit_s is not None:
        if time_limit_s < MIN_TIME_LIMIT_S:
            raise ZooError(f"--time-limit {time_limit_s:g}s: too small for one evaluation; give 1s or more")
        # A run gets milliseconds on its command line. With more digits no finished run would have the same limit.
        return Budget(time_limit_s=round(time_limit_s, 3))
    if steps is None and (steps := comparison_steps(registry, entry)) is None:
        raise ZooError(
            f"environment '{entry.name}' has no default budget: give --steps N or --time-limit 10m"
        )
    return Budget(steps=steps)


def plan_method(registry: Registry, entry: EnvEntry, method: Method, budget: Budget) -> MethodPlan:
    """Plans a method on an environment.

    Raises:
        ConfigError: its settings are none, or one of them is the comparison's.
    """
    given = list(method.overrides)
    usual = resolve_config(registry, entry, method.agent, hyperparams=method.hyperparams, overrides=given)
    schedules = _schedules(usual, budget)
    ends = {key: budget.steps or length for key, length in schedules.items()}
    settings = _settings(usual, method, budget)
    _refuse_ineffective(usual, [*settings, *schedules, "run.seed", "run.steps"])
    overrides = given + [
        f"{key}={'null' if value is None else str(value).lower()}" for key, value in (settings | ends).items()
    ]
    return MethodPlan(
        entry.name,
        method,
        budget,
        tuple(overrides),
        max(schedules.values(), default=None) if budget.steps else None,
        tuning_cost(registry, entry, method.agent, method.hyperparams, given),
    )


def _refuse_ineffective(usual: Config, keys: Sequence[str]) -> None:
    """Raises ConfigError if `-o` gives a key that the plan sets."""
    for key in keys:
        if usual.sources.get(key) == "-o":
            if key in INSTEAD:
                cure = f"; use {INSTEAD[key]}"
            else:
                cure = "; leave it out"
            raise ConfigError(f"-o {key}: this command sets it for every run{cure}")


def _schedules(usual: Config, budget: Budget) -> dict[str, int]:
    """The schedules of a method whose length the comparison sets, "section.key" → their length by the method's set.

    One rule holds for all methods. With a budget in steps, all schedules end with it. With one in seconds, its end in
    steps is not known, so each schedule keeps the length of its set: its own, else that of the set's `run.steps`.
    """
    lengths = {
        f"{name}.schedule_steps": section["schedule_steps"]
        for name, section in usual.to_dict().items()
        if isinstance(section, dict) and "schedule_steps" in section
    }
    if budget.steps is not None:
        return {key: length for key, length in lengths.items() if length not in (None, budget.steps)}
    return {key: usual.run.steps for key, length in lengths.items() if length is None and usual.run.steps}


def _settings(usual: Config, method: Method, budget: Budget) -> dict[str, Any]:
    """The settings of every run of a comparison beside seed, budget and schedules, "section.key" → value.

    A run ends with its budget and nowhere else. Checkpoints come at equal parts of it, and no others: nobody would
    evaluate these, and a run that is interrupted is trained anew. Nothing plays beside training.
    """
    settings: dict[str, Any] = {"run.stop_when_solved": False, "run.keep_checkpoints": None}
    if method.stack:
        settings["env.stack"] = method.stack
    if getattr(usual.agent, "teams", None) and usual.sources.get("run.workers") != "-o":
        # All runs of the comparison have as many, wherever they train.
        settings["run.workers"] = usual.run.workers
    if budget.steps is not None:
        settings["run.checkpoint_every_steps"] = -(-budget.steps // CHECKPOINTS)
        settings["run.checkpoint_every_s"] = NEVER_S
        budget_key = "steps"
    else:
        assert budget.time_limit_s is not None
        settings["run.checkpoint_every_s"] = round(budget.time_limit_s / CHECKPOINTS, 3)
        if usual.run.checkpoint_every_steps is not None:
            settings["run.checkpoint_every_steps"] = None
        budget_key = "time_limit_s"
    given = usual.run.model_dump()
    unset = [key for key in (*BUDGETS, *BESIDE_TRAINING) if key != budget_key]
    return settings | {f"run.{key}": None for key in unset if given[key] is not None}
