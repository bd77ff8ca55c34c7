"""The hooks: what a plugin can offer, and what it can do during a run.

A plugin is a module, or another object, that an entry point of the group `a3c_zoo` names. It implements a
hook by a function of the same name with the decorator `@a3c_zoo.hookimpl`; the function may leave out
parameters. Offering hooks are called once per process and must be fast: an entry names its code by an import
string, so nothing heavy is imported before it is used. Run hooks are called only in the parent process of a
run.

`docs/reference/hooks.md` shows an example of each hook.

Parameters of run hooks:
    run: the run's directory, names and configuration.
    episode: return, length, step, time and worker of the episode.
    progress: counters, speed, mean return and the newest metrics.
    outcome: why the run ended, and its figures.
"""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from a3c_zoo.plugins import entries
from a3c_zoo.records import Episode, Outcome, Progress, RunInfo

PROJECT = "a3c_zoo"

hookimpl = pluggy.HookimplMarker(PROJECT)
"""Decorator of a plugin's hook implementations; public as `a3c_zoo.hookimpl`."""

_hookspec = pluggy.HookspecMarker(PROJECT)


@_hookspec
def zoo_envs() -> Iterable[entries.EnvEntry | entries.EnvFamily]:  # type: ignore[empty-body]
    """Offers environments that can be trained by name, and families of environments."""


@_hookspec
def zoo_agents() -> Iterable[entries.AgentEntry]:  # type: ignore[empty-body]
    """Offers agents, and baselines to compare them with."""


@_hookspec
def zoo_networks() -> Iterable[entries.NetworkEntry]:  # type: ignore[empty-body]
    """Offers actor-critic networks that a hyperparameter set can name as `network.name`."""


@_hookspec
def zoo_optimizers() -> Iterable[entries.OptimizerEntry]:  # type: ignore[empty-body]
    """Offers optimizers that a hyperparameter set can name as `optimizer.name`."""


@_hookspec
def zoo_hyperparams() -> Iterable[entries.HyperparamEntry]:  # type: ignore[empty-body]
    """Offers packages that hold hyperparameter sets as `<env>/<set>.yml`."""


@_hookspec
def zoo_hooks() -> Iterable[entries.HookEntry]:  # type: ignore[empty-body]
    """Offers run hooks with settings, which each run chooses by name."""


@_hookspec
def zoo_trained() -> Iterable[entries.TrainedEntry]:  # type: ignore[empty-body]
    """Offers trained agents, which `play`, `evaluate`, `export` and `load_agent` find by their environment's name."""


@_hookspec
def zoo_engines() -> Iterable[entries.EngineEntry]:  # type: ignore[empty-body]
    """Offers engines, which run the trainings and evaluations of `compare --engine NAME`."""


@_hookspec
def zoo_commands() -> Iterable[entries.CommandEntry]:  # type: ignore[empty-body]
    """Offers sub-commands of `a3c-zoo`."""


@_hookspec
def zoo_run_start(run: RunInfo) -> None:
    """Called once a session, when the run directory exists, before any worker starts."""


@_hookspec
def zoo_episode(run: RunInfo, episode: Episode) -> None:
    """Called for each finished training episode, in the order in which episodes reach the parent."""


@_hookspec
def zoo_metrics(run: RunInfo, progress: Progress) -> None:
    """Called when new training figures are written, about twice a second."""


@_hookspec
def zoo_should_stop(run: RunInfo, progress: Progress) -> str | None:
    """Called after `zoo_metrics`: returns why to end the run, or None to continue.

    The first reason ends the run and is written to its `outcome.json`.
    """


@_hookspec
def zoo_run_end(run: RunInfo, outcome: Outcome) -> None:
    """Called once a session, when its outcome.json is written.

    TensorBoard's last points and evaluations.npz follow. After a failure that the run survives, another
    session begins.
    """
