"""The plan of a comparison: every method, environment and seed, and which of these runs exist already."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from a3c_zoo.comparison.evaluations import CHECKPOINTS
from a3c_zoo.comparison.reading import method_name, read_run, speed_variables, timing_of
from a3c_zoo.config import Config
from a3c_zoo.config.provenance import plugin_versions, plugins_of
from a3c_zoo.config.sets import dump_config, entries_of, resolve_config
from a3c_zoo.errors import ConfigError, RunDirectoryError, ZooError, unknown_name
from a3c_zoo.files import MAX_TEXT, read_bytes
from a3c_zoo.plugins.entries import AgentEntry, EnvEntry
from a3c_zoo.plugins.registry import Registry, find_typed_module, get_registry
from a3c_zoo.plugins.sources import SourceDigests
from a3c_zoo.records import Outcome
from a3c_zoo.runs.directory import RunDirectory, describe_host, run_paths

MAX_SEEDS: Final = 1000
#: A shorter training leaves nothing to evaluate.
MIN_TIME_LIMIT_S: Final = 1.0
#: The reasons of an end with the budget spent.
FINISHED: Final = ("steps", "time-limit", "episodes")
#: A guess for a method without an earlier run.
GUESSED_STARTUP_S = 5.0


@dataclass(frozen=True, slots=True)
class Budget:
    """How long each run trains: agent steps, or seconds of training. Without either: the environment's own budget."""

    steps: int | None = None
    time_limit_s: float | None = None

    def __str__(self) -> str:
        return f"{self.time_limit_s:g} s" if self.steps is None else f"{self.steps:,} steps"


@dataclass(frozen=True, slots=True)
class Method:
    """An agent or a baseline as users write it (`sb3-a2c@zoo`), and the value of `env.stack` that they asked for."""

    text: str
    agent: AgentEntry
    stack: str | None


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of a plan.

    Attributes:
        options: the arguments of `a3c-zoo train`, without those that name directories.
        done: the finished run that has exactly this configuration; None if it must be trained.
        guess_s: how long it will take, in seconds; None if no earlier run tells how fast the method is.
    """

    env: str
    method: str
    seed: int
    budget: Budget
    config: Config
    options: tuple[str, ...]
    done: Path | None
    guess_s: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """All runs of a comparison, in the order of training.

    Attributes:
        reuse: whether finished runs are used again. host: the machines that train; None: they are as this one.
        left_out: damaged run that would have been used → reason.
        outdated: finished run that would have been used if other sources had not made it → reason.
    """

    runs: tuple[PlannedRun, ...]
    runs_dir: Path
    reuse: bool
    left_out: dict[Path, str] = field(default_factory=dict)
    outdated: dict[Path, str] = field(default_factory=dict)
    host: Mapping[str, Any] | None = None

    @property
    def missing(self) -> list[PlannedRun]:
        """The runs that must be trained."""
        return [run for run in self.runs if run.done is None]

    @property
    def guess_s(self) -> float:
        """How long the training will take, in seconds, but for the methods whose speed is not known."""
        return sum(run.guess_s or 0.0 for run in self.missing)

    @property
    def unknown(self) -> list[str]:
        """The methods whose speed is not known yet, because there is no earlier run."""
        return list(dict.fromkeys(run.method for run in self.missing if run.guess_s is None))


def make_plan(
    *,
    envs: Sequence[str],
    agents: Sequence[str],
    baselines: Sequence[str],
    seeds: Sequence[int],
    steps: int | None,
    time_limit: float | None,
    runs_dir: Path,
    reuse: bool,
    host: Mapping[str, Any] | None = None,
) -> Plan:
    """Plans seed by seed, in each the environments, in each the methods: other load hits all methods alike.

    host: see `Plan`.

    Raises:
        ZooError: a name is unknown, or something is given twice or is missing.
        ConfigError: a configuration cannot be trained, or a budget is too small for it.
    """
    if not envs:
        raise ZooError("name an environment to compare on, or runs to read: --from. See: a3c-zoo list envs")
    if not 0 < len(seeds) <= MAX_SEEDS:
        raise ZooError(f"--seeds: give 1 to {MAX_SEEDS:,} of them")
    _refuse_twice("environment", envs)
    _refuse_twice("seed", seeds)
    registry = get_registry()
    for name in envs:
        find_typed_module(name)
    entries = [(entry, _budget(entry, steps, time_limit)) for entry in map(registry.env, envs)]
    compared = [_method(registry, "baseline", name) for name in baselines]
    known = KnownRuns(registry, runs_dir, reuse, host)
    runs: list[PlannedRun] = []
    for seed in seeds:
        for entry, budget in entries:
            methods = [*(_method(registry, "agent", name) for name in agents or [entry.default_agent]), *compared]
            found = [_plan_run(registry, entry, method, seed, budget, known) for method in methods]
            _refuse_twice("method", [run.method for run in found])
            runs += found
    if len({run.method for run in runs}) < 2:
        raise ZooError(f"there is nothing to compare {runs[0].method} with: give a --baseline, or a second --agent")
    return Plan(tuple(runs), runs_dir, reuse, known.left_out, known.outdated, host)


def listed(names: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _refuse_twice(kind: str, given: Sequence[Any]) -> None:
    twice = [each for number, each in enumerate(given) if each in given[:number]]
    if twice:
        raise ZooError(f"{kind} {twice[0]} is given twice")


def _budget(entry: EnvEntry, steps: int | None, time_limit_s: float | None) -> Budget:
    if steps is not None and time_limit_s is not None:
        raise ZooError("--steps and --time-limit: give one of them; a run ends where its budget does")
    if time_limit_s is not None:
        if time_limit_s < MIN_TIME_LIMIT_S:
            raise ZooError(f"--time-limit {time_limit_s:g}s: too small for one evaluation; give 1s or more")
        # A run gets milliseconds on its command line. With more digits no finished run would have the same limit.
        return Budget(time_limit_s=round(time_limit_s, 3))
    if steps is None and entry.budget_steps is None:
        raise ZooError(f"environment '{entry.name}' has no default budget: give --steps N or --time-limit 10m")
    return Budget(steps=entry.budget_steps if steps is None else steps)


def _method(registry: Registry, kind: str, text: str) -> Method:
    name, at, stack = text.partition("@")
    known = {each.name: each for each in registry.agents.values() if each.kind == kind}
    if name not in known:
        if name in registry.agents:
            other, articles = registry.agents[name].kind, {"agent": "an agent", "baseline": "a baseline"}
            raise ZooError(f"'{name}' is {articles[other]}, not {articles[kind]}: --{other} {name}")
        raise unknown_name(kind, name, known, listing=f"a3c-zoo list {kind}s")
    if at and stack not in ("own", "zoo"):
        raise ZooError(f"'{text}': write zoo or own after the @, for the environments that it trains on")
    return Method(text, known[name], stack or None)


def _plan_run(
    registry: Registry, entry: EnvEntry, method: Method, seed: int, budget: Budget, known: KnownRuns
) -> PlannedRun:
    agent = method.agent
    overrides = [
        f"{key}={'null' if value is None else str(value).lower()}"
        for key, value in _settings(registry, entry, method, budget).items()
    ]
    options = [entry.name, "--agent", agent.name, "--seed", str(seed)]
    flags: dict[str, tuple[Any, str]] = {"run.seed": (seed, "--seeds")}
    if budget.steps is not None:
        flags["run.steps"] = budget.steps, "--steps"
        options += ["--steps", str(budget.steps)]
    else:
        flags["run.time_limit_s"] = budget.time_limit_s, "--time-limit"
        options += ["--time-limit", f"{budget.time_limit_s:.3f}s"]
    config = resolve_config(registry, entry, agent, overrides=overrides, flags=flags)
    least = config.run.workers * config.env.num_envs * config.agent.rollout_steps  # one rollout of every worker
    if budget.steps is not None and budget.steps < least:
        raise ConfigError(
            f"--steps {budget.steps}: too small for one evaluation; {method.text} learns from {least:,} steps at a time"
        )
    options += [text for override in overrides for text in ("-o", override)]
    return PlannedRun(
        entry.name,
        method_name(agent.name, config.env.stack),
        seed,
        budget,
        config,
        tuple(options),
        known.same(config),
        known.guess(entry.name, agent.name, budget),
    )


def _settings(registry: Registry, entry: EnvEntry, method: Method, budget: Budget) -> dict[str, Any]:
    """The settings of every run of a comparison beside seed and budget, "section.key" → value.

    A run ends with its budget and nowhere else. Checkpoints come at equal parts of it. Nothing plays beside training.
    """
    usual = resolve_config(registry, entry, method.agent)
    settings: dict[str, Any] = {"run.stop_when_solved": False, "run.keep_checkpoints": None}
    if method.stack:
        settings["env.stack"] = method.stack
    if budget.steps is not None:
        settings["run.checkpoint_every_steps"] = -(-budget.steps // CHECKPOINTS)
        other_budgets = ("episodes", "time_limit_s")
    else:
        assert budget.time_limit_s is not None
        settings["run.checkpoint_every_s"] = round(budget.time_limit_s / CHECKPOINTS, 3)
        other_budgets = ("steps", "episodes")
        if usual.run.steps is not None:  # a schedule over a set's own budget stays one over that budget
            for name, section in usual.to_dict().items():
                if isinstance(section, dict) and "schedule_steps" in section and section["schedule_steps"] is None:
                    settings[f"{name}.schedule_steps"] = usual.run.steps
    given = usual.run.model_dump()
    unset = (*other_budgets, "evaluation_every_s", "evaluation_every_steps", "film_every")
    return settings | {f"run.{key}": None for key in unset if given[key] is not None}


@dataclass(frozen=True, slots=True)
class _KnownRun:
    """A finished run.

    Attributes:
        made_with: what must be equal for another run to be the same, see `_made_with`. config: its config.yml.
        sources: package → digest; empty for a run whose meta.json has no digests.
    """

    path: Path
    made_with: tuple[Any, ...]
    config: bytes
    sources: Mapping[str, str]
    started: str
    outcome: Outcome


class KnownRuns:
    """The finished runs of a directory. Without `reuse` they only tell how fast a method is.

    Attributes:
        left_out, outdated: see `Plan`; what calls of `same` have found.
    """

    def __init__(self, registry: Registry, runs_dir: Path, reuse: bool, host: Mapping[str, Any] | None = None) -> None:
        self.left_out: dict[Path, str] = {}
        self.outdated: dict[Path, str] = {}
        self._registry, self._host, self._reuse = registry, dict(host or describe_host()), reuse
        self._digests = SourceDigests()
        found = [run for path in run_paths(runs_dir) if (run := _known_run(path)) is not None]
        self._runs = sorted(found, key=lambda run: run.started)

    def same(self, config: Config) -> Path | None:
        """The newest run with exactly this configuration, of these versions and sources, on a machine such as this."""
        if not self._reuse:
            return None
        meta = self._host | {"env": config.env_name, "agent": config.agent_name, "serial": False}
        meta["plugins"] = plugins_of(self._registry, config)
        meta["versions"] = {**meta["versions"], **plugin_versions(self._registry, config)}
        wanted = _made_with(meta), dump_config(config).encode()
        sources = self._digests.of(self._registry, entries_of(self._registry, config).values())
        outdated = {}
        for run in reversed(self._runs):
            timing = timing_of(run.path)  # None for a run that was interrupted and resumed by hand
            if timing is None or timing.variables != speed_variables() or (run.made_with, run.config) != wanted:
                continue
            if run.sources != sources:
                outdated[run.path] = _difference(run.sources, sources)
                continue
            try:
                return read_run(run.path).path
            except RunDirectoryError as error:  # damaged since it ended; it is trained again
                self.left_out[run.path] = str(error)
        self.outdated |= outdated
        return None

    def guess(self, env: str, agent: str, budget: Budget) -> float | None:
        """How long a run will take, in seconds; None if no earlier run tells."""
        outcomes = [run.outcome for run in self._runs if run.made_with[:2] == (env, agent)]
        startup_s = statistics.median([each.total_s - each.training_s for each in outcomes] or [GUESSED_STARTUP_S])
        if budget.steps is None:
            return startup_s + (budget.time_limit_s or 0.0)
        if not outcomes:
            return None
        return startup_s + budget.steps / max(statistics.median(each.steps_per_s for each in outcomes), 1e-3)


def _known_run(path: Path) -> _KnownRun | None:
    directory = RunDirectory(path)
    try:
        meta, outcome = directory.meta(), directory.outcome()
        if outcome is None or outcome.reason not in FINISHED:
            return None
        config, sources = read_bytes(directory.config_file, MAX_TEXT), meta.get("sources", {})
        return _KnownRun(path, _made_with(meta), config, sources, meta["started"], outcome)
    except (RunDirectoryError, OSError, ValueError, KeyError, TypeError):  # TypeError: a value is of another type
        return None


def _made_with(meta: Mapping[str, Any]) -> tuple[Any, ...]:
    """From a meta.json: environment, agent, and what a run's figures depend on beside its configuration."""
    names = (meta[key] for key in ("env", "agent", "serial", "plugins", "versions"))
    return (*names, meta["host"]["cpu"], meta["host"]["cores"], meta.get("init_from"))


def _difference(theirs: Mapping[str, str], ours: Mapping[str, str]) -> str:
    """Why a run with the digests `theirs` is not the same as one that would be made now, of `ours`."""
    if not theirs:
        return "their meta.json has no digests of sources"
    changed = sorted(name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name))
    return f"the sources of {listed(changed)} have changed since"
