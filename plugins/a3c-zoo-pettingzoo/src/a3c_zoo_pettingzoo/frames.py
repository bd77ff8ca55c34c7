"""Frames of a game as a network for pictures takes them: small, grey, the newest ones together."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from a3c_zoo_pettingzoo.vector import GamesVectorEnv


class SmallFrames(VectorWrapper):
    """Each agent sees its newest `stack` frames, grey and `size` × `size`, as uint8 `[size, size, stack]`.

    An agent's first observation in a game repeats its first frame.

    Args:
        env: games whose observations are frames of bytes, `[height, width, 3]`.
    """

    def __init__(self, env: GamesVectorEnv, size: int = 84, stack: int = 4) -> None:
        super().__init__(env)
        seen = env.single_observation_space
        is_frame = isinstance(seen, spaces.Box) and seen.dtype == np.uint8 and seen.shape[2:] == (3,)
        if not (isinstance(env, GamesVectorEnv) and is_frame):
            raise TypeError(f"it takes games whose observations are frames [height, width, 3] of bytes, not {seen}")
        self._games = env
        self._size = size
        self.single_observation_space = spaces.Box(0, 255, (size, size, stack), np.uint8)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self._stacks = np.zeros((env.num_envs, size, size, stack), np.uint8)

    def reset(self, **arguments: Any) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Starts all games."""
        observations, info = self.env.reset(**arguments)
        self._stacks[:] = self._small(observations)[..., np.newaxis]
        return self._stacks.copy(), info

    def step(self, actions: Any) -> tuple[Any, ...]:
        """Adds the newest frames."""
        observations, *rest, info = self.env.step(actions)
        small = self._small(observations)
        self._stacks[..., :-1] = self._stacks[..., 1:]
        self._stacks[..., -1] = small
        begins = self._games.ignored_actions(info)
        self._stacks[begins] = small[begins][..., np.newaxis]
        return self._stacks.copy(), *rest, info

    def _small(self, frames: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """`[N, size, size]` of `[N, height, width, 3]`."""
        grey = [cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY) for frame in frames]
        small = [cv2.resize(frame, (self._size, self._size), interpolation=cv2.INTER_AREA) for frame in grey]
        return np.array(small, np.uint8)
