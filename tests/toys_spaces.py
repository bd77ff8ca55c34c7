"""Environments for every kind of action and observation space, with a known best action. Importable by workers.

`tests.toys_spaces:Match-KIND-v0` shows a target, and pays for actions that match it; an episode has 8 steps. With
`Match-KIND-parts-v0` the observation is a dictionary.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

LENGTH = 8
ACTIONS: dict[str, Any] = {
    "discrete": spaces.Discrete(3, start=1),
    "choices": spaces.MultiDiscrete([3, 2]),
    "coins": spaces.MultiBinary(3),
    "box": spaces.Box(np.array([-2, 0], np.float32), np.array([2, 1], np.float32)),
}
VECTOR = spaces.Box(-1, 1, (3,), np.float32)
PARTS = spaces.Dict({"target": VECTOR, "left": spaces.Discrete(LENGTH + 1)})


class Match(gymnasium.Env[Any, Any]):
    """Pays −1 times the distance between the action, as numbers in ±1, and the target, three numbers in ±1."""

    def __init__(self, kind: str, has_parts: bool) -> None:
        self.action_space = ACTIONS[kind]
        self.observation_space = PARTS if has_parts else VECTOR
        self._has_parts, self._steps, self._target = has_parts, 0, np.zeros(3, np.float32)

    def _observe(self) -> Any:
        self._target = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return {"target": self._target, "left": LENGTH - self._steps} if self._has_parts else self._target

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        numbers = np.atleast_1d(np.asarray(action, np.float64)) - 1
        reward = -float(np.abs(numbers - self._target[: len(numbers)]).mean())
        self._steps += 1
        return self._observe(), reward, False, self._steps == LENGTH, {}


for _kind in ACTIONS:
    for _suffix, _has_parts in (("", False), ("-parts", True)):
        gymnasium.register(
            f"Match-{_kind}{_suffix}-v0",
            entry_point="tests.toys_spaces:Match",
            kwargs={"kind": _kind, "has_parts": _has_parts},
        )


#: Parts whose keys, one behind the other, read alike.
SLASHES = spaces.Dict({"a/b": spaces.Discrete(3), "a": spaces.Dict({"b": spaces.Box(-1, 1, (2,), np.float32)})})


class Slashes(gymnasium.Env[Any, Any]):
    """Pays nothing."""

    observation_space = action_space = SLASHES

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        self._steps += 1
        return self.observation_space.sample(), 0.0, False, self._steps == LENGTH, {}


gymnasium.register("Slashes-v0", entry_point="tests.toys_spaces:Slashes")


def env_name(kind: str, has_parts: bool = False) -> str:
    """The environment's name for `a3c-zoo train`."""
    return f"gym:tests.toys_spaces:Match-{kind}{'-parts' * has_parts}-v0"
