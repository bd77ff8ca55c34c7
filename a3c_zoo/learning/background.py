"""The background of an environment's pictures: the most frequent value of their pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from a3c_zoo.config import EnvConfig
from a3c_zoo.learning.action_masks import masks_to_follow
from a3c_zoo.learning.autoreset import episode_over
from a3c_zoo.learning.contract import CheckedEnvironment
from a3c_zoo.learning.spaces import ObservationSpec

#: The number of steps that are looked at; fewer if an episode ends before.
STEPS = 32
#: The seed of the first reset and of the actions.
SEED = 0


def background_of(env: VectorEnv[Any, Any, Any], config: EnvConfig, name: str, spec: ObservationSpec) -> int:
    """Returns the most frequent value of the pixels, 0 to 255, in the first steps with random allowed actions.

    Args:
        env: is reset, and stays somewhere in an episode. config: with which it was made.
        name: its name in messages. spec: of its pictures.

    Raises:
        EnvironmentContractError: the environment does not return what its spaces promise.
    """
    checked = CheckedEnvironment(env, name, spec)
    counts = np.zeros(256, np.int64)
    over = episode_over(env)
    pictures = checked.reset(SEED)
    masks = masks_to_follow(env, config, name, checked.reset_info)
    random = np.random.default_rng(SEED)
    is_over = False
    env.action_space.seed(SEED)
    for _ in range(STEPS):
        counts += np.bincount(pictures.reshape(-1).view(np.uint8), minlength=256)
        if is_over:
            break
        if masks is None:
            actions = env.action_space.sample()
        else:
            actions = masks.random_actions(random)
        with checked.raising_in("step"):
            observation, reward, terminated, truncated, info = env.step(actions)
        checked.check_step(reward, terminated, truncated)
        pictures = checked.observation(observation)
        ended = np.asarray(over(terminated, truncated, info), np.bool_)
        is_over = bool(ended.any())
        if masks is not None:
            masks.step(info, ended)
    return int(counts.argmax())
