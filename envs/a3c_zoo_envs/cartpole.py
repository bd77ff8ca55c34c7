"""CartPole-v1 as Gymnasium's vector environment, which resets with the step after an end (NEXT_STEP)."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.vector.utils import batch_space


class ResumableCartPole(CartPoleVectorEnv):
    """Gymnasium's CartPoleVectorEnv with `get_state` and `set_state`, for exact resumes."""

    def render(self) -> Any:
        """Draws the first environment alone: screens and films show no other."""
        assert self.state is not None
        first = copy.copy(self)
        first.state, first.num_envs = self.state[:, :1], 1
        return CartPoleVectorEnv.render(first)

    def get_state(self) -> dict[str, Any]:
        """Returns the state as tensors, numbers and strings."""
        assert self.state is not None
        return {
            "state": torch.from_numpy(np.array(self.state)),
            "steps": torch.from_numpy(self.steps.copy()),
            "prev_done": torch.from_numpy(self.prev_done.copy()),
            "random": self.np_random.bit_generator.state,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from what `get_state` returned."""
        self.state = state["state"].numpy().copy()
        self.steps = state["steps"].numpy().copy()
        self.prev_done = state["prev_done"].numpy().copy()
        self.np_random.bit_generator.state = state["random"]


class WithoutVelocities(ResumableCartPole):
    """Shows only position and angle, `[N, 2]`. An agent must remember them to know the velocities."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        whole = self.single_observation_space
        assert isinstance(whole, spaces.Box)
        self.single_observation_space = spaces.Box(whole.low[::2], whole.high[::2], dtype=np.float32)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        observation, info = super().reset(seed=seed, options=options)
        return observation[:, ::2], info

    def step(self, action: Any) -> Any:
        observation, *rest = super().step(action)
        return observation[:, ::2], *rest


def make(
    num_envs: int, seed: int, *, hide_velocity: bool = False, render_mode: str | None = None, **kwargs: Any
) -> ResumableCartPole:
    """Environment factory. It does not use the seed: the caller seeds the first `reset`."""
    kind = WithoutVelocities if hide_velocity else ResumableCartPole
    return kind(num_envs=num_envs, render_mode=render_mode, **kwargs)
