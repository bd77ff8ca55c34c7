"""Gridworld as a vector environment: all grids take a step in a handful of NumPy calls."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from a3c_zoo_gridworld.grid import MOVES, make_grid

START = 0


class GridworldVectorEnv(VectorEnv[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]):
    """`num_envs` grids. Observation: the agent's cell. Actions: up, right, down, left.

    After the end of an episode, the next step ignores that grid's action and starts a new episode (NEXT_STEP).

    Args:
        num_envs: number of grids.
        size: cells on each side.
        slip: probability that a move goes in a random one of the four directions.
        max_episode_steps: steps after which an episode is truncated.
        render_mode: "ansi": `render` returns one text for each grid; "rgb_array": one picture `[size, size, 3]`, uint8.
    """

    metadata = {
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 4,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int,
        size: int = 6,
        slip: float = 0.1,
        max_episode_steps: int = 100,
        render_mode: str | None = None,
    ) -> None:
        self.num_envs, self.render_mode = num_envs, render_mode
        self.grid, self.slip, self.max_episode_steps = make_grid(size), slip, max_episode_steps
        self.single_observation_space = Discrete(size * size)
        self.single_action_space = Discrete(len(MOVES))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._cells = np.full(num_envs, START)
        self._steps = np.zeros(num_envs, np.int64)  # of the unfinished episodes
        self._ended = np.zeros(num_envs, np.bool_)  # at the last step; the next step starts a new episode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.int64], dict[str, Any]]:
        """Starts a new episode in every grid; returns the cells, `[num_envs]`, int64."""
        super().reset(seed=seed)
        self._cells[:], self._steps[:], self._ended[:] = START, 0, False
        return self._cells.copy(), {}

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Moves in every grid; returns cells, rewards, terminated and truncated, each `[num_envs]`."""
        restarted = self._ended
        slipped = self.np_random.random(self.num_envs) < self.slip
        directions = np.where(slipped, self.np_random.integers(len(MOVES), size=self.num_envs), actions)
        self._cells = np.where(restarted, START, self.grid.next_cell[self._cells, directions])
        self._steps = np.where(restarted, 0, self._steps + 1)
        rewards = np.where(restarted, np.float32(0), self.grid.rewards[self._cells])
        terminated = self.grid.terminal[self._cells]
        # An episode that reaches the goal with its last step is terminated, not truncated.
        truncated = (self._steps >= self.max_episode_steps) & ~terminated
        self._ended = terminated | truncated
        return self._cells.copy(), rewards, terminated, truncated, {}

    def render(self) -> tuple[Any, ...] | None:
        """Returns one text or picture for each grid, None without a render mode."""
        if self.render_mode is None:
            return None
        return tuple(map(self.grid.draw if self.render_mode == "rgb_array" else self.grid.render, self._cells.tolist()))

    def get_state(self) -> dict[str, Any]:
        """Returns all that the next steps depend on, as plain numbers and lists. With it a run resumes exactly."""
        return {
            "cells": self._cells.tolist(),
            "steps": self._steps.tolist(),
            "ended": self._ended.tolist(),
            "random": self.np_random.bit_generator.state,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores a result of `get_state`."""
        self._cells = np.array(state["cells"], np.int64)
        self._steps = np.array(state["steps"], np.int64)
        self._ended = np.array(state["ended"], np.bool_)
        self.np_random.bit_generator.state = state["random"]


def make(num_envs: int, seed: int, render_mode: str | None = None, **kwargs: Any) -> GridworldVectorEnv:
    """Makes the environment. `seed` is not used here, because the first `reset` gets the same seed."""
    return GridworldVectorEnv(num_envs, render_mode=render_mode, **kwargs)
