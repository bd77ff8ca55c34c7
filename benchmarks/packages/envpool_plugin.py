"""A plugin file: CartPole of EnvPool, which plays all environments of a worker in one call."""

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from a3c_zoo import EnvEntry, hookimpl


class Pool(VectorEnv):
    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, num_envs, seed):
        self.num_envs = num_envs
        self.reset(seed=seed)
        self.single_observation_space = self.pool.observation_space
        self.single_action_space = self.pool.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed=None, options=None):
        if seed is not None:  # EnvPool takes a seed only where it makes environments
            import envpool

            self.pool = envpool.make_gymnasium("CartPole-v1", num_envs=self.num_envs, seed=seed)
        return self.pool.reset()[0], {}

    def step(self, actions):
        return *self.pool.step(actions.astype(np.int32))[:4], {}


@hookimpl
def zoo_envs():
    return [EnvEntry("envpool-cartpole", factory="envpool_plugin:Pool", family="gym", threshold=475)]
