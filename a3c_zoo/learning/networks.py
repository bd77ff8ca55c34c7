"""Actor-critic networks: observations in, logits and values out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": torch.relu, "elu": functional.elu}

#: Normalised observations are clipped to ± so many standard deviations.
OBSERVATION_LIMIT = 10.0


class ActorCritic(nn.Module):
    """What the stages need of a network. B stands for the leading axes, however many there are.

    Attributes:
        normalizes: whether the network takes observation statistics (`take_statistics`).
    """

    normalizes: bool = False

    def policy(self, observations: Tensor) -> Tensor:
        """Logits `[B, A]` for observations `[B, ...]`: all that acting needs."""
        raise NotImplementedError

    def value(self, observations: Tensor) -> Tensor:
        """State values `[B]`, float32, for observations `[B, ...]`."""
        raise NotImplementedError

    def evaluate(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Logits `[T·N, A]` of the first T rows and values `[(T+1)·N]` of all, for observations `[T+1, N, ...]`."""
        acted = observations[:-1].flatten(0, 1)
        return self.policy(acted), self.value(observations.flatten(0, 1))

    def take_statistics(self, mean: Tensor, scale: Tensor) -> None:
        """Takes the running mean and 1/deviation of the observations, both `[F]`; for networks that want them."""
        raise NotImplementedError

    # With a recurrent core (`a3c_zoo.learning.recurrent`), in place of the three above. States are `[K, N, H]`.

    def start(self, num_envs: int) -> Tensor | None:
        """The core's state before an episode, in N environments; None for a network without a core."""
        return None

    def step(self, observations: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Logits `[N, A]` for observations `[N, ...]`, and the state after them."""
        raise NotImplementedError

    def value_after(self, observations: Tensor, state: Tensor) -> Tensor:
        """Values `[N]` of observations `[N, ...]` that follow a state."""
        raise NotImplementedError

    def unroll(
        self, observations: Tensor, state: Tensor, resets: NDArray[np.bool_], places: Sequence[tuple[int, int]]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One pass over a rollout, as `evaluate`, and states within it.

        Args:
            observations: `[T+1, N, ...]`. state: before row 0. resets: before which rows it becomes 0, `[T+1, N]`.
            places: rows t and environments n, each of which resets before row t+1.

        Returns:
            Logits `[T·N, A]`, values `[(T+1)·N]`, and the state after row t in environment n for each place,
            `[K, places, H]`, without gradient.
        """
        raise NotImplementedError


class Split(ActorCritic):
    """A network whose body and heads can be called one by one, so that a recurrent core finds room between them.

    Attributes:
        num_features: F, what the body gives.
    """

    num_features: int

    def features(self, observations: Tensor) -> Tensor:
        """`[B, F]` for observations `[B, ...]`, in the network's precision."""
        raise NotImplementedError

    def logits(self, outputs: Tensor) -> Tensor:
        """Logits `[B, A]`, float32, for what the core gives, `[B, H]`, in any precision."""
        raise NotImplementedError

    def values(self, outputs: Tensor) -> Tensor:
        """Values `[B]`, float32, likewise."""
        raise NotImplementedError


def linear(inputs: int, outputs: int, gain: float) -> nn.Linear:
    """A layer with orthogonal weights (Saxe et al. 2014, arXiv:1312.6120) and zero biases."""
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
