"""Environments whose actions have several parts, with a known best action. Importable by workers.

`tests.toys_parts:Parts-KIND-v0` shows a target of three numbers in ±1; an episode has 8 steps. An action outside of its
space raises, and so does one that a mask forbids.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

LENGTH = 8
GEAR = spaces.Discrete(3, start=1)
STEER = spaces.Box(-1, 1, (2,), np.float32)
#: KIND → its action space.
SPACES: dict[str, Any] = {
    "tuple": spaces.Tuple((GEAR, STEER)),
    "dict": spaces.Dict({"gear": GEAR, "steer": STEER}),
    "nested": spaces.Dict(
        {"arm": spaces.Tuple((spaces.MultiDiscrete([3, 2]), spaces.MultiBinary(2))), "pull": spaces.Box(0, 4, (1,))}
    ),
    "finite": spaces.Tuple((GEAR, spaces.Dict({"doors": spaces.MultiDiscrete([2, 3])}))),
}


def best_gear(target: Any) -> int:
    """1, 2 or 3, by the first number of the target."""
    return 1 + int(target[0] > -1 / 3) + int(target[0] > 1 / 3)


class Parts(gymnasium.Env[Any, Any]):
    """Pays 1 for the best gear, less the mean distance of both numbers of the steering from the target's other two.

    Where there is no such part, each step pays 0. An episode of uniformly random actions is worth −2⅔ on average, as a
    third of the gears is right and the distance of two uniform numbers in ±1 is ⅔; the best one is worth 8.

    Args:
        kind: of the action space. masks: how masks are given: "info", "method", "flat" (info, all in a row), or "" for
            none; not of the kind "nested". fault: what is wrong with them after the first step: "missing", "length" or
            "empty".
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012

    def __init__(self, kind: str = "tuple", masks: str = "", fault: str = "", render_mode: str | None = None) -> None:
        self.action_space = SPACES[kind]
        self.observation_space = spaces.Box(-1, 1, (3,), np.float32)
        self.render_mode = render_mode
        self.masks = masks
        self.fault = fault
        if masks == "method":
            self.action_masks = self.mask

    def mask(self) -> Any:
        """Forbids the gear that follows the best one, and the doors (0, 0), if there are doors."""
        gears = np.ones(3, np.int8)
        gears[best_gear(self._target) % 3] = 0
        if self.action_space is SPACES["tuple"]:
            return gears if self.masks == "flat" else (gears, None)
        if self.action_space is SPACES["dict"]:
            return gears if self.masks == "flat" else {"gear": gears}
        doors: Any = (np.array([0, 1], np.int8), np.array([0, 1, 1], np.int8))
        if self._steps and self.fault == "length":
            doors = doors[:1]
        if self._steps and self.fault == "empty":
            gears[:] = 0
        if self._steps and self.fault == "missing":
            return gears, {}
        if self.masks == "flat":
            return np.concatenate((gears, *doors))
        return gears, {"doors": doors}

    def _info(self) -> dict[str, Any]:
        if self.masks in ("info", "flat"):
            return {"action_mask": self.mask()}
        return {}

    def _observe(self) -> Any:
        self._target = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return self._target

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._observe(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        if self.masks:
            gear, rest = action.values() if self.action_space is SPACES["dict"] else action
            assert gear != 1 + best_gear(self._target) % 3, "forbidden gear"
            assert self.action_space is not SPACES["finite"] or rest["doors"].all(), "forbidden doors"
        reward = 0.0
        if self.action_space in (SPACES["tuple"], SPACES["dict"]):
            gear, steer = action.values() if isinstance(action, dict) else action
            reward = float(gear == best_gear(self._target)) - float(np.abs(steer - self._target[1:]).mean())
        self._steps += 1
        return self._observe(), reward, False, self._steps == LENGTH, self._info()

    def render(self) -> Any:
        return np.full((48, 48, 3), 100, np.uint8)


for _kind in SPACES:
    gymnasium.register(f"Parts-{_kind}-v0", entry_point="tests.toys_parts:Parts", kwargs={"kind": _kind})


def env_name(kind: str) -> str:
    """The environment's name for `a3c-zoo train`."""
    return f"gym:tests.toys_parts:Parts-{kind}-v0"
