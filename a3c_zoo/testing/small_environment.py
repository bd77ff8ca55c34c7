"""Small environments for the checks of agents, registered with Gymnasium when this module is imported."""

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
    "Dict": spaces.Dict({"choice": spaces.Discrete(3), "size": spaces.Box(-1.0, 1.0, (2,))}),
    "Tuple": spaces.Tuple(
        (spaces.Discrete(3), spaces.MultiBinary(2), spaces.Dict({"size": spaces.Box(0.0, 1.0, (1,))}))
    ),
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


class EarlyExit(gymnasium.Env[NDArray[np.float32], np.int64]):
    """A corridor of four places: each step on pays 1, and the last one 3, as leaving it at any place does.

    So going on to the end is worth 6, and leaving at once 3. It is the other way round for an agent that bootstraps
    across a termination: who leaves at once is paid 3 at each step (at every other one, if a step is needed to reset),
    who goes on 6 in four. Observations are one-hot, the place in the corridor `[4]`; action 0 leaves it.
    """

    LENGTH = 4
    END, WENT_ON = 3.0, 1.0

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (self.LENGTH,))
        self.action_space = spaces.Discrete(2)
        self._place = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self._place = 0
        return self._observation(), {}

    def step(self, action: np.int64) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        if action == 0 or self._place == self.LENGTH - 1:
            return self._observation(), self.END, True, False, {}
        self._place += 1
        return self._observation(), self.WENT_ON, False, False, {}

    def _observation(self) -> NDArray[np.float32]:
        observation = np.zeros(self.LENGTH, np.float32)
        observation[self._place] = 1
        return observation


gymnasium.register("EarlyExit-v0", f"{__name__}:EarlyExit", disable_env_checker=True)
gymnasium.register(
    "SmallEnvironment-v0", f"{__name__}:SmallEnvironment", max_episode_steps=25, disable_env_checker=True
)
