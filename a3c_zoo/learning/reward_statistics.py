"""The scale of rewards that finds itself (`agent.reward_scale: auto`).

In the loss a reward is divided by the running deviation of the discounted return, and then limited to ±10.
This is the rule of stable-baselines3's `VecNormalize`: after each step of an environment the return so far is
G ← γ·G + r; an end of the episode sets it back to 0. The mean of rewards stays as it is, because to shift them
would change what is best in episodes of different lengths.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from a3c_zoo.learning.rollout import Rollout
from a3c_zoo.learning.running_statistics import RunningStatistics

#: Scaled rewards are limited to ± this, as in `VecNormalize`.
REWARD_LIMIT = 10.0
#: Added to the variance, as in `VecNormalize`: rewards that are all 0 are not divided by 0.
SMALLEST_VARIANCE = 1e-8


class RewardStatistics(RunningStatistics):
    """The running statistics of the discounted return so far, F = 1, over all workers."""

    def deviation(self) -> float:
        """The standard deviation √(σ² + 1e-8) by which rewards are divided; 1 before the first step."""
        count, _, deviations = self.total()
        if not count:
            return 1.0
        return math.sqrt(deviations / count + SMALLEST_VARIANCE)


class DiscountedReturns:
    """The discounted return so far in each of N environments: Σ γ^k · r_(t−k) over the steps of its episode.

    Args:
        num_envs: N. gamma: discount per step.

    Attributes:
        newest: after the last step, `[N]`, float64.
    """

    def __init__(self, num_envs: int, gamma: float) -> None:
        self.newest: NDArray[np.float64] = np.zeros(num_envs)
        self._gamma = gamma

    def add(self, rollout: Rollout) -> NDArray[np.float64]:
        """Goes on over a rollout of T steps; returns the return after each valid step, `[B, 1]`.

        After the end of an episode, and after a step that the environment ignored, the return is 0 again.
        """
        returns = np.empty(rollout.rewards.shape)
        restarts = rollout.terminated | rollout.truncated | ~rollout.valid
        for t, reward in enumerate(rollout.rewards):
            self.newest *= self._gamma
            self.newest += reward
            returns[t] = self.newest
            self.newest[restarts[t]] = 0
        return returns[rollout.valid][:, None]
