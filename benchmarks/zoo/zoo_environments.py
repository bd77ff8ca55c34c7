"""Environments whose numbers are far from 1, for benchmarks/zoo_table.py: `gym:zoo_environments:Inventory-v0`.

The folder of this module must be in PYTHONPATH. `NAMETenThousand-v0` and `NAMEThousandth-v0` are Gymnasium's
environments with their rewards times 10⁴ and 10⁻³.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.wrappers import TransformReward
from numpy.typing import NDArray

#: Units of goods.
CAPACITY, MEAN_DEMAND, ORDER_STEP = 100_000, 10_000, 5_000
#: Money for a unit that is sold, bought, and kept for a day.
PRICE, COST, STORAGE = 1.0, 0.6, 0.05
#: Days between an order and its delivery, and days of an episode.
DELIVERY_DAYS, DAYS = 2, 30
#: Demand of each day of the week, as a share of the mean one.
WEEK = np.array([0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 0.9])


class Inventory(gymnasium.Env[NDArray[np.float32], np.int64]):
    """A shop that orders goods once a day, and is paid for what it sells.

    Action k orders 5,000·k units, k from 0 to 6. They come two days later, and are paid then; what exceeds the capacity
    is lost. An episode has 30 days. Its return is the profit. Means of 300 episodes: -75,000 with random orders, which
    fill the store, and 83,000 with 10,000 units a day.

    Observation: float32 `[4]`, in units, all from 0 to 100,000: the stock, what comes tomorrow, what comes the day
    after, and the mean demand of this day of the week.
    """

    observation_space = Box(0.0, CAPACITY, (4,), np.float32)
    action_space = Discrete(7)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self._day = int(self.np_random.integers(7))
        self._stock = float(self.np_random.uniform(0, 2 * MEAN_DEMAND))
        self._coming = [float(MEAN_DEMAND)] * DELIVERY_DAYS
        return self._observation(), {}

    def step(self, action: np.int64) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        demand = self.np_random.normal(1, 0.2) * self._mean_demand()
        sold = min(self._stock, max(0.0, demand))
        delivered = self._coming.pop(0)
        self._coming.append(float(ORDER_STEP * int(action)))
        self._stock = min(self._stock - sold + delivered, CAPACITY)
        self._day += 1
        profit = PRICE * sold - COST * delivered - STORAGE * self._stock
        return self._observation(), profit, False, False, {}

    def _mean_demand(self) -> float:
        return float(MEAN_DEMAND * WEEK[self._day % 7])

    def _observation(self) -> NDArray[np.float32]:
        return np.array([self._stock, *self._coming, self._mean_demand()], np.float32)


def scaled(env_id: str, factor: float, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    """Makes an environment whose rewards are those of `env_id` times `factor`."""
    return TransformReward(gymnasium.make(env_id, **kwargs), lambda reward: factor * float(reward))


def register() -> None:
    """Registers all of them."""
    gymnasium.register("Inventory-v0", Inventory, max_episode_steps=DAYS)
    for word, factor in (("TenThousand", 1e4), ("Thousandth", 1e-3)):
        for name, env_id in (
            ("CartPole", "CartPole-v1"),
            ("InvertedPendulum", "InvertedPendulum-v5"),
            ("Reacher", "Reacher-v5"),
        ):
            gymnasium.register(f"{name}{word}-v0", partial(scaled, env_id, factor))


register()
