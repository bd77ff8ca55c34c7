"""For the tests of baselines: toy environments as a plugin, short training runs, and what to read of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

import a3c_zoo
from a3c_zoo.config import EnvConfig
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.runs.setup import SilentObserver
from a3c_zoo.store.checkpoints import resumable_checkpoint
from a3c_zoo.store.directory import RunDirectory
from a3c_zoo.testing import plugin_distribution

BASELINES = ("random", "sb3-a2c", "sb3-ppo")

TOYS = """
from a3c_zoo import EnvEntry, hookimpl

@hookimpl
def zoo_envs():
    return [
        EnvEntry("toy", factory="tests.toys:make"),
        EnvEntry("from-3", factory="tests.toys:make", kwargs={"action_start": 3}),
        EnvEntry("raising", factory="tests.toys:make_faulty", kwargs={"fault": "raise", "after": 50}),
        EnvEntry("gym-from-3", env_id="tests.toys:ToyScript-v0", kwargs={"action_start": 3}),
        EnvEntry("gym-broken", env_id="tests.toys:ToyScript-v0", kwargs={"no_such": 1}),
        EnvEntry("poles", factory="a3c_zoo_envs.cartpole:make", config="tests.toys_baselines:PolesConfig",
                 gym_id="CartPole-v1"),
    ]
"""


class PolesConfig(EnvConfig):
    """A key for our factory, which Gymnasium's own CartPole does not take."""

    max_episode_steps: int = 500


@contextmanager
def toys_installed(folder: Path) -> Iterator[None]:
    """Installs the toy environments in this process."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("A3C_ZOO_DISABLE_PLUGINS", "A3C_ZOO_PLUGINS"):
            patch.delenv(variable, raising=False)
        patch.syspath_prepend(plugin_distribution(folder, "baseline-toys", TOYS))
        get_registry.cache_clear()
        yield
    get_registry.cache_clear()


@contextmanager
def one_thread() -> Iterator[None]:
    """Sets one torch thread: SB3 keeps torch's number, and tests share the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def train(folder: Path, agent: str, steps: int, env: str = "cartpole", **options: Any) -> Path:
    """Trains for a number of steps; returns the run directory."""
    options.setdefault("name", f"{agent}-{steps}")
    outcome = a3c_zoo.train(env, agent=agent, steps=steps, runs_dir=folder, **options)
    assert outcome.reason == "steps"
    return outcome.run


def agent_state(run: Path) -> dict[str, Any]:
    """The agent's part of the newest checkpoint."""
    state = resumable_checkpoint(RunDirectory(run)).agent
    return state


class Watcher(SilentObserver):
    """An observer that calls a function at each report of progress."""

    def __init__(self, on_progress: Callable[[Any], object]) -> None:
        self._on_progress = on_progress

    def progress(self, progress: Any) -> None:
        self._on_progress(progress)
