"""A small environment for the checks of agents, registered with Gymnasium when this module is imported."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

#: Class name of an action space → an example.
ACTIONS: dict[str, spaces.Space[Any]] = {
    "Discrete": spaces.Discrete(3),
    "MultiDiscrete": spaces.MultiDiscrete([2, 3]),
    "MultiBinary": spaces.MultiBinary(3),
    "Box": spaces.Box(-1.0, 1.0, (2,)),
}


class SmallEnvironment(gymnasium.Env[NDArray[np.float32], Any]):
    """Episodes of 10 steps on average, at most 25, with random observations and the reward 1.

    Args:
        space: class name of the action space.
        render_mode: stable-baselines3 asks for one; nothing is drawn.
    """

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, space: str = "Discrete", render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = spaces.Box(-1.0, 1.0, (4,))
        self.action_space = ACTIONS[space]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        return self._observation(), {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), f"action {action!r} is not in {self.action_space}"
        return self._observation(), 1.0, bool(self.np_random.random() < 0.1), False, {}

    def _observation(self) -> NDArray[np.float32]:
        return self.np_random.uniform(-1, 1, 4).astype(np.float32)


gymnasium.register(
    "SmallEnvironment-v0", f"{__name__}:SmallEnvironment", max_episode_steps=25, disable_env_checker=True
)
