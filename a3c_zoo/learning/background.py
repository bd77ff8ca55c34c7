"""The background of an environment's pictures: the value that most of their pixels have."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from a3c_zoo.learning.contract import CheckedEnvironment
from a3c_zoo.learning.spaces import ObservationSpec

#: So many steps are looked at, unless an episode ends before. The seed is that of the first reset and the actions.
STEPS, SEED = 32, 0


def background_of(env: VectorEnv[Any, Any, Any], name: str, spec: ObservationSpec) -> int:
    """Returns the most frequent value of the pixels, 0 to 255, in the first steps with random actions.

    Args:
        env: is reset, and stays somewhere in an episode. name: its name in messages. spec: of its pictures.

    Raises:
        EnvironmentContractError: an observation is not what its space promises.
    """
    checked, counts = CheckedEnvironment(env, name, spec), np.zeros(256, np.int64)
    pictures, is_over = checked.reset(SEED), False
    env.action_space.seed(SEED)
    for _ in range(STEPS):
        counts += np.bincount(pictures.reshape(-1).view(np.uint8), minlength=256)
        if is_over:
            break
        with checked.raising_in("step"):
            observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
        pictures, is_over = checked.observation(observation), bool(np.any(terminated | truncated))
    return int(counts.argmax())
