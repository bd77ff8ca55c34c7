"""The Python side of `train`, `evaluate` and `load_agent`; the command line is thin over it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a3c_zoo.errors import ZooError
from a3c_zoo.config.sets import resolve_config
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.runs.directory import DEFAULT_RUNS_DIR, RunDirectory, find_run
from a3c_zoo.runs.train import make_job, train_new, train_on
from a3c_zoo.seeds import USER_EVALUATIONS

if TYPE_CHECKING:
    from a3c_zoo.config import Config
    from a3c_zoo.records import Evaluation, Outcome, Policy
    from a3c_zoo.plugins.registry import Registry
    from a3c_zoo.runs.scenes import Scene
    from a3c_zoo.runs.session import Observer


class SilentObserver:
    """Watches a run and says nothing."""

    def starting(self, title: str, target: float | None, run: Any, path: Path) -> None:
        """Ignored."""

    def progress(self, progress: Any) -> None:
        """Ignored."""

    def message(self, text: str) -> None:
        """Ignored."""


def train(
    env: str | None = None,
    *,
    agent: str | None = None,
    hyperparams: str | Path | None = None,
    overrides: Mapping[str, Any] | Sequence[str] = (),
    workers: int | None = None,
    serial: bool = False,
    device: str | None = None,
    seed: int | None = None,
    steps: int | None = None,
    episodes: int | None = None,
    time_limit_s: float | None = None,
    stop_return: float | None = None,
    resume: str | Path | None = None,
    name: str | None = None,
    runs_dir: str | Path = DEFAULT_RUNS_DIR,
    observer: Observer | None = None,
) -> Outcome:
    """Trains an agent on an environment until it is solved or a budget is spent, as `a3c-zoo train` does.

    In a script, call it below `if __name__ == "__main__":`; workers import the script.

    Args:
        env: name of an environment; may be left out with `resume`.
        agent: name of an agent; by default the environment's.
        hyperparams: name of a set in place of the default one, or a YAML file on top of it.
        overrides: single values, `{"agent.n_steps": 5}` or `["agent.n_steps=5"]`.
        workers, device, seed, steps, episodes, time_limit_s, stop_return: the keys of the `run` section of the same name.
        serial: workers in turn in this process: slow, but exactly reproducible.
        resume: a run directory to go on with, or its name.
        name: name of the new run directory, which must not exist yet. runs_dir: where it is made.
        observer: is told how the run goes; see `a3c_zoo.runs.session.Observer`.

    Raises:
        ZooError: for what the caller did wrong, in one line; WorkerError where a worker failed.
    """
    registry, observer = get_registry(), observer or SilentObserver()
    limits = {"steps": steps, "episodes": episodes, "time_limit_s": time_limit_s, "stop_return": stop_return}
    given = _run_settings(workers=workers, device=device, seed=seed, **limits)
    if resume is not None:
        others = {"--agent": agent, "--hyperparams": hyperparams, "-o": overrides, "--name": name, "--serial": serial}
        refused = [flag for flag, value in others.items() if value]
        directory = _run_to_resume(resume, Path(runs_dir), env, refused)
        return train_on(directory, registry, given, observer)
    if env is None:
        raise ZooError("name an environment to train, or a run to --resume. See: a3c-zoo list envs")
    entry = registry.env(env)
    agent_entry = registry.agent(agent or entry.default_agent)
    config = resolve_config(
        registry,
        entry,
        agent_entry,
        hyperparams=str(hyperparams) if hyperparams is not None else None,
        overrides=_as_texts(overrides),
        flags=given,
    )
    return train_new(make_job(registry, entry, agent_entry, config, serial), Path(runs_dir), name, observer)


def _run_settings(**values: Any) -> dict[str, tuple[Any, str]]:
    """The keys of the `run` section that were given, each with its option on the command line."""
    return {
        f"run.{key}": (value, "--" + key.removesuffix("_s").replace("_", "-"))
        for key, value in values.items()
        if value is not None
    }


def _run_to_resume(resume: str | Path, runs_dir: Path, env: str | None, refused: Sequence[str]) -> RunDirectory:
    """The run to go on with, unless the caller asked for something (`refused`, or another `env`) that would change it."""
    directory = find_run(resume, runs_dir)
    if refused:
        raise ZooError(f"--resume goes on with the run as it was; leave out {', '.join(refused)}")
    if env is not None and env != (started_as := directory.meta()["env"]):
        raise ZooError(f"run {directory.path.name} trains '{started_as}', not '{env}'")
    return directory


def load_agent(run: str | Path, *, checkpoint: str = "final", runs_dir: str | Path = DEFAULT_RUNS_DIR) -> Policy:
    """Loads the trained policy of a run, to act with: `load_agent(run).predict(observation)`.

    Args:
        run: a run directory, or the name of one within `runs_dir`.
        checkpoint: "final" for the newest, "best" for the evaluator's best, or the number of steps of another.

    Raises:
        RunDirectoryError: there is no such run or checkpoint, or it is damaged.
    """
    policy: Policy = _load(find_run(run, Path(runs_dir)), checkpoint)
    return policy


def _as_texts(overrides: Mapping[str, Any] | Sequence[str]) -> list[str]:
    """As on the command line, where None is written as YAML has it."""
    if not isinstance(overrides, Mapping):
        return list(overrides)
    return [f"{key}={'null' if value is None else value}" for key, value in overrides.items()]


def _load(directory: RunDirectory, checkpoint: str) -> Policy:
    from a3c_zoo.runs.checkpoints import load_checkpoint

    registry = get_registry()
    return policy_of(registry, directory.config(registry), load_checkpoint(directory, checkpoint))


def policy_of(registry: Registry, config: Config, checkpoint: Mapping[str, Any]) -> Policy:
    """Rebuilds the policy of a run's checkpoint, as `load_checkpoint` reads it."""
    from a3c_zoo.runs.evaluation import load_policy

    network = registry.network(config.network.name) if config.network else None
    load = registry.agent(config.agent_name).load
    return load_policy(load, registry.env(config.env_name), network, config, checkpoint["agent"])


def evaluate(
    run: str | Path,
    *,
    episodes: int = 100,
    deterministic: bool = False,
    checkpoint: str = "final",
    seed: int | None = None,
    runs_dir: str | Path = DEFAULT_RUNS_DIR,
    on_step: Callable[[int], None] = lambda played: None,
) -> Evaluation:
    """Plays episodes with the policy of a run's checkpoint, on fresh seeds.

    Args:
        seed: of the episodes; by default the run's, on a branch of its own.
        on_step: called with the number of episodes played so far.
    """
    from a3c_zoo.runs.evaluation import evaluate_policy

    directory = find_run(run, Path(runs_dir))
    registry = get_registry()
    config = directory.config(registry)
    return evaluate_policy(
        _load(directory, checkpoint),
        registry.env(config.env_name),
        config.env,
        episodes=episodes,
        num_envs=config.run.evaluation_envs,
        seed=config.run.seed if seed is None else seed,
        number=USER_EVALUATIONS,
        deterministic=deterministic,
        on_step=on_step,
    )


def play(
    run: str | Path,
    *,
    episodes: int = 1,
    deterministic: bool = False,
    checkpoint: str = "final",
    seed: int | None = None,
    runs_dir: str | Path = DEFAULT_RUNS_DIR,
) -> Generator[Scene]:
    """Plays episodes with the policy of a run's checkpoint, one after the other, with a picture of each step.

    Args:
        seed: of the episodes; by default the run's, on a branch of its own.

    Raises:
        ZooError: the environment cannot be drawn.
    """
    from a3c_zoo.runs.scenes import play_scenes

    directory = find_run(run, Path(runs_dir))
    registry = get_registry()
    config = directory.config(registry)
    return play_scenes(
        _load(directory, checkpoint),
        registry.env(config.env_name),
        config.env,
        episodes=episodes,
        seed=config.run.seed if seed is None else seed,
        number=USER_EVALUATIONS,
        deterministic=deterministic,
    )
