"""Environments for the tests of whole runs, some as a plugin. Each worker imports this module, so it imports little."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from pydantic import Field

from a3c_zoo import EnvEntry, NetworkEntry, hookimpl
from a3c_zoo.config import EnvConfig
from a3c_zoo.errors import ZooError
from tests.toys import SCRIPT, FaultyVectorEnv, Script, ToyVectorEnv

#: Number of training environments of a toy run. An evaluation has more; the toy tells them apart by this.
NUM_ENVS = 2
#: (num_envs, seed) of every environment made in this process.
MADE: list[tuple[int, int]] = []


class RunToyConfig(EnvConfig):
    """The `env` section of the toy."""

    num_envs: int = NUM_ENVS
    fault: str = Field(
        "", description="see FaultyVectorEnv; and factory-raise, factory-exit, factory-zoo, factory-sleep, worker-sleep"
    )
    after: int = Field(0, description="good steps before the fault")
    step_s: float = Field(0.0, description="seconds that a step takes")
    busy_s: float = Field(0.0, description="CPU seconds that a step takes in training")
    held_mib: int = Field(0, description="memory that it holds")
    evaluation_step_s: float = Field(0.0, description="seconds that a step takes in an evaluation")
    evaluation_busy_s: float = Field(0.0, description="CPU seconds that a step takes in an evaluation")
    evaluation_fault: str = Field("", description="a fault that comes up in evaluations only, at once")
    evaluation_by_seed: bool = Field(False, description="the reward of an evaluation is `reward_of` its seed")
    evaluation_reward: float = Field(1.0, description="reward of an episode in an evaluation; 1 in training")
    unit_rewards: bool = Field(True, description="episodes of one step, reward 1; else the toys' script")


def make(num_envs: int, seed: int, **options: Any) -> ToyVectorEnv:
    """The factory of environment `toy`."""
    settings = RunToyConfig(**options)
    MADE.append((num_envs, seed))
    is_training = num_envs <= NUM_ENVS  # or its spaces are read
    fault = settings.fault if is_training else settings.evaluation_fault or settings.fault
    match fault:
        case "factory-raise":
            raise RuntimeError("the toy factory broke")
        case "factory-exit":
            sys.exit(0)
        case "factory-zoo":
            raise ZooError("the toy cannot be made")
        case "factory-sleep":
            time.sleep(600)
        case "worker-sleep" if multiprocessing.current_process().name.startswith("a3c-zoo worker"):
            time.sleep(600)
    reward = 1.0 if is_training else reward_of(seed) if settings.evaluation_by_seed else settings.evaluation_reward
    scripts: list[Script] = [[([reward], "terminated")]] if settings.unit_rewards else [SCRIPT]
    step_s = settings.step_s if is_training else settings.evaluation_step_s
    env = SlowToy(num_envs, fault, settings.after, step_s, scripts=scripts)
    env.busy_s = settings.busy_s if is_training else settings.evaluation_busy_s
    env.held = b"x" * (settings.held_mib << 20)
    return env


def reward_of(seed: int) -> float:
    """The return of an episode on this seed, with `evaluation_by_seed`."""
    return seed % 1000 / 1000


class SlowToy(FaultyVectorEnv):
    """A toy whose steps take some time."""

    def __init__(self, num_envs: int, fault: str, after: int, step_s: float, **options: Any) -> None:
        super().__init__(num_envs, fault, after if fault else sys.maxsize, **options)
        self.step_s = step_s
        self.busy_s, self.held = 0.0, b""

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
        if self.step_s:
            time.sleep(self.step_s)
        busy_until_s = time.thread_time() + self.busy_s
        while time.thread_time() < busy_until_s:
            pass
        return super().step(actions)


def make_speaking(num_envs: int, seed: int) -> ToyVectorEnv:
    """The factory of environment `speaking`, whose actions are text."""
    env = ToyVectorEnv(num_envs)
    env.single_action_space = spaces.Text(5)
    return env


class Coin(ToyVectorEnv):
    """Episodes of one step, whose reward is the number of the action."""

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
        counts = ~self.waiting
        observation, _, terminated, truncated, info = super().step(actions)
        return observation, np.where(counts, actions, 0).astype(np.float64), terminated, truncated, info


def make_coin(num_envs: int, seed: int) -> ToyVectorEnv:
    """The factory of environment `coin`."""
    return Coin(num_envs, scripts=[[([0.0], "terminated")]])


class Moving(gymnasium.Env[Any, Any]):
    """Episodes of one step with reward 1. It changes the folder when it is made, and with each step."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None) -> None:
        os.chdir("/usr")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        os.chdir("/usr/lib")
        return np.zeros(1, np.float32), 1.0, True, False, {}

    def render(self) -> Any:
        return np.zeros((32, 32, 3), np.uint8)


class Fading(gymnasium.Wrapper[Any, Any, Any, Any]):
    """After so many episodes, rewards are a hundredth of those of the environment: nothing that is learned helps."""

    def __init__(self, env: gymnasium.Env[Any, Any], after: int) -> None:
        super().__init__(env)
        self._left = after + 1

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        self._left -= 1
        return super().reset(**options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, float(reward) * (1 if self._left > 0 else 0.01), terminated, truncated, info


class Undrawn(ToyVectorEnv):
    """Raises, ends its process or hangs where it would be drawn."""

    fault = ""

    def reset(self, **options: Any) -> Any:
        if self.fault == "leave":
            sys.exit("no display")
        return super().reset(**options)

    def render(self) -> Any:
        match self.fault:
            case "raise":
                raise RuntimeError("no paint")
            case "exit":
                os._exit(3)
            case "hang":
                time.sleep(600)


def make_undrawn(num_envs: int, seed: int, fault: str, render_mode: str | None = None) -> ToyVectorEnv:
    env = Undrawn(num_envs)
    env.fault = fault
    return env


@hookimpl
def zoo_envs() -> list[EnvEntry]:
    """The environments of the toy plugin."""
    return [
        EnvEntry("toy", factory=f"{__name__}:make", config=f"{__name__}:RunToyConfig", threshold=1.0),
        EnvEntry("coin", factory=f"{__name__}:make_coin"),
        EnvEntry("speaking", factory=f"{__name__}:make_speaking"),
    ]


@hookimpl
def zoo_networks() -> list[NetworkEntry]:
    """A network that takes images only."""
    config = "a3c_zoo.learning.network_configs:MLPConfig"
    return [NetworkEntry("picture", factory="no_such_module:build", config=config, inputs=("image",))]
