"""Standard deviations of a Gaussian policy: parameters that do not depend on the observation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from a3c_zoo.learning.networks import ActorCritic

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


class WithDeviations(ActorCritic):
    """Wraps a network whose outputs are means μ `[B, D]`; appends log σ `[D]` to each row, which gives `[B, 2D]`.

    Any network can be wrapped, with or without a recurrent core. σ is 1 at the start.

    Args:
        network: its policy outputs are D means. num_actions: D.
    """

    network: Any  # an ActorCritic; Any, like all attributes of an nn.Module
    log_std: nn.Parameter

    def __init__(self, network: ActorCritic, num_actions: int) -> None:
        super().__init__()
        self.network = network
        self.log_std = nn.Parameter(torch.zeros(num_actions))
        self.normalizes = network.normalizes

    def take_statistics(self, mean: Tensor, scale: Tensor) -> None:
        self.network.take_statistics(mean, scale)

    def policy(self, observations: Tensor) -> Tensor:
        return self._complete(self.network.policy(observations))

    def value(self, observations: Tensor) -> Tensor:
        values: Tensor = self.network.value(observations)
        return values

    def evaluate(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        means, values = self.network.evaluate(observations)
        return self._complete(means), values

    def start(self, num_envs: int) -> Tensor | None:
        state: Tensor | None = self.network.start(num_envs)
        return state

    def step(self, observations: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        means, state = self.network.step(observations, state)
        return self._complete(means), state

    def value_after(self, observations: Tensor, state: Tensor) -> Tensor:
        values: Tensor = self.network.value_after(observations, state)
        return values

    def unroll(
        self, observations: Tensor, state: Tensor, resets: NDArray[np.bool_], places: Sequence[tuple[int, int]]
    ) -> tuple[Tensor, Tensor, Tensor]:
        means, values, states = self.network.unroll(observations, state, resets, places)
        return self._complete(means), values, states

    def _complete(self, means: Tensor) -> Tensor:
        return torch.cat((means, self.log_std.float().expand_as(means)), dim=-1)
