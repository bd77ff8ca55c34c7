"""The hooks: what a plugin can offer, and what it can do during a run.

A plugin is a module, or another object, that an entry point of the group `a3c_zoo` names. It implements a hook by a
function of the same name with the decorator `@a3c_zoo.hookimpl`; the function may leave out parameters. Offering hooks
are called once per process and must be fast: an entry names its code by an import string, so nothing heavy is imported
before it is used. Run hooks are called only in the parent process of a run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from a3c_zoo.plugins.entries import (
        AgentEntry,
        CommandEntry,
        EnvEntry,
        EnvFamily,
        HyperparamEntry,
        NetworkEntry,
        OptimizerEntry,
    )
    from a3c_zoo.records import Episode, Outcome, Progress, RunInfo

PROJECT = "a3c_zoo"

#: Decorator of a plugin's hook implementations; public as `a3c_zoo.hookimpl`.
hookimpl = pluggy.HookimplMarker(PROJECT)

_hookspec = pluggy.HookspecMarker(PROJECT)
_first_result_hookspec = _hookspec(firstresult=True)


@_hookspec
def zoo_envs() -> Iterable[EnvEntry | EnvFamily]:  # type: ignore[empty-body]
    """Offers environments that can be trained by name, and families of environments.

    Example:
        @hookimpl
        def zoo_envs():
            return [EnvEntry(name="maze", factory="my_plugin.maze:make", threshold=0.9)]
    """


@_hookspec
def zoo_agents() -> Iterable[AgentEntry]:  # type: ignore[empty-body]
    """Offers agents, and baselines to compare them with.

    Example:
        @hookimpl
        def zoo_agents():
            return [AgentEntry(name="reinforce", run="my_plugin.reinforce:run", load="my_plugin.reinforce:load")]
    """


@_hookspec
def zoo_networks() -> Iterable[NetworkEntry]:  # type: ignore[empty-body]
    """Offers actor-critic networks that a hyperparameter set can name as `network.name`.

    Example:
        @hookimpl
        def zoo_networks():
            return [NetworkEntry(name="wide", factory="my_plugin.networks:build_wide", inputs=("vector",))]
    """


@_hookspec
def zoo_optimizers() -> Iterable[OptimizerEntry]:  # type: ignore[empty-body]
    """Offers optimizers that a hyperparameter set can name as `optimizer.name`.

    The factory is a class that says which moments it keeps (`moments(parameters, config)`), so that they can be made
    up front in memory that all workers share; is made from flat parameters `[P]`, moments and configuration; and
    updates both in place (`apply(gradient, learning_rate)`).

    Example:
        @hookimpl
        def zoo_optimizers():
            return [OptimizerEntry(name="momentum", factory="my_plugin.optimizers:Momentum")]
    """


@_hookspec
def zoo_hyperparams() -> Iterable[HyperparamEntry]:  # type: ignore[empty-body]
    """Offers packages that hold hyperparameter sets as `<env>/<set>.yml`.

    Example:
        @hookimpl
        def zoo_hyperparams():
            return [HyperparamEntry(package="my_plugin.hyperparams")]
    """


@_hookspec
def zoo_commands() -> Iterable[CommandEntry]:  # type: ignore[empty-body]
    """Offers sub-commands of `a3c-zoo`.

    Example:
        @hookimpl
        def zoo_commands():
            return [CommandEntry(name="watch", command="my_plugin.watch:command", short_help="Watch an agent play.")]
    """


@_hookspec
def zoo_run_start(run: RunInfo) -> None:
    """Called when the run directory exists, before any worker starts.

    :param run: the run's directory, names and configuration.

    Example:
        @hookimpl
        def zoo_run_start(run):
            print(f"training {run.agent_name} on {run.env_name} in {run.path}")
    """


@_hookspec
def zoo_episode(run: RunInfo, episode: Episode) -> None:
    """Called for each finished training episode, in the order in which episodes reach the parent.

    :param run: the run's directory, names and configuration.
    :param episode: return, length, step, time and worker of the episode.

    Example:
        @hookimpl
        def zoo_episode(episode):
            returns.append(episode.episode_return)
    """


@_hookspec
def zoo_metrics(run: RunInfo, progress: Progress) -> None:
    """Called when new training figures are written, about once a second.

    :param run: the run's directory, names and configuration.
    :param progress: counters, speed, mean return and the newest metrics.

    Example:
        @hookimpl
        def zoo_metrics(run, progress):
            dashboard.send(run.path.name, progress.steps, progress.mean_return_100)
    """


@_first_result_hookspec
def zoo_should_stop(run: RunInfo, progress: Progress) -> str | None:
    """Called after `zoo_metrics`: returns why to end the run, or None. The first reason ends it.

    :param run: the run's directory, names and configuration.
    :param progress: counters, speed, mean return and the newest metrics.
    :return: the reason to stop, which is written to `outcome.json`; None to continue.

    Example:
        @hookimpl
        def zoo_should_stop(progress):
            return "policy collapsed" if progress.metrics.get("entropy", 1.0) < 1e-4 else None
    """


@_hookspec
def zoo_run_end(run: RunInfo, outcome: Outcome) -> None:
    """Called when all files of the run are written.

    :param run: the run's directory, names and configuration.
    :param outcome: why the run ended, and its figures.

    Example:
        @hookimpl
        def zoo_run_end(run, outcome):
            notify(f"{run.path.name}: {outcome.reason}, mean return {outcome.mean_return_100}")
    """
