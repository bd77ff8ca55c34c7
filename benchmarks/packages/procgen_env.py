"""A game of Procgen, which has the interface gym3, as an environment of Gymnasium's."""

import gymnasium
import numpy as np
from procgen import ProcgenGym3Env


class Procgen(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 255, (64, 64, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(15)

    def __init__(self, game="bigfish", distribution_mode="easy", use_backgrounds=False):
        self.arguments = {"distribution_mode": distribution_mode, "use_backgrounds": use_backgrounds}
        self.game = game

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        number = int(self.np_random.integers(2**31))
        self.env = ProcgenGym3Env(1, self.game, num_threads=0, rand_seed=number, **self.arguments)
        return self.frame(), {}

    def frame(self):
        return self.env.observe()[1]["rgb"][0]

    def step(self, action):
        self.env.act(np.array([action]))
        reward, _, is_first = self.env.observe()
        return self.frame(), float(reward[0]), bool(is_first[0]), False, {}
