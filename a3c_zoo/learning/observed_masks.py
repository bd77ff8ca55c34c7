"""Action masks that an environment puts into its observations, under the key `action_mask`, as PettingZoo's do."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import VectorEnv, VectorWrapper

KEY = "action_mask"


def holds_masks(observation_space: Space[Any] | None, action_space: Space[Any] | None) -> bool:
    """Whether a part of the observations of one environment must be the mask of its actions.

    It has this key, is of bools or integers, and has a number for each action; see `num_actions`.
    """
    if not isinstance(observation_space, spaces.Dict) or KEY not in observation_space.spaces:
        return False
    mask = observation_space[KEY]
    size = num_actions(action_space)
    return size > 0 and mask.shape == (size,) and np.dtype(mask.dtype).kind in "biu"


def num_actions(space: Space[Any] | None) -> int:
    """How many actions there are in all Discrete and MultiDiscrete parts of a space."""
    match space:
        case spaces.Discrete():
            return int(space.n)
        case spaces.MultiDiscrete():
            return int(space.nvec.sum())
        case spaces.Dict():
            return sum(map(num_actions, space.spaces.values()))
        case spaces.Tuple():
            return sum(map(num_actions, space.spaces))
        case _:
            return 0


def with_observed_masks(env: VectorEnv[Any, Any, Any]) -> VectorEnv[Any, Any, Any]:
    """The environment; if its observations hold masks, one that gives them in its infos, too."""
    seen = getattr(env, "single_observation_space", None)
    acted = getattr(env, "single_action_space", None)
    if holds_masks(seen, acted):
        return ObservedMasks(env)
    return env


class ObservedMasks(VectorWrapper):
    """Gives the masks that observations hold as `info["action_mask"]`, unless the info has it. Nothing else changes."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)  # such as get_state, which Gymnasium's wrapper hides

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        observations, info = self.env.reset(**arguments)
        return observations, _told(observations, info)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        observations, *result, info = self.env.step(actions)
        return observations, *result, _told(observations, info)


def _told(observations: Any, info: Any) -> Any:
    if isinstance(observations, dict) and isinstance(info, dict) and KEY in observations:
        return {KEY: observations[KEY], **info}
    return info
