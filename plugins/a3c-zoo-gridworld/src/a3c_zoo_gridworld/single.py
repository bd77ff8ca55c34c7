"""The same grid as a plain `gymnasium.Env`, registered with Gymnasium when this module is imported."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete

from a3c_zoo_gridworld.grid import MOVES, make_grid


class SingleGridworld(gymnasium.Env[np.int64, np.int64]):
    """One grid; the time limit is Gymnasium's own (`max_episode_steps` below).

    Args:
        size: cells on each side.
        slip: probability that a move goes in a random one of the four directions.
        render_mode: "ansi": `render` returns the grid as text; "rgb_array": as a picture `[size, size, 3]`, uint8.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}

    def __init__(self, size: int = 6, slip: float = 0.1, render_mode: str | None = None) -> None:
        self.grid, self.slip, self.render_mode = make_grid(size), slip, render_mode
        self.observation_space = Discrete(size * size)
        self.action_space = Discrete(len(MOVES))
        self._cell = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Starts a new episode; returns the agent's cell."""
        super().reset(seed=seed)
        self._cell = 0
        return np.int64(0), {}

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Moves; returns cell, reward, terminated, truncated (always False; a wrapper truncates)."""
        slipped = self.np_random.random() < self.slip
        direction = self.np_random.integers(len(MOVES)) if slipped else action
        self._cell = int(self.grid.next_cell[self._cell, direction])
        reward, terminated = float(self.grid.rewards[self._cell]), bool(self.grid.terminal[self._cell])
        return np.int64(self._cell), reward, terminated, False, {}

    def render(self) -> Any:
        """Returns the grid as text or as a picture, None without a render mode."""
        if self.render_mode == "rgb_array":
            return self.grid.draw(self._cell)
        return self.grid.render(self._cell) if self.render_mode == "ansi" else None


gymnasium.register("Gridworld-v0", "a3c_zoo_gridworld.single:SingleGridworld", max_episode_steps=100)
