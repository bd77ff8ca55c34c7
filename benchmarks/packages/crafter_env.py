"""Crafter, which has the interface of the old library Gym, as an environment of Gymnasium's."""

import crafter
import gymnasium
import numpy as np


class Crafter(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 255, (64, 64, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(17)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.game = crafter.Env(seed=int(self.np_random.integers(2**31)))
        return self.game.reset(), {}

    def step(self, action):
        frame, reward, is_over, info = self.game.step(action)
        is_dead = info["discount"] == 0
        return frame, float(reward), is_dead, is_over and not is_dead, {}
