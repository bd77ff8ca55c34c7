"""What a comparison will run: every method, environment and seed, and which of it has been run before."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from a3c_zoo.comparison.reading import LeftOut, read_run
from a3c_zoo.comparison.timing import speed_variables, timing_of
from a3c_zoo.config.sets import dump_config, plugins_of, resolve_config
from a3c_zoo.errors import ConfigError, RunDirectoryError, ZooError, unknown_name
from a3c_zoo.runs.directory import RunDirectory, describe_host, run_paths

if TYPE_CHECKING:
    from a3c_zoo.config import Config
    from a3c_zoo.plugins.entries import AgentEntry, EnvEntry
    from a3c_zoo.plugins.registry import Registry
    from a3c_zoo.records import Outcome

#: Checkpoints of a run that are evaluated, in equal parts of its budget; the last one is its end.
CHECKPOINTS = 10
#: Seconds; a shorter training leaves nothing to evaluate.
MIN_TIME_LIMIT_S = 1.0
#: How a run ends that spent its budget.
FINISHED = ("steps", "time-limit", "episodes")
#: Where no earlier run tells.
GUESSED_STEPS_PER_S, GUESSED_STARTUP_S = 1000.0, 5.0


@dataclass(frozen=True, slots=True)
class Budget:
    """For how long each run is trained: agent steps, or seconds of training. With neither, the environment's own."""

    steps: int | None = None
    time_limit_s: float | None = None

    def __str__(self) -> str:
        return f"{self.time_limit_s:g} s" if self.steps is None else f"{self.steps:,} steps"


@dataclass(frozen=True, slots=True)
class Method:
    """An agent or a baseline, and whose environments it trains on.

    Attributes:
        name: as users write it: the agent's name, with `@zoo` where a library's algorithm trains on the zoo's
            environments rather than on its own.
    """

    name: str
    agent: AgentEntry
    stack: str | None


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run to be.

    Attributes:
        options: what `a3c-zoo train` is told, without the names of directories.
        done: the finished run that has exactly this configuration, None where it must be trained.
        guess_s: seconds that it will take. is_guessed: no earlier run told how fast it is.
    """

    env: str
    method: str
    seed: int
    budget: Budget
    config: Config
    options: tuple[str, ...]
    done: Path | None
    guess_s: float
    is_guessed: bool

    @property
    def title(self) -> str:
        """In words."""
        return f"{self.method} on {self.env}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a comparison needs, in the order in which it is run. left_out: see `_Finished`."""

    runs: tuple[PlannedRun, ...]
    runs_dir: Path
    left_out: tuple[LeftOut, ...] = ()

    @property
    def missing(self) -> list[PlannedRun]:
        """What must be trained."""
        return [run for run in self.runs if run.done is None]

    @property
    def guess_s(self) -> float:
        """Seconds that the training will take."""
        return sum(run.guess_s for run in self.missing)

    @property
    def is_guessed(self) -> bool:
        """Whether the speed of some method is not known yet."""
        return any(run.is_guessed for run in self.missing)


def make_plan(
    registry: Registry,
    envs: Sequence[str],
    agents: Sequence[str],
    baselines: Sequence[str],
    seeds: Sequence[int],
    budget: Budget,
    runs_dir: Path,
    reuse: bool,
) -> Plan:
    """Plans seed after seed, in each the environments, in each the methods: whatever else the machine does, it does to
    all methods alike.

    Raises:
        ZooError: a name that nothing answers to, or something given twice.
        ConfigError: a configuration that cannot be trained, or a budget that is too small for it.
    """
    _refuse_twice("environment", envs)
    _refuse_twice("seed", seeds)
    entries = [registry.env(name) for name in envs]
    known = _Finished(runs_dir, reuse)
    runs: list[PlannedRun] = []
    for seed in seeds:
        for entry in entries:
            budget_here = _budget(entry, budget)
            methods = _methods(registry, entry, agents, baselines)
            found = [_plan_run(registry, entry, method, seed, budget_here, known) for method in methods]
            _refuse_twice("method", [run.method for run in found])
            runs += found
    if len({run.method for run in runs}) < 2:
        names = runs[0].method if runs else "nothing"
        raise ZooError(f"there is nothing to compare {names} with: give a --baseline, or a second --agent")
    return Plan(tuple(runs), runs_dir, tuple(known.left_out))


def listed(names: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def method_name(agent: AgentEntry, config: Config) -> str:
    """What a run's method is called; see `Method.name`."""
    return f"{agent.name}@zoo" if "own" in agent.stacks and config.env.stack == "zoo" else agent.name


def _methods(registry: Registry, entry: EnvEntry, agents: Iterable[str], baselines: Iterable[str]) -> list[Method]:
    names = [*(("agent", name) for name in agents), *(("baseline", name) for name in baselines)]
    if not any(kind == "agent" for kind, _ in names):
        names.insert(0, ("agent", entry.default_agent))
    return [_method(registry, kind, name) for kind, name in names]


def _method(registry: Registry, kind: str, text: str) -> Method:
    name, at, stack = text.partition("@")
    known = {each.name: each for each in registry.agents.values() if each.kind == kind}
    if name not in known:
        if name in registry.agents:
            other, articles = registry.agents[name].kind, {"agent": "an agent", "baseline": "a baseline"}
            raise ZooError(f"'{name}' is {articles[other]}, not {articles[kind]}: --{other} {name}")
        raise unknown_name(kind, name, known, listing=f"a3c-zoo list {kind}s")
    if at and stack not in ("own", "zoo"):
        raise ZooError(f"'{text}': after the @ comes whose environments it trains on, zoo or own")
    return Method(text, known[name], stack or None)


def _budget(entry: EnvEntry, budget: Budget) -> Budget:
    if budget.time_limit_s is not None and budget.time_limit_s < MIN_TIME_LIMIT_S:
        raise ZooError(f"--time-limit {budget.time_limit_s:g}s: too small for one evaluation; give 1s or more")
    if budget.steps is not None or budget.time_limit_s is not None:
        return budget
    if entry.budget_steps is None:
        raise ZooError(f"environment '{entry.name}' has no default budget: give --steps N or --time-limit 10m")
    return Budget(steps=entry.budget_steps)


def _plan_run(
    registry: Registry, entry: EnvEntry, method: Method, seed: int, budget: Budget, known: _Finished
) -> PlannedRun:
    settings = _settings(registry, entry, method, budget)
    overrides = [f"{key}={'null' if value is None else str(value).lower()}" for key, value in settings.items()]
    config = resolve_config(
        registry, entry, method.agent, overrides=overrides, flags={"run.seed": (seed, "--seeds")} | _flags(budget)
    )
    if budget.steps is not None and budget.steps < (least := _rollout(config)):
        raise ConfigError(
            f"--steps {budget.steps}: too small for one evaluation; {method.name} learns from {least:,} steps at a time"
        )
    options = [entry.name, "--agent", method.agent.name, "--seed", str(seed)]
    options += ["--steps", str(budget.steps)] if budget.steps else ["--time-limit", f"{budget.time_limit_s:.3f}s"]
    options += [text for override in overrides for text in ("-o", override)]
    name, plugins = method_name(method.agent, config), plugins_of(registry, config)
    guess_s, is_guessed = known.guess_s(entry.name, method.agent.name, budget)
    done = known.same(config, plugins)
    return PlannedRun(entry.name, name, seed, budget, config, tuple(options), done, guess_s, is_guessed)


def _flags(budget: Budget) -> dict[str, tuple[Any, str]]:
    if budget.steps is not None:
        return {"run.steps": (budget.steps, "--steps")}
    return {"run.time_limit_s": (budget.time_limit_s, "--time-limit")}


def _settings(registry: Registry, entry: EnvEntry, method: Method, budget: Budget) -> dict[str, Any]:
    """What a comparison sets beside seed and budget: no end but the budget's, checkpoints in equal parts of it, and
    nothing that plays beside training.
    """
    usual = resolve_config(registry, entry, method.agent)
    settings: dict[str, Any] = {"run.stop_when_solved": False}
    if method.stack:
        settings["env.stack"] = method.stack
    if budget.steps is not None:
        settings["run.checkpoint_every_steps"] = -(-budget.steps // CHECKPOINTS)
        others = ("episodes", "time_limit_s")
    else:
        assert budget.time_limit_s is not None
        settings["run.checkpoint_every_s"] = round(budget.time_limit_s / CHECKPOINTS, 3)
        others = ("steps", "episodes")
        # Schedules that fall over a set's own budget still do.
        for name, section in usual.sections().items():
            if usual.run.steps is not None and getattr(section, "schedule_steps", 0) is None:
                settings[f"{name}.schedule_steps"] = usual.run.steps
    unset = (*others, "evaluation_every_s", "evaluation_every_steps")
    return settings | {f"run.{key}": None for key in unset if getattr(usual.run, key) is not None}


def _rollout(config: Config) -> int:
    """Agent steps of one rollout of every worker."""
    return config.run.workers * config.env.num_envs * config.agent.rollout_steps


def _refuse_twice(kind: str, given: Sequence[Any]) -> None:
    twice = [each for number, each in enumerate(given) if each in given[:number]]
    if twice:
        raise ZooError(f"{kind} {twice[0]!r} is given twice".replace("'", ""))


class _Run(NamedTuple):
    directory: RunDirectory
    meta: dict[str, Any]
    outcome: Outcome


class _Finished:
    """The finished runs of a directory. Without `reuse` they tell how fast a method is, and no more.

    Attributes:
        left_out: those that would have been used, but are damaged.
    """

    def __init__(self, runs_dir: Path, reuse: bool) -> None:
        self.left_out: list[LeftOut] = []
        host, self._reuse = describe_host(), reuse
        self._machine = (host["versions"], host["host"]["cpu"], host["host"]["cores"])
        found = [run for path in run_paths(runs_dir) if (run := _finished(path)) is not None]
        self._runs = sorted(found, key=lambda run: str(run.meta["started"]))

    def same(self, config: Config, plugins: Mapping[str, str]) -> Path | None:
        """The newest run with exactly this configuration, of these versions, in surroundings such as these."""
        for run in reversed(self._runs if self._reuse else []):
            if not self._is_same(run, config, plugins):
                continue
            try:
                return read_run(run.directory.path).path
            except RunDirectoryError as error:  # damaged since; it is trained anew
                self.left_out.append(LeftOut(run.directory.path, str(error)))
        return None

    def _is_same(self, run: _Run, config: Config, plugins: Mapping[str, str]) -> bool:
        host, names = run.meta["host"], (config.env_name, config.agent_name, False, plugins)
        return (
            tuple(run.meta[key] for key in ("env", "agent", "serial", "plugins")) == names
            and (run.meta["versions"], host["cpu"], host["cores"]) == self._machine
            and timing_of(run.directory.path)[1] == speed_variables()  # and none of a run that was resumed by hand
            and run.directory.config_file.read_text(encoding="utf-8") == dump_config(config)
        )

    def guess_s(self, env: str, agent: str, budget: Budget) -> tuple[float, bool]:
        """Seconds of a run, and whether that is a mere guess."""
        outcomes = [run.outcome for run in self._runs if (run.meta["env"], run.meta["agent"]) == (env, agent)]
        startup_s = statistics.median([each.total_s - each.training_s for each in outcomes] or [GUESSED_STARTUP_S])
        if budget.steps is None:
            return startup_s + (budget.time_limit_s or 0.0), False
        speed = statistics.median([each.steps_per_s for each in outcomes] or [GUESSED_STEPS_PER_S])
        return startup_s + budget.steps / max(speed, 1e-3), not outcomes


def _finished(path: Path) -> _Run | None:
    directory = RunDirectory(path)
    try:
        meta, outcome = directory.meta(), directory.outcome()
    except RunDirectoryError:
        return None
    is_whole = {"versions", "host", "plugins", "started"} <= meta.keys() and directory.config_file.is_file()
    if outcome is None or outcome.reason not in FINISHED or not is_whole:
        return None
    return _Run(directory, meta, outcome)
