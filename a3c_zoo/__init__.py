"""Asynchronous advantage actor-critic agents, trained by name and extended by plugins.

Importing this package is light: torch, gymnasium and the rest load when `train` or `load_agent` is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pluggy

from a3c_zoo.entries import AgentEntry, CommandEntry, EnvEntry, EnvFamily, HyperparamEntry, NetworkEntry
from a3c_zoo.errors import ZooError

if TYPE_CHECKING:
    from pathlib import Path

    from a3c_zoo.records import Outcome, Policy
    from a3c_zoo.runs.session import Observer

__all__ = [
    "AgentEntry",
    "CommandEntry",
    "EnvEntry",
    "EnvFamily",
    "HyperparamEntry",
    "NetworkEntry",
    "ZooError",
    "__version__",
    "hookimpl",
    "load_agent",
    "train",
]

__version__ = "0.1.0"

#: Marks a plugin's function as the implementation of the hook that has its name (see `a3c_zoo.hookspecs`).
hookimpl = pluggy.HookimplMarker("a3c_zoo")


def train(
    env: str | None = None,
    *,
    agent: str | None = None,
    hyperparams: str | Path | None = None,
    overrides: Mapping[str, Any] | Sequence[str] = (),
    workers: int | None = None,
    serial: bool = False,
    seed: int | None = None,
    steps: int | None = None,
    episodes: int | None = None,
    time_limit_s: float | None = None,
    stop_return: float | None = None,
    resume: str | Path | None = None,
    name: str | None = None,
    runs_dir: str | Path = "runs",
    observer: Observer | None = None,
) -> Outcome:
    """Trains an agent on an environment until it is solved or a budget is spent, as `a3c-zoo train` does.

    In a script, call it below `if __name__ == "__main__":`; workers import the script.

    Args:
        env: name of an environment; may be left out with `resume`.
        agent: name of an agent; by default the environment's.
        hyperparams: name of a set in place of the default one, or a YAML file on top of it.
        overrides: single values, `{"agent.n_steps": 5}` or `["agent.n_steps=5"]`.
        workers, seed, steps, episodes, time_limit_s, stop_return: the keys of the `run` section of the same name.
        serial: workers in turn in this process: slow, but exactly reproducible.
        resume: a run directory to go on with, or its name.
        name: name of the new run directory, which must not exist yet. runs_dir: where it is made.
        observer: is told how the run goes; see `a3c_zoo.runs.session.Observer`.

    Raises:
        ZooError: for what the caller did wrong, in one line; WorkerError where a worker failed.
    """
    from a3c_zoo.runs import api

    return api.train(
        env,
        agent=agent,
        hyperparams=hyperparams,
        overrides=overrides,
        workers=workers,
        serial=serial,
        seed=seed,
        steps=steps,
        episodes=episodes,
        time_limit_s=time_limit_s,
        stop_return=stop_return,
        resume=resume,
        name=name,
        runs_dir=runs_dir,
        observer=observer,
    )


def load_agent(run: str | Path, *, checkpoint: str = "final", runs_dir: str | Path = "runs") -> Policy:
    """Loads the trained policy of a run, to act with: `load_agent(run).predict(observation)`.

    Args:
        run: a run directory, or the name of one within `runs_dir`.
        checkpoint: "final" for the newest, or the number of steps of another.

    Raises:
        RunDirectoryError: there is no such run or checkpoint, or it is damaged.
    """
    from a3c_zoo.runs import api

    return api.load_agent(run, checkpoint=checkpoint, runs_dir=runs_dir)
